"""A gateway and peers on a memory bus, in virtual time, with clocks 5 s off and 50 ppm fast."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

from hwd.bus.gateway import Gateway
from hwd.model.kinds import read_document
from hwd.model.limit import Limit
from hwd_agents.bus.memory import MemoryBroker, MemoryBus
from hwd_agents.bus.mqtt import MqttBus
from hwd_agents.bus.protocol import Bus, Incoming, Will
from hwd_agents.wire import (
    Ack,
    Birth,
    ClockReply,
    ClockRequest,
    Command,
    Event,
    Events,
    Inventory,
    Message,
    PortNote,
    Reply,
    SourceNote,
    State,
    decode,
    encode,
    topic,
)
from hwd_drivers.core.clock import Clock, ShiftedClock
from hwd_drivers.core.documents import Document, Sink
from hwd_drivers.core.errors import LinkError
from hwd_drivers.core.ids import Draws, SeededIds
from hwd_drivers.core.structs import to_plain
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

LAB = "lab"
US = 1_000
PATIENCE_S = 600.0


class Peer:
    """One boot of an agent, as it looks from the bus: births, wills, clock replies, events from a spool, replies to
    commands.
    """

    def __init__(self, broker: MemoryBroker | str, host: str, boot: str, clock: Clock) -> None:
        self.host = host
        self.boot = boot
        self.clock = clock
        self.spools: dict[str, list[Event]] = {boot: []}
        self.commands: list[Command] = []
        self.refreshes: list[Command] = []
        self.acks: list[tuple[str, int]] = []
        self.acked = asyncio.Event()
        self.answers_clock = True
        self.carrier, self.carrier_changes = True, 2
        self.rdma: bool | None = None
        self.answers: Callable[[Command], Reply | None] = self.obey
        self.inventory = Inventory(kernel="6.1")
        self.clock_name = ""
        self._seq = 0
        lost = State(boot=boot, seq=1, state="lost")
        will = Will(topic=topic(LAB, host, "state"), payload=encode(lost))
        name = f"{host} {boot}"
        self.bus: Bus = (
            MqttBus(broker, name, clock, Draws(1), will)
            if isinstance(broker, str)
            else MemoryBus(broker, name, clock, will)
        )
        for leaf in ("clock", "command", "ack"):
            self.bus.subscribe(topic(LAB, host, leaf), self._take)
        self.bus.on_up(lambda: self._soon(self.be_born()))
        self._tasks: set[asyncio.Task[None]] = set()
        self.run: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.run = asyncio.create_task(self.bus.run())

    async def stop(self) -> None:
        if self.run is not None:
            self.run.cancel()
            await asyncio.gather(self.run, *self._tasks, return_exceptions=True)

    def note(self) -> PortNote:
        return PortNote(
            interface="eth0",
            present=True,
            ip="10.1.0.1/32",
            carrier=self.carrier,
            carrier_changes=self.carrier_changes,
            probe_port=9,
            sources={"link": SourceNote(sees=["carrier"], origin="kernel")},
        )

    async def be_born(self) -> None:
        spool = self.spools[self.boot]
        birth = Birth(
            boot=self.boot,
            seq=self._next(),
            host=self.host,
            testbed=LAB,
            version="0.1.0",
            at_ns=self.clock.monotonic_ns(),
            ports={"eth0": self.note()},
            inventory=self.inventory,
            spool_oldest_seq=spool[0].seq if spool else 1,
            spool_next_seq=spool[-1].seq + 1 if spool else 1,
            spool_lost=0,
            clock=self.clock_name,
        )
        await self.say("birth", birth, retain=True)
        await self.say("state", State(boot=self.boot, seq=self._next(), state="up"), retain=True)

    def event(self, kind: str = "carrier", *, seq: int | None = None, boot: str | None = None, **data: Any) -> Event:
        spool = self.spools.setdefault(boot or self.boot, [])
        data = {"carrier": True} | data if kind == "carrier" else data
        at_ns = self.clock.monotonic_ns()
        event = Event(
            seq=seq or (spool[-1].seq + 1 if spool else 1),
            at_ns=at_ns,
            earliest_ns=at_ns - 50 * US,
            kind=kind,
            port="eth0",
            source="rtnetlink",
            origin="kernel",
            data=data,
        )
        spool.append(event)
        return event

    async def send(self, *events: Event, boot: str | None = None, clock: str = "") -> None:
        message = Events(boot=boot or self.boot, seq=self._next(), events=list(events), clock=clock)
        await self.say("event", message, qos=1)

    async def say(self, leaf: str, message: Message, *, qos: int = 0, retain: bool = False) -> None:
        await self.bus.publish(topic(LAB, self.host, leaf), encode(message), qos=qos, retain=retain)

    def obey(self, command: Command) -> Reply:
        if command.verb == "resend":
            arguments = command.arguments
            wanted = range(arguments["from_seq"], arguments["upto_seq"] + 1)
            found = [event for event in self.spools.get(arguments["boot"], []) if event.seq in wanted]
            if found:
                self._soon(self.send(*found, boot=arguments["boot"]))
        data: dict[str, Any] = {"novel": command.verb}
        if command.verb in ("observe", "settle"):
            data |= {"ports": {}}
        if command.verb == "refresh":
            data |= {"at_ns": self.clock.monotonic_ns(), "ports": {"eth0": to_plain(self.note())}}
            data["states"] = {"eth0": {"carrier": self.carrier, "rdma": self.rdma}}
        return Reply(boot=self.boot, seq=self._next(), id=command.id, outcome="done", data=data)

    def _take(self, incoming: Incoming) -> None:
        match decode(incoming.payload):
            case ClockRequest() as request if self.answers_clock and request.boot == self.boot:
                self._soon(self._tell_time(request, incoming.at_ns))
            case Command() as command:
                (self.refreshes if command.verb == "refresh" else self.commands).append(command)
                if (reply := self.answers(command)) is not None:
                    self._soon(self.say("reply", reply))
            case Ack() as ack:
                self.acks.append((ack.boot, ack.upto))
                self.acked.set()

    async def _tell_time(self, request: ClockRequest, came_ns: int) -> None:
        reply = ClockReply(
            boot=self.boot,
            seq=self._next(),
            id=request.id,
            t1_ns=request.t1_ns,
            t2_ns=came_ns,
            t3_ns=self.clock.monotonic_ns(),
        )
        await self.say("reply", reply)

    def _next(self) -> int:
        self._seq += 1
        return self._seq

    def _soon(self, say: Awaitable[None]) -> None:
        async def go() -> None:
            try:
                await say
            except LinkError:
                return  # the agent's own affair; it says it again when it is up

        task = asyncio.create_task(go())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class World:
    """A broker, a gateway, peers, and the documents that came out; every document is held to its kind."""

    def __init__(self, *, start: bool = True, **more: Any) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        delays = Draws(1).stream("delays")
        self.clock = VirtualClock(loop, wall_start_ns=0)
        self.broker = MemoryBroker(latency_s=lambda: delays.uniform(60e-6, 120e-6))
        self.documents: list[Document] = []
        self.sinks: list[Sink] = []
        self.reached: Counter[str] = Counter()
        self._starts = start
        self.gateway = self.new_gateway(**more)
        self.peers: list[Peer] = []
        self._came = asyncio.Event()
        self._run: asyncio.Task[None] | None = None

    def new_gateway(self, *, client: type[MemoryBus] = MemoryBus, **more: Any) -> Gateway:
        bus = client(self.broker, "daemon", self.clock)
        rest: dict[str, Any] = {"sink": self.take, "reached": self.reach} | more
        return Gateway(bus=bus, testbed=LAB, hosts=("h0", "h1"), clock=self.clock, ids=SeededIds(1), **rest)

    async def __aenter__(self) -> Self:
        if self._starts:
            self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        for peer in self.peers:
            await peer.stop()
        await self.stop()

    @property
    def ended(self) -> bool:
        """Whether the gateway does not run any more."""
        return self._run is None or self._run.done()

    def take(self, document: Document) -> None:
        assert read_document(document.to_data()) == document
        self.documents.append(document)
        for sink in self.sinks:
            sink(document)
        self._came.set()

    def reach(self, limit: Limit, detail: str) -> None:
        assert len(detail) < 200
        self.reached[limit] += 1

    def start(self, gateway: Gateway | None = None) -> None:
        self.gateway = gateway or self.gateway
        self._run = asyncio.create_task(self.gateway.run())

    async def stop(self) -> None:
        if self._run is not None:
            self._run.cancel()
            await asyncio.gather(self._run, return_exceptions=True)

    def peer(self, host: str = "h0", boot: str = "boot-1") -> Peer:
        peer = Peer(self.broker, host, boot, ShiftedClock(self.clock, offset_s=5, drift_ppm=50))
        self.peers.append(peer)
        peer.start()
        return peer

    async def aligned_peer(self, host: str = "h0", boot: str = "boot-1") -> Peer:
        peer = self.peer(host, boot)
        await self.until("clock.aligned", host=host, boot=boot)
        return peer

    def of(self, kind: str, **fields: Any) -> list[Mapping[str, Any]]:
        found = [document.fact.to_data() for document in self.documents if document.kind == kind]
        return [data for data in found if all(data.get(key) == value for key, value in fields.items())]

    async def until(self, kind: str, count: int = 1, **fields: Any) -> list[Mapping[str, Any]]:
        async with asyncio.timeout(PATIENCE_S):
            while len(found := self.of(kind, **fields)) < count:
                self._came.clear()
                await self._came.wait()
        return found

    async def agreed(self, peer: Peer, boot: str, upto: int) -> None:
        """Wait until the events up to `upto` are acknowledged to the peer."""
        async with asyncio.timeout(PATIENCE_S):
            while (boot, upto) not in peer.acks:
                peer.acked.clear()
                await peer.acked.wait()
