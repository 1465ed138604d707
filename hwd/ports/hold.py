"""Holds: ports that stay reserved while a change of them may still be undone, whether or not a lease is in force."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class HeldFor(StrEnum):
    """What may still be undone."""

    RECONFIGURATION = "reconfiguration"
    """Crossconnects that a reconfiguration may roll back. Only its own end frees the ports."""
    SETTINGS = "settings"
    """Settings of NIC ports that a run has made. The run itself, and the holder of the ports' earlier
    lease, may continue.
    """

    DELEGATION = "delegation"
    """A switch that belongs to a host, which alone sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """`id` is what commands name, `run` the run that it belongs to. `words(ports)` says why some of its ports are held
    now, and what frees them.
    """

    id: str
    held_for: HeldFor
    ports: frozenset[str]
    run: str | None
    words: Callable[[Sequence[str]], str]

    def __str__(self) -> str:
        return self.words(sorted(self.ports))
