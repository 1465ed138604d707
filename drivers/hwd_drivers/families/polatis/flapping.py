"""Flapping: ports of a Polatis unit that go dark and light again by a programme, to test a network."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from hwd_drivers.core.unit_error import UnitError, Wrong
from hwd_drivers.families.polatis.settings import FlapProgramme, FlapState

OFF_MS: Final = (10, 10_000)
ON_MS: Final = (500, 30_000)
"""Limits of the vendor's YANG model."""
CYCLES_MAX: Final = 65_535


class Flapping:
    """Programmes by port. `hold` is called with a port and whether it must be dark."""

    def __init__(self, hold: Callable[[int, bool], None]) -> None:
        self.programmes: dict[int, FlapProgramme] = {}
        self._hold = hold
        self._timers: dict[int, asyncio.TimerHandle] = {}

    def state(self, port: int) -> FlapState:
        if port in self._timers:
            return FlapState.ACTIVE
        return FlapState.SET if port in self.programmes else FlapState.IDLE

    def programme(self, ports: Sequence[int], programme: FlapProgramme) -> None:
        """Set the programme of all of these ports, and stop it. Raises UnitError for times beyond the limits."""
        for what, value, (least, most) in (
            ("Block time (ms)", programme.off_ms, OFF_MS),
            ("Restore time (ms)", programme.on_ms, ON_MS),
            ("Cycles", programme.cycles, (1, CYCLES_MAX)),
        ):
            if not least <= value <= most:
                raise UnitError(Wrong.VALUE, f"{what} {value} is not between {least} and {most}")
        self.stop(ports)
        self.programmes |= dict.fromkeys(ports, programme)

    def start(self, ports: Sequence[int]) -> None:
        """Start programmes. Raises UnitError where a port has none, and then has started none."""
        for port in ports:
            if port not in self.programmes:
                raise UnitError(Wrong.STATE, f"Port {port} has no programme")
        self.stop(ports)
        for port in ports:
            self._darken(port, self.programmes[port].cycles)

    def stop(self, ports: Sequence[int]) -> None:
        """Stop programmes; their ports are lit again."""
        for port in ports:
            if (timer := self._timers.pop(port, None)) is not None:
                timer.cancel()
                self._hold(port, False)

    def close(self) -> None:
        self.stop(list(self._timers))

    def _darken(self, port: int, left: int) -> None:
        self._hold(port, True)
        self._after(self.programmes[port].off_ms, port, lambda: self._lighten(port, left - 1))

    def _lighten(self, port: int, left: int) -> None:
        self._hold(port, False)
        if left:
            self._after(self.programmes[port].on_ms, port, lambda: self._darken(port, left))
        else:
            del self._timers[port]

    def _after(self, ms: int, port: int, then: Callable[[], None]) -> None:
        self._timers[port] = asyncio.get_running_loop().call_later(ms / 1000, then)
