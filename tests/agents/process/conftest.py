"""Whole agents on twin hosts, on a memory bus, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from hwd_agents import wire
from hwd_agents.bus.memory import MemoryBus
from hwd_agents.bus.protocol import Incoming
from hwd_agents.sources.twin.manual_host import ManualHost
from hwd_agents.wire import Birth, Event, Events, Peer, Reply

from ..conftest import stop
from ..played_rack import PlayedRack

MS = 1_000_000


class Lab(PlayedRack):
    """And a daemon that only listens and asks."""

    def __init__(self) -> None:
        super().__init__()
        self.bus = MemoryBus(self.broker, "daemon", self.clock)
        self.heard: list[tuple[str, wire.AnyMessage]] = []
        self.acknowledges = True
        self._id = 0
        self._held: dict[str, int] = {}
        self._acks: set[asyncio.Task[None]] = set()
        self._heard_one = asyncio.Event()

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

    def each(self, do: Callable[[ManualHost], None]) -> None:
        for host in self.hosts.values():
            do(host)

    def _publish(self, host: str, leaf: str, payload: bytes) -> None:
        task = asyncio.create_task(self.bus.publish(wire.topic("tb", host, leaf), payload))
        self._acks.add(task)
        task.add_done_callback(self._acks.discard)


@pytest.fixture
async def one(virtual_time: None) -> AsyncIterator[Lab]:
    one = Lab()
    await one.rack_up()
    for leaf in ("state", "birth", "event", "reply"):
        one.bus.subscribe(f"hwd/1/tb/+/{leaf}", one.hear)
    bus = asyncio.create_task(one.bus.run())
    for name in one.hosts:
        one.start(name)
    await asyncio.sleep(0.5)
    yield one
    await one.close()
    await stop(bus)
