"""Intents: which selections were begun, put down before the first byte, so that the agent after one that was killed in the middle can tell of them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from hwd_agents.spool.spool import Mark

MARK: Final = "selections begun"


class Intents:
    """One mark in the spool, {selection: what was about to be done}. It goes in the same frame as the event that tells how the selection ended.

    `keep` returns when the file has it; a disk that is full, which the birth tells of, has it in memory only.
    """

    def __init__(self, marks: Mapping[str, Mark], keep: Callable[[str, Mark], None]) -> None:
        self._keep = keep
        self._begun: dict[str, Any] = dict(marks.get(MARK, {}))
        self._earlier = tuple(self._begun)

    @property
    def left(self) -> dict[str, Any]:
        """Those that an earlier life of the agent began and whose end nobody has told yet, oldest first."""
        return {selection: self._begun[selection] for selection in self._earlier if selection in self._begun}

    def begin(self, selection: str, what: Mapping[str, Any]) -> None:
        """Before anything of it is done."""
        self._begun[selection] = what
        self._keep(MARK, dict(self._begun))

    def end(self, selection: str) -> dict[str, Mark]:
        """The mark without it, for the event that tells its end."""
        if self._begun.pop(selection, None) is None:
            return {}
        return {MARK: dict(self._begun)}
