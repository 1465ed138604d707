"""A stage in virtual time: twin hosts that are played by hand, and an ear for what watchers say."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from hwd_agents.process.config import PortConfig, SamplingConfig
from hwd_agents.sources.sources import Sources
from hwd_agents.sources.twin.hostwire_server import HostWireServer
from hwd_agents.sources.twin.manual_host import ManualHost
from hwd_agents.sources.twin.twin_sources import TwinSources
from hwd_agents.spool.spool import Mark
from hwd_agents.watchers.link_watcher import LinkWatcher
from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.offload import ThreadOffload
from hwd_drivers.transports.dial import Listener
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.virtual_time import VirtualClock

from ..virtual_time import clock, loop, running_loop
from .sources.played_ethtool import PlayedEthtool

__all__ = ["clock", "loop"]

LATENCY_S = 0.0001
LATENCY_NS = 100_000
MS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Told:
    """One event of a watcher."""

    kind: str
    port: str | None
    earliest_ns: int
    at_ns: int
    source: str
    origin: str
    sampling_ns: int
    data: dict[str, Any]


class Ear:
    """Takes what watchers emit, and keeps their marks."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.marks: dict[str, Mark] = {}
        self.marks_after: list[dict[str, Mark]] = [{}]
        """As they were after the first 0, 1, 2 ... words: what is there where its agent is killed then."""

    def __call__(
        self,
        kind: str,
        port: str | None,
        *,
        earliest_ns: int,
        at_ns: int,
        source: str,
        origin: str,
        sampling_ns: int = 0,
        data: msgspec.Struct | Mapping[str, Any],
        marks: Mapping[str, Mark] | None = None,
    ) -> None:
        self.marks.update(marks or {})
        self.told.append(
            Told(
                kind=kind,
                port=port,
                earliest_ns=earliest_ns,
                at_ns=at_ns,
                source=source,
                origin=origin,
                sampling_ns=sampling_ns,
                data=msgspec.to_builtins(data),
            )
        )
        self.marks_after.append(dict(self.marks))

    def mark(self, name: str, value: Mark) -> None:
        self.marks[name] = value
        self.marks_after[-1] = dict(self.marks)

    def kinds(self) -> list[str]:
        return [one.kind for one in self.told]

    def of(self, kind: str) -> list[Told]:
        return [one for one in self.told if one.kind == kind]


class Stage:
    """Played hosts `h0`, `h1` ... with one to many ports `eth0`, `eth1` ..., port n of host m at 10.0.m.n."""

    def __init__(self) -> None:
        self.clock = VirtualClock(running_loop(), wall_start_ns=1_800_000_000 * 10**9)
        self.dialer = MemoryDialer(MemoryNet(latency_s=LATENCY_S))
        self.hosts: dict[str, ManualHost] = {}
        self.sources: dict[str, Sources] = {}
        self.changes = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._listeners: dict[str, Listener] = {}

    async def add(self, name: str, *, ports: int = 1) -> ManualHost:
        host = self.hosts[name] = ManualHost(name)
        for number in range(ports):
            host.plug(f"eth{number}", ip=ip(name, number), rdma=f"mlx5_{number}", ifindex=100 + number)
        await self.rack_up(name)
        self.sources[name] = TwinSources(self.dialer, f"mem:{name}", self.clock, host=name).sources()
        background = self.sources[name].background
        assert background is not None
        self._start(background(self._changed))
        await asyncio.sleep(0.01)
        return host

    async def rack_up(self, name: str) -> None:
        host = self.hosts[name]
        self._listeners[name] = await self.dialer.listen(lambda: HostWireServer(host, self.clock), f"mem:{name}")

    async def rack_down(self, name: str) -> None:
        await self._listeners[name].close()
        self.hosts[name].hang_up()

    def run(self, watcher: Any) -> "asyncio.Task[None]":
        """Run a watcher, again where its source fails, until the end of the test or until it is cancelled."""
        return self._start(_keep(watcher))

    def now_ns(self) -> int:
        return self.clock.monotonic_ns()

    async def close(self) -> None:
        for task in reversed(self._tasks):
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result
        for listener in self._listeners.values():
            await listener.close()

    def _start(self, coro: Any) -> "asyncio.Task[None]":
        self._tasks.append(asyncio.create_task(coro))
        return self._tasks[-1]

    def _changed(self) -> None:
        self.changes += 1


async def _keep(watcher: Any) -> None:
    while True:
        try:
            await watcher.run()
            return
        except HwdError:  # as the agent does
            await asyncio.sleep(0.05)


def ip(host: str, port: int = 0) -> str:
    return f"10.0.{host[1:]}.{port}"


@asynccontextmanager
async def stage(*hosts: str, ports: int = 1) -> AsyncIterator[Stage]:
    one = Stage()
    for name in hosts:
        await one.add(name, ports=ports)
    try:
        yield one
    finally:
        await one.close()


@pytest.fixture
async def one(virtual_time: None) -> AsyncIterator[Stage]:
    """With host `h0` alone."""
    async with stage("h0") as one:
        yield one


def link_watcher(one: Stage, ear: Ear, **sampling: float) -> LinkWatcher:
    """Of eth0 of h0; what it tells and marks is in the ear."""
    return LinkWatcher(
        {"eth0": PortConfig(interface="eth0")},
        one.sources["h0"],
        one.clock,
        ear,
        marks=ear.marks,
        set_mark=ear.mark,
        sampling=SamplingConfig(**sampling),
        origin="twin",
    )


async def stop(*tasks: "asyncio.Task[None]") -> None:
    """As an agent's end does."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def ethtool() -> Iterator[PlayedEthtool]:
    with PlayedEthtool().playing() as played:
        yield played


@pytest.fixture
def thread() -> Iterator[ThreadOffload]:
    """For what blocks."""
    offload = ThreadOffload(1)
    yield offload
    offload.close()
