"""Answers without tags: their order assigns them to requests, and any break of the order ends the connection."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from hwd_drivers.core.errors import DeadlineError, LinkError, ProtocolError
from hwd_drivers.devices.ordered import OrderedConnection, Request

from .conftest import Line

Session = OrderedConnection[str]


class Lines:
    """Decoder of lines; `#` is no line of this protocol."""

    def __init__(self) -> None:
        self.rest = b""

    def decode(self, data: bytes) -> list[str]:
        *lines, self.rest = (self.rest + data).split(b"\n")
        if b"#" in data:
            raise ProtocolError("a # in it")
        return [line.decode() for line in lines]


@pytest.fixture
async def connection(line: Line) -> AsyncIterator[Session]:
    await line.listen()
    connection = await OrderedConnection.open(
        line.dialer,
        "mem:device",
        name="sw1",
        decode=Lines().decode,
        clock=line.clock,
        deadline_s=line.within(),
        refuses=lambda text: text.startswith("Error"),
    )
    yield connection
    await connection.close()


def ask(text: str, *, answers: int = 1, fits: Callable[[str], bool] | None = None) -> Request[str]:
    return Request(data=f"{text}\n".encode(), what=text, answers=answers, fits=fits)


async def test_answers_belong_to_requests_in_their_order_and_are_stamped(line: Line, connection: Session) -> None:
    first = asyncio.create_task(connection.request(ask("A?"), ask("B?"), deadline_s=line.within()))
    second = await line.begun(connection.request(ask("C?", answers=2), deadline_s=line.within()))
    assert line.peer.received == b"A?\nB?\nC?\n"
    line.send(b"a\nb\nc1\n")
    assert (await first).messages == ("a", "b")
    assert not second.done()
    line.send(b"c2\n")
    assert (await second).messages == ("c1", "c2")
    sent: list[int] = []
    started_ns = line.clock.monotonic_ns()
    asked = await line.begun(connection.request(ask("A?"), ask("B?"), deadline_s=line.within(), on_sent=sent.append))
    line.send(b"a\n")
    await asyncio.sleep(0.1)
    line.send(b"b\n")
    answered = await asked
    assert sent == [answered.sent_ns] == [started_ns]
    assert answered.received_ns == started_ns + 210_000_000


async def test_a_request_that_is_not_answered_is_over_when_sent_and_a_refusal_is_of_it_or_of_all_of_a_question(
    line: Line, connection: Session
) -> None:
    answered = await connection.request(ask("S 1", answers=0), deadline_s=line.within())
    assert answered.messages == ()
    assert answered.received_ns == answered.sent_ns
    asked = await line.begun(connection.request(ask("S?"), deadline_s=line.within()))
    assert line.peer.received == b"S 1\nS?\n"
    line.send(b"1\n")
    assert (await asked).messages == ("1",)
    both = await line.begun(connection.request(ask("S 9", answers=0), ask("S?"), deadline_s=line.within()))
    line.send(b"Error 02,Invalid\n")
    await asyncio.sleep(0.1)
    assert not both.done()
    line.send(b"1\n")
    assert (await both).messages == ("Error 02,Invalid", "1")
    asked = await line.begun(connection.request(ask("C?", answers=3), ask("D?"), deadline_s=line.within()))
    line.send(b"Error 01,No\nd\n")
    assert (await asked).messages == ("Error 01,No", "d")


async def test_a_deadline_ends_the_connection_and_names_the_request(line: Line, connection: Session) -> None:
    behind = asyncio.create_task(connection.request(ask("A?"), deadline_s=line.within(0.5)))
    other = asyncio.create_task(connection.request(ask("B?"), deadline_s=line.within(9)))
    with pytest.raises(DeadlineError, match=r"sw1: A\?: no answer within 0\.5 s"):
        await behind
    with pytest.raises(LinkError, match=r"A\? was not answered within 0\.5 s.*in B\?"):
        await other
    assert isinstance(await connection.lost(), LinkError)
    with pytest.raises(LinkError, match="was not answered"):
        await connection.request(ask("C?"), deadline_s=line.within())


async def test_nothing_is_sent_after_the_deadline_or_where_its_caller_fails_before_and_the_connection_stays(
    line: Line, connection: Session
) -> None:
    with pytest.raises(DeadlineError, match="not sent"):
        await connection.request(ask("S 1", answers=0), deadline_s=line.loop.time())
    asked = await line.begun(connection.request(ask("S?"), deadline_s=line.within()))
    line.send(b"2\n")
    assert (await asked).messages == ("2",)
    assert line.peer.received == b"S?\n"

    def fail(sent_ns: int) -> None:
        raise OSError(f"no room to write down {sent_ns}")

    with pytest.raises(OSError, match="no room"):
        await connection.request(ask("A?"), deadline_s=line.within(), on_sent=fail)
    asked = await line.begun(connection.request(ask("B?"), deadline_s=line.within()))
    assert line.peer.received == b"S?\nB?\n"
    line.send(b"b\n")
    assert (await asked).messages == ("b",)


async def test_the_answer_of_a_cancelled_exchange_is_dropped_in_its_place(line: Line, connection: Session) -> None:
    given_up = await line.begun(connection.request(ask("A?"), ask("B?"), deadline_s=line.within()))
    given_up.cancel()
    asked = await line.begun(connection.request(ask("C?"), deadline_s=line.within()))
    line.send(b"a\nb\nc\n")
    assert (await asked).messages == ("c",)
    assert connection.late == 2


@pytest.mark.parametrize(
    ("send", "finding", "request_"),
    [
        (b"#garbage\n", "a # in it", ask("A?")),
        (b"1\n", "'1' without a request", None),
        (b"a\nb\n", "'a' without a request", None),
        (b"OSW12\n", "'OSW12' is not an answer to S", ask("S?", fits=str.isdigit)),
    ],
)
async def test_a_message_that_cannot_be_an_answer_ends_the_connection_and_is_logged(
    line: Line,
    connection: Session,
    send: bytes,
    finding: str,
    request_: Request[str] | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    if request_ is None:
        line.send(send)
    else:
        waiter = await line.begun(connection.request(request_, deadline_s=line.within()))
        line.send(send)
        with pytest.raises(ProtocolError, match=finding):
            await waiter
    cause = await connection.lost()
    assert isinstance(cause, ProtocolError)
    assert finding in str(cause)
    assert repr(send) in str(cause), "whoever tries again and again has it for its one warning"
    assert connection.garbled == 1
    assert repr(send) in caplog.text


async def test_an_answer_at_its_deadline_is_accepted_or_late_never_both(line: Line, connection: Session) -> None:
    asked = asyncio.create_task(connection.request(ask("A?"), deadline_s=line.within(0.5)))
    await asyncio.sleep(0.49)
    line.send(b"a\n")  # arrives with the deadline
    try:
        assert (await asked).messages == ("a",)
    except DeadlineError:
        assert isinstance(await connection.lost(), LinkError)
    else:
        again = await line.begun(connection.request(ask("B?"), deadline_s=line.within()))
        line.send(b"b\n")
        assert (await again).messages == ("b",)
