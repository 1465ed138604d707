"""ScpiClient: what it makes of devices that say nothing, say it late, or say what was not asked."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from typing_extensions import override

from hwd_drivers.core.errors import DeadlineError, DeviceError, LinkError, ProtocolError
from hwd_drivers.devices.scpi_client import ScpiClient

from ..parts import Recorder
from .conftest import Line

Answers = list[tuple[float, bytes]]
"""Of a line: each with its delay in seconds."""


class Device(Recorder):
    """Answers each line from a table."""

    def __init__(self, answers: dict[str, Answers]) -> None:
        super().__init__()
        self.answers = answers
        self.got: list[tuple[float, str]] = []

    @override
    def data_received(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        for text in data.decode().split():
            self.got.append((loop.time(), text))
            for delay_s, answer in self.answers.get(text, []):
                loop.call_later(delay_s, self.transport.write, answer)


OpenClient = Callable[..., Awaitable[tuple[Device, ScpiClient]]]


@pytest.fixture
async def open_client(line: Line) -> AsyncIterator[OpenClient]:
    """Sessions with a device that answers so: lines are one letter, `e` is the error query."""
    clients: list[ScpiClient] = []

    async def open_client(pause_s: float = 0.0, **answers: Answers) -> tuple[Device, ScpiClient]:
        device = Device({":SYST:ERR?" if text == "e" else text: answer for text, answer in answers.items()})
        line.net.latency_s = 0.0
        await line.dialer.listen(lambda: device, "mem:dut")
        client = await ScpiClient.open(
            line.dialer, "mem:dut", name="sw1", clock=line.clock, deadline_s=line.within(), pause_s=pause_s
        )
        clients.append(client)
        return device, client

    yield open_client
    for client in clients:
        await client.close()


async def test_answers_of_a_line_come_joined_or_in_lines_of_their_own(line: Line, open_client: OpenClient) -> None:
    _, client = await open_client(a=[(0.0, b"1;2\r\n")], b=[(0.0, b"1\n"), (0.1, b"2\n")])
    for text in ("a", "b"):
        assert (await client.ask(text, answers=2, deadline_s=line.within())).messages == ("1", "2")


async def test_silence_is_explained_by_the_error_queue(line: Line, open_client: OpenClient) -> None:
    device, client = await open_client(a=[], e=[(0.0, b'-222, "Data out of range"\r\n')], b=[(0.0, b"1\n")])
    with pytest.raises(DeviceError, match=r"sw1: add 3A-4B: the device says -222 Data out of range\.") as said:
        await client.ask("a", answers=1, deadline_s=line.within(5), what="add 3A-4B")
    assert (said.value.device, said.value.code, said.value.text) == ("sw1", "-222", "Data out of range")
    assert [line for _, line in device.got] == ["a", ":SYST:ERR?"]
    assert (await client.ask("b", answers=1, deadline_s=line.within())).messages == ("1",)


async def test_a_part_of_the_answers_and_an_error_is_an_error(line: Line, open_client: OpenClient) -> None:
    _, client = await open_client(a=[(0.0, b"1\n")], e=[(0.0, b'-113,"Undefined header"\r')])
    with pytest.raises(DeviceError, match="-113"):
        await client.ask("a", answers=2, deadline_s=line.within(5))


async def test_an_answer_that_comes_late_is_taken_and_so_is_that_of_the_error_queue(
    line: Line, open_client: OpenClient
) -> None:
    _, client = await open_client(a=[(2.0, b"1\n")], e=[(2.5, b'0,"No error"\n')], b=[(0.0, b"2\n")])
    assert (await client.ask("a", answers=1, deadline_s=line.within(9))).messages == ("1",)
    assert line.loop.time() >= 3.5
    assert (await client.ask("b", answers=1, deadline_s=line.within())).messages == ("2",)


async def test_silence_without_an_error_ends_the_session(line: Line, open_client: OpenClient) -> None:
    _, client = await open_client(a=[], e=[(0.0, b'0,"No error"\n')])
    with pytest.raises(ProtocolError, match="sw1: a: not answered, and the error queue says 0 No error"):
        await client.ask("a", answers=1, deadline_s=line.within(5))
    assert "connection closed" in str(await client.lost())


async def test_a_silent_device_exceeds_the_deadline_and_loses_its_session(line: Line, open_client: OpenClient) -> None:
    _, client = await open_client(a=[])
    with pytest.raises(DeadlineError, match=r"sw1: a: no answer within 0\.5 s"):
        await client.ask("a", answers=1, deadline_s=line.within(0.5))
    assert isinstance(await client.lost(), LinkError)


async def test_lines_wait_for_each_other_and_keep_the_pause(line: Line, open_client: OpenClient) -> None:
    device, client = await open_client(pause_s=0.05, a=[(0.1, b"1\n")], b=[(0.1, b"2\n")])
    asked = [client.ask(text, answers=1, deadline_s=line.within()) for text in ("a", "b", "a")]
    assert [answered.messages for answered in await asyncio.gather(*asked)] == [("1",), ("2",), ("1",)]
    sent_s = [at_s for at_s, _ in device.got]
    assert [round(later - earlier, 3) for earlier, later in itertools.pairwise(sent_s)] == [0.15, 0.15]


async def test_a_line_whose_turn_does_not_come_is_not_sent(line: Line, open_client: OpenClient) -> None:
    device, client = await open_client(a=[(0.9, b"1\n")])
    first = asyncio.create_task(client.ask("a", answers=1, deadline_s=line.within()), name="first")
    await asyncio.sleep(0.1)
    with pytest.raises(DeadlineError, match="sw1: b: not sent"):
        await client.ask("b", answers=1, deadline_s=line.within(0.2))
    assert (await first).messages == ("1",)
    assert [line for _, line in device.got if line != ":SYST:ERR?"] == ["a"]


async def test_a_line_that_is_abandoned_half_way_ends_the_session(line: Line, open_client: OpenClient) -> None:
    _, client = await open_client(a=[(0.5, b"1\n")])
    given_up = asyncio.create_task(client.ask("a", answers=1, deadline_s=line.within()), name="given up")
    await asyncio.sleep(0.1)
    given_up.cancel()
    await asyncio.wait((given_up,))
    assert "a was abandoned" in str(await client.lost())


async def test_the_error_queue_can_be_asked(line: Line, open_client: OpenClient) -> None:
    _, client = await open_client(e=[(0.0, b'-350, "Queue overflow"\n')])
    assert str(await client.error(deadline_s=line.within())) == "-350 Queue overflow"


async def test_an_unsolicited_answer_ends_the_session(line: Line, open_client: OpenClient) -> None:
    _, client = await open_client(a=[(0.0, b"1\n2\n")])
    assert (await client.ask("a", answers=1, deadline_s=line.within())).messages == ("1",)
    assert "without a request" in str(await client.lost())
