"""Front: one protocol of a Polatis unit behind a socket; all fronts of a unit act on the same Unit."""

from typing import Protocol

from hwd_drivers.core.clock import Clock
from hwd_drivers.families.polatis.unit import Unit
from hwd_drivers.transports.dial import Dialer


class Front(Protocol):
    """The server of one protocol of a unit."""

    async def start(self) -> str:
        """Listen; returns the address."""
        ...

    async def close(self) -> None:
        """Stop and end all sessions; safe to call any number of times."""
        ...


class MakeFront(Protocol):
    """Makes a front that is not started yet.

    Foreign packages (SSH) are imported in its `start`, not with its module.
    """

    def __call__(self, unit: Unit, *, dialer: Dialer, clock: Clock, address: str) -> Front: ...
