"""One connection: answers by tag, named deadlines, and a loss that fails every waiter."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest
from typing_extensions import override

from hwd_drivers.core.errors import BugError, ConfigError, DeadlineError, LinkError, ProtocolError
from hwd_drivers.devices.connection import Connection, Request
from hwd_drivers.transports.memory import Cut, MemoryDialer, MemoryNet
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual


class Peer(asyncio.Protocol):
    """The other end of a line protocol `tag text`: stores received lines, and sends what the test wants."""

    def __init__(self) -> None:
        self.got = b""
        self.transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self.got += data

    def send(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)


class Lines:
    """Decoder of that protocol."""

    def __init__(self) -> None:
        self.rest = b""

    def decode(self, data: bytes) -> list[tuple[str, str]]:
        *lines, self.rest = (self.rest + data).split(b"\n")
        answers = []
        for line in lines:
            tag, space, text = line.decode().partition(" ")
            if not space:
                raise ProtocolError(f"line {line!r} has no tag")
            answers.append((tag, text))
        return answers


class World:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.net = MemoryNet(latency_s=0.01)
        self.dialer = MemoryDialer(self.net)
        self.clock = VirtualClock(loop, wall_start_ns=0)
        self.peer = Peer()

    async def connect(self, *, within_s: float = 1.0) -> Connection[str]:
        await self.dialer.listen(lambda: self.peer, "mem:device")
        return await self.open("mem:device", within_s=within_s)

    async def open(self, address: str, *, within_s: float = 1.0) -> Connection[str]:
        return await Connection.open(
            self.dialer,
            address,
            name="ocs1",
            decode=Lines().decode,
            clock=self.clock,
            deadline_s=self.loop.time() + within_s,
        )


def in_world(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    async def main() -> None:
        await test(World())

    def run() -> None:
        run_virtual(main())

    run.__name__ = test.__name__
    return run


def ask(tag: str) -> Request:
    return Request(tag=tag, data=f"{tag} ?\n".encode(), what=f"ASK {tag}")


@in_world
async def test_answers_reach_their_requests_in_any_order(world: World) -> None:
    connection = await world.connect()
    first = asyncio.create_task(connection.request(ask("1"), deadline_s=world.loop.time() + 1))
    second = asyncio.create_task(connection.request(ask("2"), deadline_s=world.loop.time() + 1))
    await asyncio.sleep(0.1)
    world.peer.send(b"2 two\n1 one\n")
    assert (await first).messages == ("one",)
    assert (await second).messages == ("two",)
    await connection.close()


@in_world
async def test_requests_of_one_exchange_go_out_in_one_write_and_are_stamped(world: World) -> None:
    connection = await world.connect()
    sent: list[int] = []
    started_ns = world.clock.monotonic_ns()
    asked = asyncio.create_task(
        connection.request(ask("1"), ask("2"), deadline_s=world.loop.time() + 1, on_sent=sent.append)
    )
    await asyncio.sleep(0.1)
    assert world.peer.got == b"1 ?\n2 ?\n"
    world.peer.send(b"2 two\n")
    await asyncio.sleep(0.1)
    world.peer.send(b"1 one\n")
    answered = await asked
    assert answered.messages == ("one", "two")
    assert sent == [answered.sent_ns] == [started_ns]
    assert answered.received_ns == started_ns + 210_000_000
    await connection.close()


@in_world
async def test_a_deadline_names_the_request_and_the_limit_and_leaves_the_connection(world: World) -> None:
    connection = await world.connect()
    with pytest.raises(DeadlineError, match=r"ocs1: ASK 1: no answer within 0\.5 s"):
        await connection.request(ask("1"), deadline_s=world.loop.time() + 0.5)
    asked = asyncio.create_task(connection.request(ask("2"), deadline_s=world.loop.time() + 1))
    await asyncio.sleep(0.1)
    world.peer.send(b"1 late\n2 two\n")
    assert (await asked).messages == ("two",)
    assert connection.late == 1
    await connection.close()


@in_world
async def test_nothing_is_sent_after_the_deadline(world: World) -> None:
    connection = await world.connect()
    with pytest.raises(DeadlineError, match="not sent"):
        await connection.request(ask("1"), deadline_s=world.loop.time())
    await connection.close()
    assert world.peer.got == b""


@in_world
async def test_a_tag_cannot_be_used_twice_at_a_time(world: World) -> None:
    connection = await world.connect()
    first = asyncio.create_task(connection.request(ask("1"), deadline_s=world.loop.time() + 1))
    await asyncio.sleep(0)
    with pytest.raises(BugError, match="tag 1 is in use"):
        await connection.request(ask("1"), deadline_s=world.loop.time() + 1)
    await asyncio.sleep(0.1)
    world.peer.send(b"1 one\n")
    assert (await first).messages == ("one",)
    await connection.close()


@pytest.mark.parametrize("how", ["reset", "closed"])
def test_death_fails_every_waiter_with_the_cause(how: str) -> None:
    async def story(world: World) -> None:
        connection = await world.connect()
        waiters = [
            asyncio.create_task(connection.request(ask(tag), deadline_s=world.loop.time() + 9)) for tag in ("1", "2")
        ]
        await asyncio.sleep(0.1)
        if how == "reset":
            world.net.cut("mem:device", Cut.RESET)
        else:
            assert world.peer.transport is not None
            world.peer.transport.close()
        found = "Connection reset" if how == "reset" else "the other side closed it"
        for tag, waiter in zip(("1", "2"), waiters, strict=True):
            with pytest.raises(LinkError, match=rf"ocs1: connection lost: .*{found}.*ASK {tag}"):
                await waiter
        assert isinstance(await connection.lost(), LinkError)
        with pytest.raises(LinkError, match=found):
            await connection.request(ask("3"), deadline_s=world.loop.time() + 1)
        await connection.close()

    in_world(story)()


def test_garbage_is_logged_and_counted_and_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        connection = await world.connect()
        waiter = asyncio.create_task(connection.request(ask("1"), deadline_s=world.loop.time() + 9))
        await asyncio.sleep(0.1)
        world.peer.send(b"9 late\n")
        await asyncio.sleep(0.1)
        world.peer.send(b"#garbage#\n")
        with pytest.raises(ProtocolError, match="has no tag"):
            await waiter
        assert isinstance(await connection.lost(), ProtocolError)
        assert connection.garbled == 1
        await connection.close()

    with caplog.at_level(logging.WARNING):
        in_world(story)()
    assert "#garbage#" in caplog.text


def test_garbage_that_comes_first_is_in_the_error_and_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """As of a wrong speed: whoever tries again and again warns once, with that error."""

    async def story(world: World) -> None:
        connection = await world.connect()
        waiter = asyncio.create_task(connection.request(ask("1"), deadline_s=world.loop.time() + 9))
        await asyncio.sleep(0.1)
        world.peer.send(b"#garbage#\n")
        with pytest.raises(ProtocolError, match=r"has no tag.*It began with b'#garbage#"):
            await waiter
        await connection.close()

    with caplog.at_level(logging.WARNING):
        in_world(story)()
    assert caplog.text == ""


@in_world
async def test_a_waiter_that_is_cancelled_leaves_the_others_alone(world: World) -> None:
    connection = await world.connect()
    one = asyncio.create_task(connection.request(ask("1"), deadline_s=world.loop.time() + 1))
    two = asyncio.create_task(connection.request(ask("2"), deadline_s=world.loop.time() + 1))
    await asyncio.sleep(0.1)
    one.cancel()
    world.peer.send(b"1 one\n2 two\n")
    assert (await two).messages == ("two",)
    assert connection.late == 1
    await connection.close()


@in_world
async def test_closing_is_bounded_even_where_the_last_bytes_cannot_leave(world: World) -> None:
    connection = await world.connect()
    world.net.cut("mem:device", Cut.SILENT)
    connection.send_last(b"x" * 1_000_000)
    started_s = world.loop.time()
    await connection.close()
    await connection.close()
    assert world.loop.time() - started_s <= 1.1


@in_world
async def test_a_refused_connection_is_a_link_error_that_names_the_address(world: World) -> None:
    with pytest.raises(LinkError, match="ocs1: cannot connect to mem:nobody"):
        await world.open("mem:nobody")


@in_world
async def test_a_silent_connection_is_a_deadline_error_that_names_the_limit(world: World) -> None:
    world.net.cut("mem:device", Cut.SILENT)
    with pytest.raises(DeadlineError, match="ocs1: cannot connect to mem:device within 1 s"):
        await world.connect()


@in_world
async def test_an_invalid_address_is_a_config_error(world: World) -> None:
    with pytest.raises(ConfigError, match="ocs1"):
        await world.open("10.0.0.5")
