import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hwd.bus.broker import EmbeddedBroker
from hwd_agents.bus.mqtt import RETRY_FIRST_S, BrokerUrl, MqttBus, _recovering_cancel
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ConfigError, LinkError
from hwd_drivers.core.ids import Draws

from ...answers import check_answers
from ..conftest import stop
from .conftest import running, start_amqtt

Start = Callable[..., Awaitable[tuple[str, Callable[[], Awaitable[None]]]]]
PATIENCE_S = 20.0


def new_bus(url: str | Callable[[], str], client_id: str = "alice") -> MqttBus:
    return MqttBus(url, client_id, SystemClock(), Draws(1))


def said_of(url: str) -> str:
    try:
        parsed = BrokerUrl.parse(url)
    except ConfigError as error:
        said = f"refused: {error}"
    else:
        said = f"{parsed}, password: {parsed.password}"
    assert "secret" not in said
    return said


def test_broker_url_is_read_or_refused_and_shown_without_its_password() -> None:
    check_answers(Path(__file__).with_name("broker_urls.txt"), {"URLs": said_of})


async def test_url_is_asked_for_before_each_connect(url: str) -> None:
    answers = iter([None, None, url])

    def find() -> str:
        if (found := next(answers)) is None:
            raise LinkError("broker: not found yet")
        return found

    bus = new_bus(find)
    async with running(bus):
        assert bus.address == url


async def test_qos1_does_not_wait_for_delayed_acknowledgements(url: str) -> None:
    """Without TCP_NODELAY each takes 44 ms."""
    bus = new_bus(url)
    loop = asyncio.get_running_loop()
    took_s = []
    async with running(bus):
        for _ in range(21):
            start_s = loop.time()
            await bus.publish("t", b"x", qos=1)
            took_s.append(loop.time() - start_s)
    assert sorted(took_s)[10] < 0.02


async def first_warning(url: str, caplog: pytest.LogCaptureFixture) -> str:
    """What a bus says, once, of a broker that it cannot be connected to."""
    caplog.set_level(logging.WARNING, "hwd_agents")
    said = asyncio.Event()
    watch = logging.Handler()
    watch.emit = lambda record: said.set()  # type: ignore[method-assign]
    logging.getLogger("hwd_agents.bus.subscriptions").addHandler(watch)
    run = asyncio.create_task(new_bus(url).run())
    async with asyncio.timeout(PATIENCE_S):
        await said.wait()
    logging.getLogger("hwd_agents.bus.subscriptions").removeHandler(watch)
    await stop(run)
    (text,) = [record.getMessage() for record in caplog.records if record.name.startswith("hwd_agents")]
    return text


@pytest.mark.parametrize("kind", ["amqtt", "mosquitto"])
async def test_wrong_password_is_said_once_without_it(
    kind: str, start_mosquitto: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if kind == "mosquitto":
        (tmp_path / "passwords").write_text("")
        url, kill = await start_mosquitto(f"allow_anonymous false\npassword_file {tmp_path / 'passwords'}")
    else:
        broker = EmbeddedBroker(users={"h0": "right"})
        url, kill = await broker.start(), broker.close
    text = await first_warning(url.replace("//", "//h0:wrong@"), caplog)
    await kill()
    assert text.startswith(url.replace("//", "//h0@") + ": cannot connect:")
    assert "It does not take this user and password: `hwd agent deploy` brings an agent its own" in text
    assert "wrong" not in text


async def test_a_port_where_nobody_listens_is_said_with_what_to_look_at(caplog: pytest.LogCaptureFixture) -> None:
    url, close = await start_amqtt()
    await close()
    assert (await first_warning(url, caplog)).endswith("Nothing listens there: is the broker running?")


async def test_cancel_while_the_broker_says_nothing_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hwd_agents.bus.mqtt.CONNECT_S", 0.5)
    asked = asyncio.Event()
    writers: list[asyncio.StreamWriter] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.readexactly(4)
        asked.set()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    run = asyncio.create_task(new_bus(f"mqtt://127.0.0.1:{server.sockets[0].getsockname()[1]}").run())
    async with asyncio.timeout(PATIENCE_S):
        await asked.wait()
        await stop(run)
    server.close()
    for writer in writers:
        writer.close()


@pytest.mark.parametrize("turns", range(12))
async def test_stop_together_with_the_broker_ends_and_leaves_no_error(turns: int) -> None:
    """In any order: a loss that nobody saw is logged by asyncio, a cancel that came with it would be lost."""
    broker = EmbeddedBroker()
    bus = new_bus(await broker.start())
    up = asyncio.Event()
    bus.on_up(up.set)
    run = asyncio.create_task(bus.run())
    async with asyncio.timeout(PATIENCE_S):
        await up.wait()
        closing = asyncio.create_task(broker.close())
        for _ in range(turns):
            await _a_turn()
        run.cancel()
        await asyncio.wait([run, closing])
    assert run.cancelled()


async def _a_turn() -> None:
    turn = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(turn.set_result, None)
    await turn


async def test_broker_that_ends_is_said_in_words(start_mosquitto: Start) -> None:
    url, stop = await start_mosquitto()
    bus = new_bus(url)
    causes: asyncio.Queue[str] = asyncio.Queue()
    bus.on_down(causes.put_nowait)
    async with running(bus), asyncio.timeout(PATIENCE_S):
        await stop()
        assert await causes.get() == "the broker closed the connection, or it broke"


async def test_a_cancel_that_comes_with_the_answer_is_not_lost() -> None:
    answer = asyncio.get_running_loop().create_future()

    async def wait() -> None:
        with _recovering_cancel():
            await asyncio.wait_for(answer, 10)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    answer.set_result(None)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_waits_for_a_broker_that_went_begin_short_and_double_with_full_jitter(virtual_time: None) -> None:
    loop, draws = asyncio.get_running_loop(), Draws(1).stream("mqtt alice")
    broker = EmbeddedBroker()
    url = await broker.start()
    tries_s: list[float] = []
    closing: list[asyncio.Task[None]] = []
    tried = asyncio.Event()

    def find() -> str:
        tries_s.append(loop.time())
        if len(tries_s) == 6:
            tried.set()
        return url

    bus = new_bus(find)
    bus.on_up(lambda: closing.append(loop.create_task(broker.close())))
    bus.on_down(lambda cause: tries_s.append(loop.time()))
    run = asyncio.create_task(bus.run())
    await tried.wait()
    await stop(run)
    waits_s = [later - earlier for earlier, later in itertools.pairwise(tries_s[1:])]
    assert waits_s == pytest.approx([draws.uniform(0, RETRY_FIRST_S * 2**number) for number in range(4)])
