"""Intents: records each selection before its first command, so that the agent after a killed one can report it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from hwd_agents.spool.spool import Mark

MARK: Final = "selections begun"


class Intents:
    """One mark in the spool, {selection: what was about to be done}.

    The mark goes in one frame with the event that reports the end of the selection. `keep` returns when the file has
    it; while the disk is full, which the birth message reports, it is in memory only.
    """

    def __init__(self, marks: Mapping[str, Mark], keep: Callable[[str, Mark], None]) -> None:
        self._keep = keep
        self._begun: dict[str, Any] = dict(marks.get(MARK, {}))
        self._earlier = tuple(self._begun)

    @property
    def unreported_selections(self) -> dict[str, Any]:
        """The selections that an earlier process began and whose end was not reported yet, oldest first."""
        return {selection: self._begun[selection] for selection in self._earlier if selection in self._begun}

    def begin(self, selection: str, what: Mapping[str, Any]) -> None:
        """Record a selection; call it before the first command."""
        self._begun[selection] = what
        self._keep(MARK, dict(self._begun))

    def end(self, selection: str) -> dict[str, Mark]:
        """The mark without this selection, for the event that reports its end."""
        if self._begun.pop(selection, None) is None:
            return {}
        return {MARK: dict(self._begun)}
