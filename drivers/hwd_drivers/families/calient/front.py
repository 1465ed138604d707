"""A front of a Calient unit: one of its protocols behind a socket; both act on the one Unit."""

from typing import Protocol

from hwd_drivers.core.clock import Clock
from hwd_drivers.families.calient.unit import Unit
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
    """Makes a front that is not started yet."""

    def __call__(self, unit: Unit, *, dialer: Dialer, clock: Clock, address: str) -> Front: ...
