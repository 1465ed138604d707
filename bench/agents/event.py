"""Time from a kernel carrier event to the agent's spool, and to a document in the daemon's sink.

The floor is a raw netlink listener, and one message through the broker.
"""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import aiomqtt

from bench.agents.carriers import EVENT_WITHIN_S, IFF_LOWER_UP, PORTS, Daemon, Ports
from bench.broker import mosquitto
from bench.child import Child, child
from bench.measure import Bar, Summary
from bench.progress import Progress
from hwd.bus.broker import EmbeddedBroker
from hwd_agents.wire import Event, Events, encode

HOST = "h0"
DOCUMENT_LIMIT, CAPTURE_LIMIT_US = 2.0, 500.0
SPACING_S = 0.02
"""Pause between two measurements: acknowledgements and other notices of the kernel have ended by then."""
PROBE_TOPIC = "bench/probe"
TURNS = ("rest", "receive", "write")
"""What the listener of the floor does in a turn: nothing, receive, or receive and write.

Agent and listener wait equally long before an event. Where one of them is measured, the other uses no processor.
"""
FLAPS_A_TURN = 2 * PORTS
"""Flaps in one turn: each port goes up and down."""


@dataclass(slots=True)
class Flaps:
    """Times in ns, one entry for each flap.

    `broker` has one entry for each probe between two flaps. `spooled`: when the event was in the spool.
    `listened` and `written` are 0 in turns in which the floor does not receive or write.
    """

    turn: list[str] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    spooled: list[int] = field(default_factory=list)
    sunk: list[int] = field(default_factory=list)
    stamped: list[int] = field(default_factory=list)
    listened: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    broker: list[int] = field(default_factory=list)

    def us(self, turn: str, starts_ns: list[int], ends_ns: list[int]) -> Summary:
        """The time from `starts_ns` to `ends_ns` in us, for the flaps of one kind of turn."""
        rows = zip(self.turn, starts_ns, ends_ns, strict=True)
        return Summary.of([(end - start) / 1e3 for each, start, end in rows if each == turn])


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    rounds = (2 if quick else 20) * len(TURNS) * FLAPS_A_TURN
    async with contextlib.AsyncExitStack() as stack:
        ports = await stack.enter_async_context(Ports.open([HOST], folder))
        listener = await stack.enter_async_context(
            child("bench.processes.listener", str(ports.keeper.path), HOST, str(folder / "floor"))
        )
        await listener.hear()
        bars = []
        for name, broker in (("Mosquitto", mosquitto(folder)), ("embedded broker", _embedded())):
            async with broker as port:
                progress.say(f"event: {rounds} flaps over {name}")
                flaps = await _flap(ports, listener, port, folder, name, rounds)
            bars += _bars(name, flaps, met=name == "Mosquitto")
    return bars


async def _flap(ports: Ports, listener: Child, port: int, folder: Path, name: str, rounds: int) -> Flaps:
    url = f"mqtt://127.0.0.1:{port}"
    place = folder / name.partition(" ")[0]
    place.mkdir()
    config = ports.config(HOST, broker=url, folder=place)
    flaps, marks = Flaps(), list[tuple[int, bool]]()
    async with (
        Daemon.run(url, [HOST]) as daemon,
        child("bench.processes.spooler", str(config)) as agent,
        Probe.open(port) as probe,
    ):
        await daemon.aligned()
        for number in range(-len(TURNS) * FLAPS_A_TURN, rounds):
            turn = TURNS[number // FLAPS_A_TURN % len(TURNS)]
            if number % FLAPS_A_TURN == 0:
                listener.say(turn)
                await listener.hear()
            await asyncio.sleep(SPACING_S)
            broker_ns = await probe.once()
            await asyncio.sleep(SPACING_S)
            expected = daemon.expect(ports.upcoming)
            interface, up, bracket = ports.flap()
            sunk_ns, document = await asyncio.wait_for(expected, EVENT_WITHIN_S)
            if number >= 0:
                flaps.turn.append(turn)
                flaps.before.append(bracket.before_ns)
                flaps.sunk.append(sunk_ns)
                flaps.stamped.append(int(str(document.fact.to_data()["agent_ns"])))
                flaps.broker.append(broker_ns)
                marks.append((ports.ifindex[interface], up))
        flaps.spooled = await _spooled(agent, flaps.stamped)
    await _hear(listener, flaps, marks)
    return flaps


async def _hear(listener: Child, flaps: Flaps, marks: list[tuple[int, bool]]) -> None:
    """Store when the listener received each flap, and when it had written it."""
    listener.say("all")
    notes = json.loads(await listener.hear())
    for turn, start_ns, mark in zip(flaps.turn, flaps.before, marks, strict=True):
        at_ns, end_ns = (
            (0, 0)
            if turn == "rest"
            else next(
                (at_ns, end_ns)
                for at_ns, end_ns, ifindex, flags in notes
                if at_ns >= start_ns and ifindex == mark[0] and bool(flags & IFF_LOWER_UP) is mark[1]
            )
        )
        flaps.listened.append(at_ns)
        flaps.written.append(end_ns if turn == "write" else 0)


async def _spooled(agent: Child, stamped_ns: list[int]) -> list[int]:
    """The times at which the event of each flap was in the agent's spool."""
    agent.say("all")
    notes = json.loads(await agent.hear())
    taken = {at_ns: done_ns for done_ns, stamps in notes for at_ns in stamps}
    return [taken[at_ns] for at_ns in stamped_ns]


class Probe:
    """Sends messages of the length of one event from a bare client in another process to a bare client in this one."""

    def __init__(self, publisher: Child) -> None:
        self._publisher = publisher
        self._arrived: asyncio.Future[int] | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, port: int) -> "AsyncIterator[Probe]":
        size = str(len(_typical_message()))
        nodelay = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with (
            aiomqtt.Client("127.0.0.1", port, socket_options=[nodelay]) as client,
            child("bench.processes.publisher", "127.0.0.1", str(port), PROBE_TOPIC, size) as publisher,
        ):
            await client.subscribe(PROBE_TOPIC, qos=1)
            await publisher.hear()
            probe = cls(publisher)
            reading = asyncio.create_task(probe._read(client))
            try:
                yield probe
            finally:
                reading.cancel()
                await asyncio.wait([reading])

    async def once(self) -> int:
        """Send one message; returns the nanoseconds from just before the publish to the receipt."""
        self._arrived = asyncio.get_running_loop().create_future()
        self._publisher.say("go")
        return await asyncio.wait_for(self._arrived, EVENT_WITHIN_S)

    async def _read(self, client: aiomqtt.Client) -> None:
        async for message in client.messages:
            at_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            assert isinstance(message.payload, bytes)
            if self._arrived is not None:
                self._arrived.set_result(at_ns - int(message.payload))


@contextlib.asynccontextmanager
async def _embedded() -> AsyncIterator[int]:
    """Run the daemon's embedded broker in this process; yields its port."""
    broker = EmbeddedBroker()
    url = await broker.start()
    try:
        yield int(url.rpartition(":")[2])
    finally:
        await broker.close()


def _typical_message() -> bytes:
    """The message that an agent publishes for one carrier event."""
    boot = "00000000-0000-4000-8000-000000000000"
    data = {"carrier": True, "carrier_changes": 100, "unseen": 0}
    at_ns = 10**13
    event = Event(
        seq=100,
        at_ns=at_ns,
        earliest_ns=at_ns,
        kind="carrier",
        port="eth0",
        source="link",
        origin="measured",
        data=data,
    )
    return encode(Events(boot=boot, seq=100, events=[event]))


def _bars(name: str, flaps: Flaps, *, met: bool) -> list[Bar]:
    spooled = flaps.us("rest", flaps.before, flaps.spooled)
    ours = flaps.us("rest", flaps.before, flaps.sunk)
    raw = flaps.us("receive", flaps.before, flaps.listened)
    written = flaps.us("write", flaps.before, flaps.written)
    broker = Summary.of([ns / 1e3 for ns in flaps.broker])
    capture = flaps.us("receive", flaps.listened, flaps.stamped)
    after = flaps.us("rest", flaps.stamped, flaps.sunk)
    floor_us = raw.median + broker.median
    detail = {
        "spooled_us": spooled.to_data(),
        "event_us": ours.to_data(),
        "raw_us": raw.to_data(),
        "broker_us": broker.to_data(),
        "capture_us": capture.to_data(),
        "stamp_to_sink_us": after.to_data(),
    }
    spool = Bar(
        name=f"carrier event to spool, {name}",
        value=spooled.median / raw.median,
        limit=None,
        unit="x",
        spread=f"{spooled.median:.0f} us ({spooled.p25:.0f}-{spooled.p75:.0f}) over raw {raw.median:.0f} us",
        n=spooled.n,
        detail={"spooled_us": spooled.to_data(), "raw_us": raw.to_data()},
    )
    written_ratio = Bar(
        name=f"carrier event to spool, against a bare loop that writes it, {name}",
        value=spooled.median / written.median,
        limit=None,
        unit="x",
        spread=(
            f"{spooled.median:.0f} us ({spooled.p25:.0f}-{spooled.p75:.0f}) "
            f"over {written.median:.0f} us ({written.p25:.0f}-{written.p75:.0f})"
        ),
        n=written.n,
        detail={"written_us": written.to_data()},
    )
    ratio = Bar(
        name=f"carrier event to document, {name}",
        value=ours.median / floor_us,
        limit=DOCUMENT_LIMIT if met else None,
        unit="x",
        spread=(
            f"{ours.median:.0f} us ({ours.p25:.0f}-{ours.p75:.0f}) "
            f"over raw {raw.median:.0f} + broker {broker.median:.0f} us"
        ),
        n=ours.n,
        detail=detail,
    )
    delay = Bar(
        name=f"added capture delay p99, {name}",
        value=capture.p99,
        limit=CAPTURE_LIMIT_US if met else None,
        unit="us",
        spread=f"median {capture.median:.0f}, quartiles {capture.p25:.0f}-{capture.p75:.0f}, max {capture.max:.0f} us",
        n=capture.n,
        detail={"capture_us": capture.to_data()},
    )
    return [spool, written_ratio, ratio, delay]
