import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from hwd_agents.bus.mqtt import CALLS_MOST, MqttBus
from hwd_agents.bus.protocol import Incoming
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.ids import Draws

from .conftest import running
from .deaf_broker import DISCONNECT, GONE, PUBLISH, DeafBroker, publish

Start = Callable[..., Awaitable[tuple[str, Callable[[], Awaitable[None]]]]]
NewBus = Callable[[str], MqttBus]
QOS_1 = 0b10
"""In the first byte of a PUBLISH (MQTT 3.1.1, 3.3.1)."""
PATIENCE_S = 20.0
BURST = 500
MUCH = bytes(1 << 23)
"""More than the sockets of both ends take while nobody reads."""
PUBLISHED = PUBLISH, 3 + len(MUCH)


@pytest.fixture(params=["tcp", "unix", "tls"])
async def new_bus(request: pytest.FixtureRequest, start_mosquitto: Start, pem: Path, tmp_path: Path) -> NewBus:
    tls = request.param == "tls"
    address, _ = await start_mosquitto("allow_anonymous true\nmax_queued_messages 0", pem=pem if tls else None)
    url = f"unix:{tmp_path / 'm.sock'}" if request.param == "unix" else address
    trusted = ssl.create_default_context(cafile=pem) if tls else None
    return lambda client_id: MqttBus(url, client_id, SystemClock(), Draws(1), tls=trusted)


async def test_burst_comes_once_and_in_order_and_is_acknowledged_so_that_more_follows_and_much_comes_whole(
    new_bus: NewBus,
) -> None:
    """Mosquitto has 20 messages under way at most: the others come only where those were acknowledged."""
    speaker, listener = new_bus("speaker"), new_bus("listener")
    heard: list[int] = []
    whole = asyncio.Event()

    def take(number: int) -> None:
        heard.append(number)
        if len(heard) == BURST:
            whole.set()

    inbox: asyncio.Queue[bytes] = asyncio.Queue()
    listener.subscribe("t", lambda incoming: take(int(incoming.payload)))
    listener.subscribe("u", lambda incoming: inbox.put_nowait(incoming.payload))
    async with running(speaker, listener), asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(speaker.publish("t", b"%d" % number, qos=1) for number in range(BURST)))
        await whole.wait()
        assert heard == [*range(BURST)]
        payload = bytes(range(256)) * (1 << 15)  # larger than the socket takes at once
        for sent in (payload, b"after"):
            await speaker.publish("u", sent, qos=1)
            assert await inbox.get() == sent


def work() -> None:
    """A handler that takes 1 ms."""
    clock = SystemClock()
    until_ns = clock.monotonic_ns() + 1_000_000
    while clock.monotonic_ns() < until_ns:
        pass


async def test_loop_has_its_turns_while_messages_pour_in(new_bus: NewBus) -> None:
    """What works a while does not keep the loop for all that have come."""
    speaker, listener = new_bus("speaker"), new_bus("listener")
    turns: list[int] = []
    heard: list[bytes] = []

    def take(incoming: Incoming) -> None:
        heard.append(incoming.payload)
        work()

    async def count_turns() -> None:
        while len(heard) < 100:
            turns.append(1)
            await asyncio.sleep(0.001)

    listener.subscribe("t", take)
    async with running(speaker, listener), asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        for _ in range(100):
            tasks.create_task(speaker.publish("t", b"", qos=1))
        tasks.create_task(count_turns())
    assert len(turns) >= 10


@pytest.fixture
async def broker() -> AsyncIterator[DeafBroker]:
    async with DeafBroker() as broker:
        yield broker


@pytest.fixture
def bus(broker: DeafBroker) -> MqttBus:
    return MqttBus(broker.url, "c", SystemClock(), Draws(1))


async def test_loop_has_its_turns_however_many_publications_are_under_way(broker: DeafBroker, bus: MqttBus) -> None:
    """paho reads as many messages in one turn as publications are under way: the bus has a limit for those."""
    turns: list[int] = []
    heard: list[bytes] = []

    def take(incoming: Incoming) -> None:
        heard.append(incoming.payload)
        work()

    bus.subscribe("t", take)
    async with running(bus):
        published = [asyncio.create_task(bus.publish("t", b"", qos=1)) for _ in range(200)]
        await asyncio.sleep(0)
        broker.say(*[publish(b"%d" % number) for number in range(200)])
        while len(heard) < 200:
            turns.append(len(heard))
            await asyncio.sleep(0.001)
    await asyncio.gather(*published, return_exceptions=True)
    assert len(set(turns)) >= 10


async def fill(bus: MqttBus, *, times: int = 1) -> list[asyncio.Task[None]]:
    """Publish what does not fit into the socket, so often, each behind what waits."""
    tasks = []
    for _ in range(times):
        tasks.append(asyncio.create_task(bus.publish("t", MUCH)))
        await asyncio.sleep(0.05)
    return tasks


async def test_what_waits_behind_a_full_socket_goes_out_as_the_broker_reads_on(
    broker: DeafBroker, bus: MqttBus
) -> None:
    """And not only when a PINGREQ comes behind it; who leaves says so behind all that waits."""
    bus.subscribe("t", print)
    async with running(bus):
        published = await fill(bus, times=3)
        broker.hears.set()
        assert [await broker.packets.get() for _ in range(3)] == [PUBLISHED] * 3
        await asyncio.gather(*published)
        broker.hears.clear()
        published = await fill(bus, times=2)
        asyncio.get_running_loop().call_later(0.05, broker.hears.set)
    assert [await broker.packets.get() for _ in range(3)] == [PUBLISHED, PUBLISHED, (DISCONNECT, 0)]
    await asyncio.gather(*published, return_exceptions=True)


async def test_client_whose_broker_dies_before_a_full_socket_is_connected_again(
    broker: DeafBroker, bus: MqttBus
) -> None:
    bus.subscribe("t", print)
    up, down = asyncio.Event(), asyncio.Event()
    bus.on_down(lambda cause: down.set())
    async with running(bus):
        bus.on_up(up.set)
        for _ in range(3):
            published = await fill(bus)
            broker.die()
            await down.wait()
            await up.wait()
            up.clear()
            down.clear()
            await asyncio.gather(*published, return_exceptions=True)


async def test_handler_that_raises_is_called_once_though_the_socket_is_full(broker: DeafBroker, bus: MqttBus) -> None:
    """And what raised ends the client."""
    heard: list[bytes] = []

    def take(incoming: Incoming) -> None:
        heard.append(incoming.payload)
        raise RuntimeError("no sense")

    bus.subscribe("t", take)
    up = asyncio.Event()
    bus.on_up(up.set)
    run = asyncio.create_task(bus.run())
    await up.wait()
    published = await fill(bus)
    broker.say(publish(b"1"), publish(b"2"))
    with pytest.raises(RuntimeError, match="no sense"):
        await run
    await asyncio.gather(*published, return_exceptions=True)
    broker.hears.set()
    while await broker.packets.get() != (GONE, 0):
        pass
    assert heard == [b"1"]


async def test_broker_that_dies_while_its_messages_are_taken_is_met_again_and_they_end_before_that_is_told(
    broker: DeafBroker, bus: MqttBus
) -> None:
    told: list[str] = []
    up = asyncio.Event()
    speaking: list[asyncio.Task[None]] = []

    def take(incoming: Incoming) -> None:
        told.append("message")
        work()
        if len(told) == 100:
            broker.die()
            asyncio.get_running_loop().call_soon(speak)

    def speak() -> None:
        speaking.append(asyncio.create_task(bus.publish("t", b"into nothing")))

    bus.subscribe("t", take)
    bus.on_down(lambda cause: told.append("down"))
    async with running(bus):
        bus.on_up(lambda: told.append("up"))
        bus.on_up(up.set)
        broker.say(*[publish(b"%d" % number) for number in range(2000)])
        await up.wait()
        await asyncio.gather(*speaking, return_exceptions=True)
    assert told[-2:] == ["down", "up"]
    assert set(told[:-2]) == {"message"}


async def test_a_message_of_qos_0_waits_for_no_acknowledgement_of_others(broker: DeafBroker, bus: MqttBus) -> None:
    """A clock's answer has a stamp in it, and must not wait behind commands."""
    bus.subscribe("t", print)
    async with running(bus):
        broker.hears.set()
        commands = [asyncio.create_task(bus.publish("t", b"", qos=1)) for _ in range(3 * CALLS_MOST)]
        kinds = [(await broker.packets.get())[0] for _ in range(CALLS_MOST)]
        await bus.publish("t", b"now")
        kinds.append((await broker.packets.get())[0])
    await asyncio.gather(*commands, return_exceptions=True)
    assert kinds == [PUBLISH | QOS_1] * CALLS_MOST + [PUBLISH]
