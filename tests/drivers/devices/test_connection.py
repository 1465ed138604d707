"""One connection: answers by tag, named deadlines, and a loss that fails every waiter."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from hwd_drivers.core.errors import BugError, ConfigError, DeadlineError, LinkError, ProtocolError
from hwd_drivers.devices.connection import Connection, Request
from hwd_drivers.transports.memory import Cut

from .conftest import Line

Session = Connection[str]


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


async def connect(line: Line, address: str = "mem:device") -> Session:
    return await Connection.open(
        line.dialer, address, name="ocs1", decode=Lines().decode, clock=line.clock, deadline_s=line.within()
    )


@pytest.fixture
async def connection(line: Line) -> AsyncIterator[Session]:
    await line.listen()
    connection = await connect(line)
    yield connection
    await connection.close()


def ask(tag: str) -> Request:
    return Request(tag=tag, data=f"{tag} ?\n".encode(), what=f"ASK {tag}")


async def test_answers_reach_their_requests_in_any_order_beside_a_cancelled(line: Line, connection: Session) -> None:
    first = asyncio.create_task(connection.request(ask("1"), deadline_s=line.within()))
    second = await line.begun(connection.request(ask("2"), deadline_s=line.within()))
    line.send(b"2 two\n1 one\n")
    assert (await first).messages == ("one",)
    assert (await second).messages == ("two",)
    one = asyncio.create_task(connection.request(ask("1"), deadline_s=line.within()))
    two = await line.begun(connection.request(ask("2"), deadline_s=line.within()))
    one.cancel()
    line.send(b"1 one\n2 two\n")
    assert (await two).messages == ("two",)
    assert connection.late == 1


async def test_requests_of_one_exchange_go_out_in_one_write_stamped_and_with_tags_that_are_free(
    line: Line, connection: Session
) -> None:
    sent: list[int] = []
    started_ns = line.clock.monotonic_ns()
    asked = await line.begun(connection.request(ask("1"), ask("2"), deadline_s=line.within(), on_sent=sent.append))
    assert line.peer.received == b"1 ?\n2 ?\n"
    line.send(b"2 two\n")
    await asyncio.sleep(0.1)
    line.send(b"1 one\n")
    answered = await asked
    assert answered.messages == ("one", "two")
    assert sent == [answered.sent_ns] == [started_ns]
    assert answered.received_ns == started_ns + 210_000_000
    first = asyncio.create_task(connection.request(ask("1"), deadline_s=line.within()))
    await asyncio.sleep(0)
    with pytest.raises(BugError, match="tag 1 is in use"):
        await connection.request(ask("1"), deadline_s=line.within())
    await asyncio.sleep(0.1)
    line.send(b"1 one\n")
    assert (await first).messages == ("one",)


async def test_nothing_is_sent_after_the_deadline_which_is_named_with_the_request_and_leaves_the_connection(
    line: Line, connection: Session
) -> None:
    with pytest.raises(DeadlineError, match="not sent"):
        await connection.request(ask("1"), deadline_s=line.loop.time())
    assert line.peer.received == b""
    with pytest.raises(DeadlineError, match=r"ocs1: ASK 1: no answer within 0\.5 s"):
        await connection.request(ask("1"), deadline_s=line.within(0.5))
    asked = await line.begun(connection.request(ask("2"), deadline_s=line.within()))
    line.send(b"1 late\n2 two\n")
    assert (await asked).messages == ("two",)
    assert connection.late == 1


@pytest.mark.parametrize("how", ["reset", "closed"])
async def test_death_fails_every_waiter_with_the_cause(line: Line, connection: Session, how: str) -> None:
    waiters = [asyncio.create_task(connection.request(ask(tag), deadline_s=line.within(9))) for tag in ("1", "2")]
    await asyncio.sleep(0.1)
    if how == "reset":
        line.net.cut("mem:device", Cut.RESET)
    else:
        line.peer.transport.close()
    found = "Connection reset" if how == "reset" else "the other side closed it"
    for tag, waiter in zip(("1", "2"), waiters, strict=True):
        with pytest.raises(LinkError, match=rf"ocs1: connection lost: .*{found}.*ASK {tag}"):
            await waiter
    assert isinstance(await connection.lost(), LinkError)
    with pytest.raises(LinkError, match=found):
        await connection.request(ask("3"), deadline_s=line.within())


async def test_garbage_is_logged_and_counted_and_ends_the_connection(
    line: Line, connection: Session, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    waiter = await line.begun(connection.request(ask("1"), deadline_s=line.within(9)))
    line.send(b"9 late\n")
    await asyncio.sleep(0.1)
    line.send(b"#garbage#\n")
    with pytest.raises(ProtocolError, match="has no tag"):
        await waiter
    assert isinstance(await connection.lost(), ProtocolError)
    assert connection.garbled == 1
    assert "#garbage#" in caplog.text


async def test_garbage_that_comes_first_is_in_the_error_and_no_warning(
    line: Line, connection: Session, caplog: pytest.LogCaptureFixture
) -> None:
    """As of a wrong speed: whoever tries again and again warns once, with that error."""

    caplog.set_level(logging.WARNING)
    waiter = await line.begun(connection.request(ask("1"), deadline_s=line.within(9)))
    line.send(b"#garbage#\n")
    with pytest.raises(ProtocolError, match=r"has no tag.*It began with b'#garbage#"):
        await waiter
    assert caplog.text == ""


async def test_closing_is_bounded_even_where_the_last_bytes_cannot_leave(line: Line, connection: Session) -> None:
    line.net.cut("mem:device", Cut.SILENT)
    connection.send_last(b"x" * 1_000_000)
    started_s = line.loop.time()
    await connection.close()
    assert line.loop.time() - started_s <= 1.1


@pytest.mark.parametrize(
    ("address", "error", "finding"),
    [
        ("mem:nobody", LinkError, "ocs1: cannot connect to mem:nobody"),
        ("mem:silent", DeadlineError, "ocs1: cannot connect to mem:silent within 1 s"),
        ("10.0.0.5", ConfigError, "ocs1"),
    ],
)
async def test_a_connection_that_cannot_be_made_has_its_reason(
    line: Line, address: str, error: type[Exception], finding: str
) -> None:
    line.net.cut("mem:silent", Cut.SILENT)
    with pytest.raises(error, match=finding):
        await connect(line, address)
