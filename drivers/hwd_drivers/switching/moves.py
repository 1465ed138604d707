"""SwitchMoves: what one switch is asked to do, and what it reported before."""

from dataclasses import dataclass
from enum import StrEnum

from hwd_drivers.core.values import Crossconnect


class ApplyMode(StrEnum):
    """The treatment of crossconnects that collide with wanted ones."""

    SAFE = "safe"
    """Refuse when a wanted end is in use."""
    UPDATE = "update"
    """Replace those that collide, keep the rest."""
    OVERWRITE = "overwrite"
    """Replace everything on the switches that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchMoves:
    """The moves of one switch, and what it reported before.

    `failed`: those of `before` that it reported as failed. `lasting`: crossconnects of elements that always join
    something, and whose earlier state nobody knew: they cannot be rolled back.
    """

    switch: str
    remove: tuple[Crossconnect, ...]
    add: tuple[Crossconnect, ...]
    keep: tuple[Crossconnect, ...]
    before: tuple[Crossconnect, ...]
    failed: tuple[Crossconnect, ...] = ()
    lasting: tuple[Crossconnect, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing moves."""
        return not (self.remove or self.add)

    @property
    def after(self) -> frozenset[Crossconnect]:
        """Everything that the switch must report when the moves are done."""
        return (frozenset(self.before) - frozenset(self.remove)) | frozenset(self.add)

    def __str__(self) -> str:
        words = [f"-{crossconnect}" for crossconnect in self.remove] + [f"+{crossconnect}" for crossconnect in self.add]
        return f"{self.switch}: {' '.join(words) or 'nothing to do'} ({len(self.keep)} kept)"
