"""A front of a Polatis unit: one of its protocols behind a socket; all fronts of a unit act on the one Unit."""

from typing import Protocol

from hwd_drivers.core.clock import Clock
from hwd_drivers.families.polatis.unit import Unit
from hwd_drivers.transports.dial import Dialer


class Front(Protocol):
    """Answers one protocol for a unit."""

    async def start(self) -> str:
        """Listen; returns the address."""
        ...

    async def close(self) -> None:
        """Stop, all its sessions too; safe to call any number of times."""
        ...


class MakeFront(Protocol):
    """Makes a front that is not started yet. What a protocol needs from outside this package (SSH) is imported in `start`, not at the top of its module."""

    def __call__(self, unit: Unit, *, dialer: Dialer, clock: Clock, address: str) -> Front: ...
