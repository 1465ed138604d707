"""LineBank: the interface between driver and lines: a GPIO chip of this machine, or a bank behind a socket."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hwd_drivers.families.ttl.protocol import Bank


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Lines to hold and to pulse, in one step.

    Levels are those on the wire; pulses have their width in microseconds.
    """

    hold: Mapping[int, bool] = field(default_factory=dict)
    pulses: Mapping[int, Mapping[int, bool]] = field(default_factory=dict)


class LineBank(Protocol):
    """Lines by their numbers. A pulse that has started ends, even if its caller is cancelled."""

    async def identify(self, *, deadline_s: float) -> Bank: ...

    async def read(self, lines: Sequence[int], *, deadline_s: float) -> Mapping[int, bool]:
        """Levels on the wire."""
        ...

    async def carry_out(self, order: Order, *, deadline_s: float, on_sent: Callable[[int], None] | None = None) -> int:
        """Returns when it is done: `Clock.monotonic_ns` from just before its start, as passed to `on_sent`.

        Nothing is done after the deadline. Raises DeviceError where the bank refuses.
        """
        ...

    async def lost(self) -> Exception: ...

    async def close(self) -> None: ...
