"""FirmwareWatcher: tells when a NIC's own PHY came up or went down."""

import asyncio
from collections.abc import Mapping
from typing import Final

from hwd_agents.config import PortConfig
from hwd_agents.observation import Observation, Tally
from hwd_agents.outbox import Emit
from hwd_agents.sources.readings import PhySource
from hwd_drivers.kit.clock import Clock

SOURCE: Final = "phy"


class FirmwareWatcher:
    """Events `firmware`. The first word of a PHY is where it stands; events are what comes after."""

    def __init__(self, ports: Mapping[str, PortConfig], source: PhySource, clock: Clock, emit: Emit) -> None:
        self._ports = {port.interface: name for name, port in ports.items()}
        self._source = source
        self._clock = clock
        self._emit = emit
        self._up: dict[str, bool] = {}
        self._tallies: dict[str, Tally] = {}

    async def run(self) -> None:
        """Listen until cancelled."""
        await self._source.open_phy(self._take)
        await asyncio.get_running_loop().create_future()

    def up(self, port: str) -> bool | None:
        """Whether the PHY of a port is up; None where nobody said."""
        return None if self._source.note.why_not else self._up.get(port)

    def begin(self, port: str) -> None:
        """Observe a port."""
        tally = self._tallies[port] = Tally(from_ns=self._clock.monotonic_ns(), latched=True, state=self.up(port))
        if self.up(port) is None:
            tally.fail(self._source.note.why_not or "its PHY did not say anything yet")

    def end(self, port: str) -> None:
        """Observe it no more."""
        if port in self._tallies:
            self._tallies[port].end(self._clock.monotonic_ns())

    def observation(self, port: str) -> Observation:
        """What was seen of its PHY since `begin`."""
        if port not in self._tallies:
            return Observation(seen=False, why_not=self._source.note.why_not or "not observed")
        return self._tallies[port].observation(self._clock.monotonic_ns(), polled=False)

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
            data={"up": up},
        )
