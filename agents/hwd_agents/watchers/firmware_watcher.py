"""FirmwareWatcher: reports when a NIC's own PHY came up or went down."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from hwd_agents.process.config import PortConfig
from hwd_agents.sources.readings import PhySource
from hwd_agents.spool.outbox import Emit
from hwd_agents.watchers.tally import Tally
from hwd_agents.wire import Observation
from hwd_agents.wire.events import FirmwareData
from hwd_drivers.core.clock import Clock

SOURCE: Final = "phy"


class FirmwareWatcher:
    """A watcher of PHYs: events `firmware`. `on_change` is called when what can be seen of some port has changed.

    The first report of a PHY is its present state; events are the changes after it.
    """

    def __init__(
        self,
        ports: Mapping[str, PortConfig],
        source: PhySource,
        clock: Clock,
        emit: Emit,
        *,
        on_change: Callable[[], None],
    ) -> None:
        self._on_change = on_change
        self._ports = {port.interface: name for name, port in ports.items()}
        self._interfaces = {name: port.interface for name, port in ports.items()}
        self._source = source
        self._clock = clock
        self._emit = emit
        self._up: dict[str, bool] = {}
        self._tallies: dict[str, Tally] = {}

    async def run(self) -> None:
        await self._source.open_phy(self._take, self._on_change)
        await asyncio.get_running_loop().create_future()

    def up(self, port: str) -> bool | None:
        """Whether the PHY of a port is up; None when unknown."""
        return None if self.why_not(port) else self._up.get(port)

    def why_not(self, port: str) -> str:
        """Why a PHY cannot be seen; empty when it can."""
        return self._source.why_not(self._interfaces[port])

    def begin(self, port: str) -> None:
        latched = not self._source.polled
        tally = self._tallies[port] = Tally(from_ns=self._clock.monotonic_ns(), latched=latched, state=self.up(port))
        self._source.observe(self._interfaces[port], True)
        if self.up(port) is None:
            tally.fail(self.why_not(port) or "the state of its PHY was not reported yet")

    def end(self, port: str) -> None:
        self._source.observe(self._interfaces[port], False)
        if port in self._tallies:
            self._tallies[port].end(self._clock.monotonic_ns())

    def observation(self, port: str) -> Observation:
        """What was seen of its PHY since `begin`."""
        if port not in self._tallies:
            return Observation(seen=False, why_not=self.why_not(port) or "not observed")
        return self._tallies[port].observation(self._clock.monotonic_ns(), polled=self._source.polled)

    def _take(self, interface: str, up: bool, earliest_ns: int, at_ns: int) -> None:
        port = self._ports.get(interface)
        if port is None:
            return
        was = self._up.get(port)
        self._up[port] = up
        if port in self._tallies:
            self._tallies[port].look(at_ns, up, lost=int(was is True and not up))
        if was is None or was == up:
            return
        self._emit(
            "firmware",
            port,
            earliest_ns=earliest_ns,
            at_ns=at_ns,
            source=SOURCE,
            origin=self._source.note.origin,
            data=FirmwareData(up=up),
        )
