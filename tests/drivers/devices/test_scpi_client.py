"""ScpiClient: what it makes of devices that say nothing, say it late, or say what was not asked."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest
from typing_extensions import override

from hwd_drivers.core.errors import DeadlineError, DeviceError, LinkError, ProtocolError
from hwd_drivers.devices.scpi_client import ScpiClient
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual


class Device(asyncio.Protocol):
    """Answers each line from a table, with delays: `{line: [(delay_s, bytes), ...]}`."""

    def __init__(self, answers: dict[str, list[tuple[float, bytes]]]) -> None:
        self.answers = answers
        self.got: list[tuple[float, str]] = []
        self.transport: asyncio.Transport

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        for line in data.decode().split():
            self.got.append((loop.time(), line))
            for delay_s, answer in self.answers.get(line, []):
                loop.call_later(delay_s, self.transport.write, answer)


class World:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.dialer = MemoryDialer(MemoryNet())

    async def client(self, pause_s: float = 0.0, **answers: list[tuple[float, bytes]]) -> tuple[Device, ScpiClient]:
        """Lines are one letter, `e` is the error query."""
        device = Device({":SYST:ERR?" if line == "e" else line: answer for line, answer in answers.items()})
        await self.dialer.listen(lambda: device, "mem:dut")
        clock = VirtualClock(self.loop, wall_start_ns=0)
        client = await ScpiClient.open(
            self.dialer, "mem:dut", name="sw1", clock=clock, deadline_s=self.loop.time() + 1, pause_s=pause_s
        )
        return device, client

    def within(self, seconds: float) -> float:
        return self.loop.time() + seconds


def in_world(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    async def main() -> None:
        await test(World())

    def run() -> None:
        run_virtual(main())

    return run


@in_world
async def test_answers_of_a_line_come_joined_or_in_lines_of_their_own(world: World) -> None:
    _, client = await world.client(a=[(0.0, b"1;2\r\n")], b=[(0.0, b"1\n"), (0.1, b"2\n")])
    for line in ("a", "b"):
        assert (await client.ask(line, answers=2, deadline_s=world.within(1))).messages == ("1", "2")
    await client.close()


@in_world
async def test_silence_is_explained_by_the_error_queue(world: World) -> None:
    device, client = await world.client(a=[], e=[(0.0, b'-222, "Data out of range"\r\n')], b=[(0.0, b"1\n")])
    with pytest.raises(DeviceError, match=r"sw1: add 3A-4B: the device says -222 Data out of range\.") as said:
        await client.ask("a", answers=1, deadline_s=world.within(5), what="add 3A-4B")
    assert (said.value.device, said.value.code, said.value.text) == ("sw1", "-222", "Data out of range")
    assert [line for _, line in device.got] == ["a", ":SYST:ERR?"]
    assert (await client.ask("b", answers=1, deadline_s=world.within(1))).messages == ("1",)
    await client.close()


@in_world
async def test_a_part_of_the_answers_and_an_error_is_an_error(world: World) -> None:
    _, client = await world.client(a=[(0.0, b"1\n")], e=[(0.0, b'-113,"Undefined header"\r')])
    with pytest.raises(DeviceError, match="-113"):
        await client.ask("a", answers=2, deadline_s=world.within(5))
    await client.close()


@in_world
async def test_an_answer_that_comes_late_is_taken_and_so_is_that_of_the_error_queue(world: World) -> None:
    _, client = await world.client(a=[(2.0, b"1\n")], e=[(2.5, b'0,"No error"\n')], b=[(0.0, b"2\n")])
    assert (await client.ask("a", answers=1, deadline_s=world.within(9))).messages == ("1",)
    assert world.loop.time() >= 3.5
    assert (await client.ask("b", answers=1, deadline_s=world.within(1))).messages == ("2",)
    await client.close()


@in_world
async def test_silence_without_an_error_ends_the_session(world: World) -> None:
    _, client = await world.client(a=[], e=[(0.0, b'0,"No error"\n')])
    with pytest.raises(ProtocolError, match="sw1: a: not answered, and the error queue says 0 No error"):
        await client.ask("a", answers=1, deadline_s=world.within(5))
    assert "connection closed" in str(await client.lost())
    await client.close()


@in_world
async def test_a_silent_device_exceeds_the_deadline_and_loses_its_session(world: World) -> None:
    _, client = await world.client(a=[])
    with pytest.raises(DeadlineError, match=r"sw1: a: no answer within 0\.5 s"):
        await client.ask("a", answers=1, deadline_s=world.within(0.5))
    assert isinstance(await client.lost(), LinkError)
    await client.close()


@in_world
async def test_lines_wait_for_each_other_and_keep_the_pause(world: World) -> None:
    device, client = await world.client(pause_s=0.05, a=[(0.1, b"1\n")], b=[(0.1, b"2\n")])
    asked = [client.ask(line, answers=1, deadline_s=world.within(1)) for line in ("a", "b", "a")]
    assert [answered.messages for answered in await asyncio.gather(*asked)] == [("1",), ("2",), ("1",)]
    sent_s = [at_s for at_s, _ in device.got]
    assert [round(later - earlier, 3) for earlier, later in itertools.pairwise(sent_s)] == [0.15, 0.15]
    await client.close()


@in_world
async def test_a_line_whose_turn_does_not_come_is_not_sent(world: World) -> None:
    device, client = await world.client(a=[(0.9, b"1\n")])
    first = asyncio.create_task(client.ask("a", answers=1, deadline_s=world.within(1)), name="first")
    await asyncio.sleep(0.1)
    with pytest.raises(DeadlineError, match="sw1: b: not sent"):
        await client.ask("b", answers=1, deadline_s=world.within(0.2))
    assert (await first).messages == ("1",)
    assert [line for _, line in device.got if line != ":SYST:ERR?"] == ["a"]
    await client.close()


@in_world
async def test_a_line_that_is_abandoned_half_way_ends_the_session(world: World) -> None:
    _, client = await world.client(a=[(0.5, b"1\n")])
    given_up = asyncio.create_task(client.ask("a", answers=1, deadline_s=world.within(1)), name="given up")
    await asyncio.sleep(0.1)
    given_up.cancel()
    await asyncio.wait((given_up,))
    assert "a was abandoned" in str(await client.lost())
    await client.close()


@in_world
async def test_the_error_queue_can_be_asked(world: World) -> None:
    _, client = await world.client(e=[(0.0, b'-350, "Queue overflow"\n')])
    assert str(await client.error(deadline_s=world.within(1))) == "-350 Queue overflow"
    await client.close()


@in_world
async def test_an_unsolicited_answer_ends_the_session(world: World) -> None:
    _, client = await world.client(a=[(0.0, b"1\n2\n")])
    assert (await client.ask("a", answers=1, deadline_s=world.within(1))).messages == ("1",)
    assert "without a request" in str(await client.lost())
    await client.close()
