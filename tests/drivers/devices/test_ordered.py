"""Answers without tags: their order assigns them to requests, and any break of the order ends the connection."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest
from typing_extensions import override

from hwd_drivers.core.errors import DeadlineError, LinkError, ProtocolError
from hwd_drivers.devices.ordered import OrderedConnection, Request
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual


class Peer(asyncio.Protocol):
    """The other end: stores received bytes, and sends what the test wants."""

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
    """Decoder of lines; `#` is no line of this protocol."""

    def __init__(self) -> None:
        self.rest = b""

    def decode(self, data: bytes) -> list[str]:
        *lines, self.rest = (self.rest + data).split(b"\n")
        if b"#" in data:
            raise ProtocolError("a # in it")
        return [line.decode() for line in lines]


class World:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.dialer = MemoryDialer(MemoryNet(latency_s=0.01))
        self.clock = VirtualClock(loop, wall_start_ns=0)
        self.peer = Peer()

    async def connect(self) -> OrderedConnection[str]:
        await self.dialer.listen(lambda: self.peer, "mem:device")
        return await OrderedConnection.open(
            self.dialer,
            "mem:device",
            name="sw1",
            decode=Lines().decode,
            clock=self.clock,
            deadline_s=self.loop.time() + 1,
            refuses=lambda line: line.startswith("Error"),
        )

    def soon(self) -> float:
        return self.loop.time() + 1


def in_world(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    async def main() -> None:
        await test(World())

    def run() -> None:
        run_virtual(main())

    run.__name__ = test.__name__
    return run


def ask(text: str, *, answers: int = 1, fits: Callable[[str], bool] | None = None) -> Request[str]:
    return Request(data=f"{text}\n".encode(), what=text, answers=answers, fits=fits)


@in_world
async def test_answers_belong_to_the_requests_in_the_order_of_asking(world: World) -> None:
    connection = await world.connect()
    first = asyncio.create_task(connection.request(ask("A?"), ask("B?"), deadline_s=world.soon()))
    second = asyncio.create_task(connection.request(ask("C?", answers=2), deadline_s=world.soon()))
    await asyncio.sleep(0.1)
    assert world.peer.got == b"A?\nB?\nC?\n"
    world.peer.send(b"a\nb\nc1\n")
    assert (await first).messages == ("a", "b")
    assert not second.done()
    world.peer.send(b"c2\n")
    assert (await second).messages == ("c1", "c2")
    await connection.close()


@in_world
async def test_an_exchange_is_stamped_before_its_first_byte_and_at_its_last_answer(world: World) -> None:
    connection = await world.connect()
    sent: list[int] = []
    started_ns = world.clock.monotonic_ns()
    asked = asyncio.create_task(connection.request(ask("A?"), ask("B?"), deadline_s=world.soon(), on_sent=sent.append))
    await asyncio.sleep(0.1)
    world.peer.send(b"a\n")
    await asyncio.sleep(0.1)
    world.peer.send(b"b\n")
    answered = await asked
    assert sent == [answered.sent_ns] == [started_ns]
    assert answered.received_ns == started_ns + 210_000_000
    await connection.close()


@in_world
async def test_a_request_that_is_not_answered_is_over_when_it_is_sent(world: World) -> None:
    connection = await world.connect()
    answered = await connection.request(ask("S 1", answers=0), deadline_s=world.soon())
    assert answered.messages == ()
    assert answered.received_ns == answered.sent_ns
    asked = asyncio.create_task(connection.request(ask("S?"), deadline_s=world.soon()))
    await asyncio.sleep(0.1)
    assert world.peer.got == b"S 1\nS?\n"
    world.peer.send(b"1\n")
    assert (await asked).messages == ("1",)
    await connection.close()


@in_world
async def test_a_refusal_belongs_to_the_silent_request_before_the_question(world: World) -> None:
    connection = await world.connect()
    both = asyncio.create_task(connection.request(ask("S 9", answers=0), ask("S?"), deadline_s=world.soon()))
    await asyncio.sleep(0.1)
    world.peer.send(b"Error 02,Invalid\n")
    await asyncio.sleep(0.1)
    assert not both.done()
    world.peer.send(b"1\n")
    assert (await both).messages == ("Error 02,Invalid", "1")
    await connection.close()


@in_world
async def test_a_refusal_answers_all_of_a_question_that_has_many_answers(world: World) -> None:
    connection = await world.connect()
    asked = asyncio.create_task(connection.request(ask("C?", answers=3), ask("D?"), deadline_s=world.soon()))
    await asyncio.sleep(0.1)
    world.peer.send(b"Error 01,No\nd\n")
    assert (await asked).messages == ("Error 01,No", "d")
    await connection.close()


@in_world
async def test_a_deadline_ends_the_connection_and_names_the_request(world: World) -> None:
    connection = await world.connect()
    behind = asyncio.create_task(connection.request(ask("A?"), deadline_s=world.loop.time() + 0.5))
    other = asyncio.create_task(connection.request(ask("B?"), deadline_s=world.loop.time() + 9))
    with pytest.raises(DeadlineError, match=r"sw1: A\?: no answer within 0\.5 s"):
        await behind
    with pytest.raises(LinkError, match=r"A\? was not answered within 0\.5 s.*in B\?"):
        await other
    assert isinstance(await connection.lost(), LinkError)
    with pytest.raises(LinkError, match="was not answered"):
        await connection.request(ask("C?"), deadline_s=world.soon())
    await connection.close()


@in_world
async def test_nothing_is_sent_after_the_deadline_and_the_connection_stays(world: World) -> None:
    connection = await world.connect()
    with pytest.raises(DeadlineError, match="not sent"):
        await connection.request(ask("S 1", answers=0), deadline_s=world.loop.time())
    asked = asyncio.create_task(connection.request(ask("S?"), deadline_s=world.soon()))
    await asyncio.sleep(0.1)
    world.peer.send(b"2\n")
    assert (await asked).messages == ("2",)
    await connection.close()
    assert world.peer.got == b"S?\n"


@in_world
async def test_the_answer_of_a_cancelled_exchange_is_dropped_in_its_place(world: World) -> None:
    connection = await world.connect()
    given_up = asyncio.create_task(connection.request(ask("A?"), ask("B?"), deadline_s=world.soon()))
    await asyncio.sleep(0.1)
    given_up.cancel()
    asked = asyncio.create_task(connection.request(ask("C?"), deadline_s=world.soon()))
    await asyncio.sleep(0.1)
    world.peer.send(b"a\nb\nc\n")
    assert (await asked).messages == ("c",)
    assert connection.late == 2
    await connection.close()


def closes_for(send: bytes, finding: str, request: Request[str] | None) -> Callable[[], None]:
    async def story(world: World) -> None:
        connection = await world.connect()
        if request is None:
            world.peer.send(send)
        else:
            waiter = asyncio.create_task(connection.request(request, deadline_s=world.soon()))
            await asyncio.sleep(0.1)
            world.peer.send(send)
            with pytest.raises(ProtocolError, match=finding):
                await waiter
        cause = await connection.lost()
        assert isinstance(cause, ProtocolError)
        assert finding in str(cause)
        assert repr(send) in str(cause), "whoever tries again and again has it for its one warning"
        assert connection.garbled == 1
        await connection.close()

    return in_world(story)


@pytest.mark.parametrize(
    ("send", "finding", "request_"),
    [
        (b"#garbage\n", "a # in it", ask("A?")),
        (b"1\n", "'1' without a request", None),
        (b"a\nb\n", "'a' without a request", None),
        (b"OSW12\n", "'OSW12' is not an answer to S", ask("S?", fits=str.isdigit)),
    ],
)
def test_a_message_that_cannot_be_an_answer_ends_the_connection_and_is_logged(
    send: bytes, finding: str, request_: Request[str] | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        closes_for(send, finding, request_)()
    assert repr(send) in caplog.text


@in_world
async def test_an_answer_at_its_deadline_is_accepted_or_late_never_both(world: World) -> None:
    connection = await world.connect()
    asked = asyncio.create_task(connection.request(ask("A?"), deadline_s=world.loop.time() + 0.5))
    await asyncio.sleep(0.49)
    world.peer.send(b"a\n")  # arrives with the deadline
    try:
        assert (await asked).messages == ("a",)
    except DeadlineError:
        assert isinstance(await connection.lost(), LinkError)
    else:
        again = asyncio.create_task(connection.request(ask("B?"), deadline_s=world.soon()))
        await asyncio.sleep(0.1)
        world.peer.send(b"b\n")
        assert (await again).messages == ("b",)
    await connection.close()


@in_world
async def test_death_fails_every_waiter_with_the_cause(world: World) -> None:
    connection = await world.connect()
    waiters = [asyncio.create_task(connection.request(ask(text), deadline_s=world.soon())) for text in ("A?", "B?")]
    await asyncio.sleep(0.1)
    assert world.peer.transport is not None
    world.peer.transport.close()
    for text, waiter in zip(("A", "B"), waiters, strict=True):
        with pytest.raises(LinkError, match=rf"the other side closed it.*in {text}\?"):
            await waiter
    assert isinstance(await connection.lost(), LinkError)
    await connection.close()


@in_world
async def test_a_request_whose_caller_fails_before_the_write_is_not_sent_and_leaves_the_queue(world: World) -> None:
    def fail(sent_ns: int) -> None:
        raise OSError(f"no room to write down {sent_ns}")

    connection = await world.connect()
    with pytest.raises(OSError, match="no room"):
        await connection.request(ask("A?"), deadline_s=world.soon(), on_sent=fail)
    asked = asyncio.create_task(connection.request(ask("B?"), deadline_s=world.soon()))
    await asyncio.sleep(0.1)
    assert world.peer.got == b"B?\n"
    world.peer.send(b"b\n")
    assert (await asked).messages == ("b",)
    await connection.close()
