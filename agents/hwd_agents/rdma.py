"""RdmaWatcher: tells when an RDMA port became active with its GID there, and when it stopped being so."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from hwd_agents.config import PortConfig, SamplingConfig
from hwd_agents.observation import Observation, Tally
from hwd_agents.outbox import Emit
from hwd_agents.pace import Pace
from hwd_agents.sources.readings import FileReading, FileSource
from hwd_drivers.kit.clock import Clock
from hwd_drivers.kit.errors import LinkError

SOURCE: Final = "sysfs"
ACTIVE: Final = "4:"
"""The kernel's `ports/N/state` reads `4: ACTIVE` (IBA 1.7, 14.2.5.6: PortState 4)."""
PATIENCE_PARTS: Final = 50
"""Fast reads get slower with the time since the carrier changed, to one 50th of it: the error stays within 2 %."""
_log = logging.getLogger(__name__)


class RdmaWatcher:
    """Events `rdma`, for the ports that have an RDMA device. The kernel pushes nothing here: it is polled, fast while an observed port's carrier and RDMA state differ."""

    def __init__(
        self,
        ports: Mapping[str, PortConfig],
        source: FileSource,
        clock: Clock,
        emit: Emit,
        *,
        carrier: Callable[[str], bool | None],
        sampling: SamplingConfig,
    ) -> None:
        self.on_active: list[Callable[[str], None]] = []
        self._ports = {
            name: _Port(name, port.rdma, source, clock, emit, carrier, sampling, self.on_active)
            for name, port in ports.items()
            if port.rdma is not None
        }

    async def run(self) -> None:
        """Poll until cancelled."""
        async with asyncio.TaskGroup() as group:
            for name, port in self._ports.items():
                group.create_task(port.run(), name=f"hwd:rdma/{name}")

    def active(self, port: str) -> bool | None:
        """Whether a port is active; None where that is not known, or it has no RDMA device."""
        return self._ports[port].active if port in self._ports else None

    def why_not(self, port: str) -> str:
        """Why nothing can be told; empty where something can."""
        return self._ports[port].why_not if port in self._ports else "no RDMA device is configured for it"

    def hurry(self) -> None:
        """Look at all ports now."""
        for port in self._ports.values():
            port.hurry()

    def carrier_changed(self, port: str) -> None:
        """Look at once: RDMA follows the carrier."""
        if port in self._ports:
            self._ports[port].carrier_changed()

    async def begin(self, port: str) -> None:
        """Observe a port; returns after its first look."""
        if port in self._ports:
            await self._ports[port].begin()

    def end(self, port: str) -> None:
        """Observe it no more."""
        if port in self._ports:
            self._ports[port].end()

    def observation(self, port: str) -> Observation:
        """What was seen since `begin`."""
        if port not in self._ports:
            return Observation(seen=False, why_not=self.why_not(port))
        return self._ports[port].observation()


class _Port:
    def __init__(
        self,
        name: str,
        device: str,
        source: FileSource,
        clock: Clock,
        emit: Emit,
        carrier: Callable[[str], bool | None],
        sampling: SamplingConfig,
        on_active: list[Callable[[str], None]],
    ) -> None:
        self._on_active = on_active
        self._name = name
        one, _, number = device.partition("/")
        self._folder = f"class/infiniband/{one}/ports/{number or 1}"
        self._source = source
        self._clock = clock
        self._emit = emit
        self._carrier = carrier
        self._sampling = sampling
        self._pace = Pace()
        self._observed = False
        self._tally: Tally | None = None
        self._changed_s = 0.0
        self._last_ns: int | None = None  # when the last look began
        self._looked: asyncio.Future[None] | None = None
        self._known: bool | None = None  # outlasts a source that is away for a while
        self.active: bool | None = None
        self.why_not = ""

    async def run(self) -> None:
        while True:
            await self._look()
            await self._pace.wait(self._every_s())

    def hurry(self) -> None:
        self._pace.hurry()

    async def begin(self) -> None:
        self._observed = True
        self._tally = None
        looked = self._looked = asyncio.get_running_loop().create_future()
        self._pace.hurry()
        await looked

    def end(self) -> None:
        self._observed = False
        if self._tally is not None:
            self._tally.end(self._clock.monotonic_ns())

    def carrier_changed(self) -> None:
        self._changed_s = asyncio.get_running_loop().time()
        if self._observed:
            self._pace.hurry()

    def observation(self) -> Observation:
        if self._tally is None:
            return Observation(seen=False, why_not=self.why_not or "not observed")
        return self._tally.observation(self._clock.monotonic_ns(), polled=True)

    def _every_s(self) -> float | None:
        slow_s = self._sampling.rdma_slow_s or None
        if not self._observed or self.active is None or self._carrier(self._name) == self.active:
            return slow_s
        waited_s = asyncio.get_running_loop().time() - self._changed_s
        return max(self._sampling.rdma_fast_s, min(waited_s / PATIENCE_PARTS, slow_s or 1.0))

    async def _look(self) -> None:
        try:
            state = await self._source.read_file(f"{self._folder}/state")
            gid = await self._source.read_file(f"{self._folder}/gids/0")
        except LinkError as error:
            self._failed(str(error))
        else:
            if state.text is None:
                self._failed(f"there is no {self._folder}/state")
            else:
                self._took(state.text.startswith(ACTIVE) and _is_gid(gid), state.before_ns, gid.after_ns)
        looked, self._looked = self._looked, None
        if looked is not None:
            if self._observed and self._tally is None:
                self._tally = Tally(from_ns=self._clock.monotonic_ns(), latched=False, state=self.active)
                if self.why_not:
                    self._tally.fail(self.why_not)
            if not looked.done():
                looked.set_result(None)

    def _failed(self, why: str) -> None:
        if why != self.why_not:
            _log.info("%s: its RDMA state is unseen: %s", self._name, why)
        self.why_not = why
        self.active = None
        if self._tally is not None:
            self._tally.fail(why)

    def _took(self, active: bool, before_ns: int, after_ns: int) -> None:
        self.why_not = ""
        was, self.active, self._known = self._known, active, active
        last_ns, self._last_ns = self._last_ns, before_ns
        if self._tally is not None:
            self._tally.look(after_ns, active, lost=int(was is True and not active))
        if was is None or was == active or last_ns is None:
            return
        self._emit(
            "rdma",
            self._name,
            earliest_ns=last_ns,
            at_ns=after_ns,
            source=SOURCE,
            origin=self._source.note.origin,
            sampling_ns=after_ns - last_ns,
            data={"active": active},
        )
        if active:
            for call in self._on_active:
                call(self._name)


def _is_gid(reading: FileReading) -> bool:
    """A GID table entry that is not there reads as zeros."""
    return reading.text is not None and reading.text.strip(" \n:0") != ""
