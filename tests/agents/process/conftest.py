"""Whole agents on twin hosts, on a memory bus, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from hwd_agents import wire
from hwd_agents.bus.memory import MemoryBroker, MemoryBus
from hwd_agents.bus.protocol import Incoming
from hwd_agents.process.agent import Agent
from hwd_agents.process.config import AgentConfig, make_config
from hwd_agents.process.seams import Seams, Storage
from hwd_agents.sources.twin.hostwire_server import HostWireServer
from hwd_agents.sources.twin.played import PlayedHost
from hwd_agents.sources.twin.twin_sources import TwinSources
from hwd_agents.wire import Birth, Event, Events, Peer, Reply
from hwd_drivers.core.clock import ShiftedClock
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.core.ids import Draws, SeededIds
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.nodes import Nodes
from hwd_drivers.twins.virtual_time import VirtualClock

from ...virtual_time import running_loop
from ..conftest import stop

LATENCY_S = 0.0001
MS = 1_000_000


def config(host: str, **more: Any) -> AgentConfig:
    data = {
        "testbed": "tb",
        "host": host,
        "broker": "memory:",
        "ports": {"eth0": {"interface": "eth0", "ip": f"10.0.0.{host[1:]}", "rdma": "mlx5_0"}},
        "sources": {"twin": {"address": f"mem:{host}"}},
        "modules": {"QSFP28-LR4": {"los_s": 0.0, "monitor_s": 0.0}},
    }
    return make_config({**data, **more}, where="test")


class Lab:
    """Two hosts, joined, with an agent each, and a daemon that only listens and asks."""

    def __init__(self) -> None:
        self.nodes = Nodes()
        self.clock = VirtualClock(running_loop(), wall_start_ns=1_800_000_000 * 10**9)
        self.broker = MemoryBroker(latency_s=lambda: LATENCY_S, nodes=self.nodes)
        self.dialer = MemoryDialer(MemoryNet(latency_s=LATENCY_S, nodes=self.nodes))
        self.hosts = {name: PlayedHost(name) for name in ("h0", "h1")}
        self.disks = {name: MemoryDisk() for name in self.hosts}
        self.setting_disks = {name: MemoryDisk() for name in self.hosts}
        self.agents: dict[str, Agent] = {}
        self.lives: dict[str, asyncio.Task[None]] = {}
        self.bus = MemoryBus(self.broker, "daemon", self.clock)
        self.heard: list[tuple[str, wire.AnyMessage]] = []
        self.acknowledges = True
        self._ids = SeededIds(7)
        self._id = 0
        self._held: dict[str, int] = {}
        self._acks: set[asyncio.Task[None]] = set()
        self._heard_one = asyncio.Event()
        for number, host in enumerate(self.hosts.values()):
            host.plug("eth0", ip=f"10.0.0.{number}", rdma="mlx5_0", ifindex=100)
        self.hosts["h0"].join("eth0", self.hosts["h1"], "eth0")

    def start(self, name: str, **more: Any) -> None:
        """Start, or start again, the agent of a host."""

        async def live() -> None:
            clock = ShiftedClock(self.clock, offset_s=5, drift_ppm=0)
            agent = self.agents[name] = Agent(
                config(name, **more),
                Seams(clock=clock, ids=self._ids, draws=Draws(1)),
                Storage(events=self.disks[name], settings=self.setting_disks[name]),
                TwinSources(self.dialer, f"mem:{name}", clock, host=name).sources(),
                bus=lambda will: MemoryBus(self.broker, name, clock, will),
            )
            await agent.run()

        self.lives[name] = asyncio.create_task(self.nodes.run_in_node(name, live()))

    async def stop(self, name: str) -> None:
        """As its service does."""
        await stop(self.lives[name])

    def hear(self, incoming: Incoming) -> None:
        host = incoming.topic.split("/")[3]
        message = wire.decode(incoming.payload)
        self.heard.append((host, message))
        self._heard_one.set()
        if isinstance(message, Events) and self.acknowledges:
            self._held[message.boot] = upto = self._hold(message)
            self._publish(host, "ack", wire.encode(wire.Ack(boot=message.boot, seq=1, upto=upto)))

    def _hold(self, message: Events) -> int:
        """Up to where we have all."""
        upto = self._held.get(message.boot, 0)
        return max(upto, message.events[-1].seq) if message.events[0].seq <= upto + 1 else upto

    def all(self, host: str, kind: type[msgspec.Struct]) -> list[Any]:
        return [message for name, message in self.heard if name == host and isinstance(message, kind)]

    def events(self, host: str) -> list[Event]:
        """Without repetitions and by boot in order, as a daemon would keep them."""
        found: dict[tuple[str, int], Event] = {}
        for message in self.all(host, Events):
            for event in message.events:
                found.setdefault((message.boot, event.seq), event)
        boots = list(dict.fromkeys(boot for boot, _ in found))
        return [found[key] for key in sorted(found, key=lambda key: (boots.index(key[0]), key[1]))]

    def kinds(self, host: str) -> list[str]:
        return [event.kind for event in self.events(host)]

    def event(self, host: str, kind: str) -> Event:
        (event,) = [event for event in self.events(host) if event.kind == kind]
        return event

    async def ask(
        self, host: str, verb: str, *, for_boot: str = "", expires_in_s: float = 1, **arguments: Any
    ) -> Reply:
        self._id += 1
        boot = for_boot or self.agents[host].boot
        expires_at_ns = self.clock.monotonic_ns() + 5 * 10**9 + round(expires_in_s * 1e9)
        command = wire.Command(
            boot=boot,
            seq=self._id,
            id=str(self._id),
            reply_to=wire.topic("tb", host, "reply"),
            expires_at_ns=expires_at_ns,
            verb=verb,
            arguments=arguments,
        )
        await self.bus.publish(wire.topic("tb", host, "command"), wire.encode(command), qos=1)
        while not (found := [reply for reply in self.all(host, Reply) if reply.id == command.id]):
            self._heard_one.clear()
            await self._heard_one.wait()
        assert isinstance(found[0], Reply)
        return found[0]

    async def observe(self, reconfiguration: str = "r1", for_s: float = 10) -> dict[str, Reply]:
        """Both hosts look for each other."""
        replies = {}
        for name, other in (("h0", "h1"), ("h1", "h0")):
            birth = self.all(other, Birth)[-1]
            port = birth.ports["eth0"].probe_port
            assert port is not None
            peer = Peer(
                port=f"{name}.eth0",
                peer=f"{other}.eth0",
                peer_ip=f"10.0.0.{other[1:]}",
                peer_probe_port=port,
                kept=False,
            )
            replies[name] = await self.ask(
                name, "observe", reconfiguration=reconfiguration, peers=[msgspec.to_builtins(peer)], for_s=for_s
            )
        return replies

    def each(self, do: Callable[[PlayedHost], None]) -> None:
        for host in self.hosts.values():
            do(host)

    def _publish(self, host: str, leaf: str, payload: bytes) -> None:
        task = asyncio.create_task(self.bus.publish(wire.topic("tb", host, leaf), payload))
        self._acks.add(task)
        task.add_done_callback(self._acks.discard)


@pytest.fixture
async def one(virtual_time: None) -> AsyncIterator[Lab]:
    one = Lab()
    for name, host in one.hosts.items():
        await one.dialer.listen(lambda host=host: HostWireServer(host, one.clock), f"mem:{name}")  # type: ignore[misc]
    for leaf in ("state", "birth", "event", "reply"):
        one.bus.subscribe(f"hwd/1/tb/+/{leaf}", one.hear)
    bus = asyncio.create_task(one.bus.run())
    for name in one.hosts:
        one.start(name)
    await asyncio.sleep(0.5)
    yield one
    for name in one.hosts:
        await one.stop(name)
    await stop(bus)
