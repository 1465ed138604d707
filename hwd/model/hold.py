"""Holds: ports that nobody can take for as long as what was done to them may still be undone, whatever becomes of a lease."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class HeldFor(StrEnum):
    """What it is that may still be undone."""

    RECONFIGURATION = "reconfiguration"
    """A way back of switches. Only its own end frees the ports."""
    SETTINGS = "settings"
    """Settings of NIC ports that a run has made. The run itself, and whoever leased the ports before, goes on."""

    DELEGATION = "delegation"
    """A switch that belongs to a host, which alone sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """`id` is what commands name, `run` whose it is. `words(ports)` says of some of its ports what keeps them, now, and what can be done."""

    id: str
    held_for: HeldFor
    ports: frozenset[str]
    run: str | None
    words: Callable[[Sequence[str]], str]

    def __str__(self) -> str:
        return self.words(sorted(self.ports))
