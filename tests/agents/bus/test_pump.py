import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hwd_agents.bus.mqtt import MqttBus
from hwd_drivers.kit.clock import SystemClock
from hwd_drivers.kit.ids import Draws

Run = Callable[..., contextlib.AbstractAsyncContextManager[None]]
Start = Callable[..., Awaitable[tuple[str, Callable[[], Awaitable[None]]]]]
NewBus = Callable[[str], MqttBus]
PATIENCE_S = 20.0
BURST = 500


@pytest.fixture(params=["tcp", "unix", "tls"])
async def new_bus(request: pytest.FixtureRequest, start_mosquitto: Start, pem: Path, tmp_path: Path) -> NewBus:
    tls = request.param == "tls"
    address, _ = await start_mosquitto("allow_anonymous true\nmax_queued_messages 0", pem=pem if tls else None)
    url = f"unix:{tmp_path / 'm.sock'}" if request.param == "unix" else address
    trusted = ssl.create_default_context(cafile=pem) if tls else None
    return lambda client_id: MqttBus(url, client_id, SystemClock(), Draws(1), tls=trusted)


async def test_burst_comes_once_and_in_order_and_is_acknowledged_so_that_more_follows(
    new_bus: NewBus, run_buses: Run
) -> None:
    """Mosquitto has 20 messages under way at most: the others come only where those were acknowledged."""
    speaker, listener = new_bus("speaker"), new_bus("listener")
    heard: list[int] = []
    whole = asyncio.Event()

    def take(number: int) -> None:
        heard.append(number)
        if len(heard) == BURST:
            whole.set()

    listener.subscribe("t", lambda incoming: take(int(incoming.payload)))
    async with run_buses(speaker, listener), asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(speaker.publish("t", b"%d" % number, qos=1) for number in range(BURST)))
        await whole.wait()
    assert heard == [*range(BURST)]


async def test_message_larger_than_the_socket_takes_at_once_arrives_whole(new_bus: NewBus, run_buses: Run) -> None:
    speaker, listener = new_bus("speaker"), new_bus("listener")
    payload = bytes(range(256)) * (1 << 15)
    inbox: asyncio.Queue[bytes] = asyncio.Queue()
    listener.subscribe("t", lambda incoming: inbox.put_nowait(incoming.payload))
    async with run_buses(speaker, listener), asyncio.timeout(PATIENCE_S):
        await speaker.publish("t", payload, qos=1)
        assert await inbox.get() == payload
        await speaker.publish("t", b"after", qos=1)
        assert await inbox.get() == b"after"


async def test_loop_has_its_turns_while_messages_pour_in(new_bus: NewBus, run_buses: Run) -> None:
    """A handler that takes 1 ms does not keep the loop for all that have come."""
    speaker, listener = new_bus("speaker"), new_bus("listener")
    clock = SystemClock()
    turns: list[int] = []
    whole = asyncio.Event()

    def take(number: int) -> None:
        until_ns = clock.monotonic_ns() + 1_000_000
        while clock.monotonic_ns() < until_ns:
            pass
        if number == 99:
            whole.set()

    async def count_turns() -> None:
        while not whole.is_set():
            turns.append(1)
            await asyncio.sleep(0.001)

    listener.subscribe("t", lambda incoming: take(int(incoming.payload)))
    async with run_buses(speaker, listener), asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        for number in range(100):
            tasks.create_task(speaker.publish("t", b"%d" % number, qos=1))
        tasks.create_task(count_turns())
    assert len(turns) >= 10
