"""Ports, Daemon: kernel interfaces for agents, and the daemon's gateway, for the measurements of carrier events."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import yaml

from hwd.bus.gateway import Gateway
from hwd.twin.kernel import Bracket, Crossbar, Keeper
from hwd_agents.bus.mqtt import MqttBus
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.ids import Draws, RandomIds

TESTBED = "bench"
PORTS = 4
"""Interfaces of each host: with several, none is flapped twice in a row."""
UP_WITHIN_S = 20.0
EVENT_WITHIN_S = 5.0
IFF_LOWER_UP = 1 << 16


class Ports:
    """The ports of all hosts; `flap` sets the carrier of one after the other up, then down."""

    def __init__(self, keeper: Keeper, hosts: Sequence[str]) -> None:
        self.keeper = keeper
        self._crossbar = Crossbar(keeper, SystemClock())
        names = [f"{host}.eth{number}" for number in range(PORTS) for host in hosts]
        self.ifindex = {
            name: self._crossbar.plug(name, host=name.partition(".")[0], interface=name.partition(".")[2]).ifindex
            for name in names
        }
        self._flaps = itertools.cycle([(name, up) for up in (True, False) for name in names])
        self._next = next(self._flaps)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, hosts: Sequence[str], folder: Path) -> "AsyncIterator[Ports]":
        """Raises NamespacesUnavailableError where this machine has no network namespaces for us."""
        async with Keeper() as keeper:
            await keeper.start(hosts, folder / "run")
            ports = cls(keeper, hosts)
            try:
                yield ports
            finally:
                ports._crossbar.close()

    @property
    def upcoming(self) -> str:
        """The port that is flapped next."""
        return self._next[0]

    def flap(self) -> tuple[str, bool, Bracket]:
        """Change the carrier of the next port; returns the port, its new carrier, and when that was set."""
        (name, up), self._next = self._next, next(self._flaps)
        return name, up, self._crossbar.carrier(name, up)

    def config(self, host: str, *, broker: str, folder: Path, clock_by_udp: bool = True) -> Path:
        """Write the configuration file of the agent of one host; returns its path."""
        path = folder / f"{host}.yaml"
        config = {
            "testbed": TESTBED,
            "host": host,
            "broker": broker,
            "spool": {"directory": str(folder / f"spool-{host}")},
            "clock_port": 0 if clock_by_udp else None,
            "ports": {f"eth{number}": {"interface": f"eth{number}"} for number in range(PORTS)},
            "sources": {"kernel": {"keeper": str(self.keeper.path), "namespace": host}},
        }
        path.write_text(yaml.safe_dump(config))
        return path


class Daemon:
    """The gateway of the daemon, and a sink that stamps the carrier events."""

    def __init__(self, url: str, hosts: Sequence[str]) -> None:
        clock, ids = SystemClock(), RandomIds()
        self._waiting: asyncio.Future[tuple[int, Document]] | None = None
        self._port = ""
        self._unaligned = set(hosts)
        self._aligned = asyncio.Event()
        bus = MqttBus(url, f"bench-daemon-{ids.token(length=6)}", clock, Draws(None))
        self.gateway = Gateway(
            bus=bus, testbed=TESTBED, hosts=hosts, clock=clock, ids=ids, sink=self._take, clocks_by_udp=True
        )

    @classmethod
    @contextlib.asynccontextmanager
    async def run(cls, url: str, hosts: Sequence[str]) -> "AsyncIterator[Daemon]":
        daemon = cls(url, hosts)
        life = asyncio.create_task(daemon.gateway.run())
        try:
            yield daemon
        finally:
            life.cancel()
            await asyncio.wait([life])

    async def aligned(self) -> None:
        """Return when the clocks of all agents are known."""
        async with asyncio.timeout(UP_WITHIN_S):
            await self._aligned.wait()

    def expect(self, port: str) -> "asyncio.Future[tuple[int, Document]]":
        """The next carrier event of a port, and when the sink got it."""
        self._port, self._waiting = port, asyncio.get_running_loop().create_future()
        return self._waiting

    def _take(self, document: Document) -> None:
        at_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        data = document.fact.to_data()
        if document.kind == "clock.aligned":
            self._unaligned.discard(str(data["host"]))
            if not self._unaligned:
                self._aligned.set()
        if self._waiting is None or document.kind != "host.event" or data["type"] != "carrier":
            return
        if f"{data['host']}.{data['port']}" == self._port and not self._waiting.done():
            self._waiting.set_result((at_ns, document))
