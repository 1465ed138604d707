"""What every bus does: one suite over memory, the embedded amqtt, and a Mosquitto process.

Real ones stand behind a wire that can be cut.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import pytest

from hwd_agents.bus.memory import MemoryBroker, MemoryBus
from hwd_agents.bus.mqtt import MqttBus
from hwd_agents.bus.protocol import Bus, Incoming, Will
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import LinkError
from hwd_drivers.core.ids import Draws

from .conftest import running, start_amqtt

T = TypeVar("T")
PATIENCE_S = 20.0
CLIENTS = ("alice", "bob", "carol")
WILL = Will(topic="t/alice/state", payload=b"lost")

Inbox = asyncio.Queue[Incoming]
Kill = Callable[[], Awaitable[None]]
Start = Callable[[], Awaitable[tuple[str, Kill]]]


class MemoryRig:
    def __init__(self) -> None:
        self.broker = MemoryBroker(latency_s=lambda: 0.001)

    def bus(self, client_id: str, *, will: Will | None = None) -> Bus:
        return MemoryBus(self.broker, client_id, SystemClock(), will)

    def hold(self, client_id: str) -> None:
        """A millisecond of latency holds long enough for a cut in the next callback."""

    def cut(self, client_id: str) -> None:
        self.broker.cut(client_id)

    async def stop(self) -> None:
        self.broker.stop()

    async def start(self) -> None:
        self.broker.start()


class WiredRig:
    """A real broker, with a wire for each client."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._kill: Kill | None = None
        self._wires: dict[str, Wire] = {}

    async def open(self, *client_ids: str) -> None:
        for client_id in client_ids:
            self._wires[client_id] = Wire()
            await self._wires[client_id].open()
        await self.start()

    def bus(self, client_id: str, *, will: Will | None = None) -> Bus:
        url = f"mqtt://127.0.0.1:{self._wires[client_id].port}"
        return MqttBus(url, client_id, SystemClock(), Draws(1), will)

    def hold(self, client_id: str) -> None:
        """Nothing of this client reaches the broker from now on."""
        self._wires[client_id].passing.clear()

    def cut(self, client_id: str) -> None:
        self._wires[client_id].cut()

    async def stop(self) -> None:
        if self._kill is not None:
            kill, self._kill = self._kill, None
            for wire in self._wires.values():
                wire.target = None
            await kill()

    async def start(self) -> None:
        url, self._kill = await self._start()
        for wire in self._wires.values():
            wire.target = ("127.0.0.1", int(url.rpartition(":")[2]))

    async def close(self) -> None:
        for wire in self._wires.values():
            await wire.close()
        await self.stop()


class Wire:
    """A TCP way to a broker, for one client, that can be held and cut."""

    def __init__(self) -> None:
        self.target: tuple[str, int] | None = None
        self.passing = asyncio.Event()
        self.passing.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self.passing.set()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if self.target is None:
                return
            far_reader, far_writer = await asyncio.open_connection(*self.target)
            self._writers.add(far_writer)
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._pass(reader, far_writer))
                    tasks.create_task(self._pass(far_reader, writer))
            finally:
                self._writers.discard(far_writer)
                far_writer.transport.abort()
        except* OSError:
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self.passing.wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError("one side ended")


Rig = MemoryRig | WiredRig
"""A broker and its clients; what happens to the connection of a client can be asked for."""


@pytest.fixture(params=["memory", "amqtt", "mosquitto"])
async def rig(request: pytest.FixtureRequest, start_mosquitto: Start) -> AsyncIterator[Rig]:
    """A broker of each kind, for the clients alice, bob and carol."""
    if request.param == "memory":
        yield MemoryRig()
        return
    wired = WiredRig(start_amqtt if request.param == "amqtt" else start_mosquitto)
    try:
        await wired.open(*CLIENTS)
        yield wired
    finally:
        await wired.close()


async def test_message_reaches_those_who_subscribed_whole_and_stamped(rig: Rig) -> None:
    alice, bob, carol = (rig.bus(each) for each in CLIENTS)
    to_bob, to_carol = listen(bob, "t/+/event"), listen(carol, "t/#")
    large = bytes(range(256)) * 2048
    async with running(alice, bob, carol):
        before_ns = SystemClock().monotonic_ns()
        await alice.publish("t/h0/state", b"1")
        await alice.publish("t/h0/event", b"2")
        came = await following(to_bob)
        assert came.payload == b"2"
        assert before_ns < came.at_ns < SystemClock().monotonic_ns()
        await alice.publish("t/h0/event", large, qos=1)
        assert await payloads(to_bob, 1) == [large]
        assert await payloads(to_carol, 3) == [b"1", b"2", large]


async def test_retained_message_is_kept_for_who_comes_later_until_an_empty_one_takes_it_away(rig: Rig) -> None:
    alice, bob, carol = (rig.bus(each) for each in CLIENTS)
    to_bob, to_carol = listen(bob, "t/#"), listen(carol, "t/#")
    async with running(alice, bob):
        await alice.publish("t/state", b"old", qos=1, retain=True)
        await alice.publish("t/state", b"new", qos=1, retain=True)
        await alice.publish("t/event", b"passing", qos=1)
        came = [(each.payload, each.retained) for each in await several(to_bob, 3)]
        assert came == [(b"old", False), (b"new", False), (b"passing", False)]
        async with running(carol):
            kept = await following(to_carol)
            assert (kept.topic, kept.payload, kept.retained) == ("t/state", b"new", True)
            await alice.publish("t/event", b"mark", qos=1)
            assert await payloads(to_carol, 1) == [b"mark"]
        await alice.publish("t/state", b"", qos=1, retain=True)
        async with running(carol):
            await alice.publish("t/event", b"mark", qos=1)
            assert await payloads(to_carol, 1) == [b"mark"]


async def test_will_is_published_and_kept_when_the_client_is_lost_and_not_after_an_orderly_end(rig: Rig) -> None:
    alice, bob, carol = rig.bus("alice", will=WILL), rig.bus("bob"), rig.bus("carol")
    to_bob, to_carol = listen(bob, "t/+/state"), listen(carol, "t/+/state")
    async with running(bob):
        async with running(alice):
            await alice.publish("t/alice/state", b"down", qos=1)
        await bob.publish("t/mark/state", b"mark", qos=1)
        assert await payloads(to_bob, 2) == [b"down", b"mark"]
        async with running(alice):
            rig.cut("alice")
            assert await payloads(to_bob, 1) == [b"lost"]
            async with running(carol):
                came = await following(to_carol)
                assert (came.payload, came.retained) == (b"lost", True)


async def test_order_within_a_topic_is_the_senders_and_without_connection_nothing_is_sent(rig: Rig) -> None:
    alice, bob = rig.bus("alice"), rig.bus("bob")
    inbox = listen(bob, "t")
    assert not alice.connected
    with pytest.raises(LinkError, match="cannot publish t: not connected"):
        await alice.publish("t", b"x")
    sent = [b"%d" % number for number in range(200)]
    async with running(alice, bob):
        for qos in (0, 1):
            async with asyncio.TaskGroup() as tasks:
                for payload in sent:
                    tasks.create_task(alice.publish("t", payload, qos=qos))
            assert await payloads(inbox, len(sent)) == sent, qos


async def test_loss_before_the_acknowledgement_is_an_error_and_sending_again_arrives(rig: Rig) -> None:
    alice, bob = rig.bus("alice"), rig.bus("bob")
    inbox = listen(bob, "t")
    downs, ups = listen_to_connection(alice)
    async with running(alice, bob):
        rig.hold("alice")
        lost = asyncio.create_task(alice.publish("t", b"first", qos=1))
        asyncio.get_running_loop().call_soon(rig.cut, "alice")
        with pytest.raises(LinkError, match="t was not"):
            await within(lost)
        await within(downs.get())
        await within(ups.get())
        await within(ups.get())
        await alice.publish("t", b"first", qos=1)
        await alice.publish("t", b"second", qos=1)
        came = await payloads(inbox, 2)
        if came == [b"first", b"first"]:  # the lost one had come through after all: a duplicate
            came = [b"first", *await payloads(inbox, 1)]
        assert came == [b"first", b"second"]


async def test_clients_come_back_with_their_subscriptions_when_the_broker_restarts(rig: Rig) -> None:
    alice, bob = rig.bus("alice"), rig.bus("bob")
    inbox = listen(bob, "t/+")
    downs, ups = listen_to_connection(bob)
    alice_downs, alice_ups = listen_to_connection(alice)
    async with running(alice, bob):
        await rig.stop()
        assert await within(downs.get())
        assert await within(alice_downs.get())
        assert (alice.connected, bob.connected) == (False, False)
        await rig.start()
        for each in (ups, alice_ups):
            await within(each.get())
            await within(each.get())
        assert (alice.connected, bob.connected) == (True, True)
        await alice.publish("t/x", b"again", qos=1)
        assert await payloads(inbox, 1) == [b"again"]
    assert downs.empty()


async def test_subscription_while_running_gets_what_is_kept_and_what_comes(rig: Rig) -> None:
    alice, bob = rig.bus("alice"), rig.bus("bob")
    async with running(alice, bob):
        await alice.publish("t/kept", b"kept", qos=1, retain=True)
        inbox = listen(bob, "t/+")
        assert await payloads(inbox, 1) == [b"kept"]
        await alice.publish("t/new", b"new")
        assert await payloads(inbox, 1) == [b"new"]


async def test_error_of_a_handler_ends_the_run(rig: Rig) -> None:
    alice, bob = rig.bus("alice"), rig.bus("bob")

    def fail(incoming: Incoming) -> None:
        raise ValueError(f"cannot take {incoming.topic}")

    bob.subscribe("t", fail)
    up = asyncio.Event()
    bob.on_up(up.set)
    run = asyncio.create_task(bob.run())
    await within(up.wait())
    async with running(alice):
        await alice.publish("t", b"x", qos=1)
        with pytest.raises(ValueError, match="cannot take t"):
            await within(run)
    assert not bob.connected


def listen(bus: Bus, topic_filter: str) -> Inbox:
    inbox: Inbox = asyncio.Queue()
    bus.subscribe(topic_filter, inbox.put_nowait)
    return inbox


def listen_to_connection(bus: Bus) -> tuple[asyncio.Queue[str], asyncio.Queue[str]]:
    downs: asyncio.Queue[str] = asyncio.Queue()
    ups: asyncio.Queue[str] = asyncio.Queue()
    bus.on_down(downs.put_nowait)
    bus.on_up(lambda: ups.put_nowait("up"))
    return downs, ups


async def within(awaitable: Awaitable[T]) -> T:
    async with asyncio.timeout(PATIENCE_S):
        return await awaitable


async def following(inbox: Inbox) -> Incoming:
    return await within(inbox.get())


async def several(inbox: Inbox, count: int) -> list[Incoming]:
    return [await following(inbox) for _ in range(count)]


async def payloads(inbox: Inbox, count: int) -> list[bytes]:
    return [each.payload for each in await several(inbox, count)]
