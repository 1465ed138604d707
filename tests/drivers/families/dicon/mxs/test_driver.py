"""The driver of DiCon MXS-9100 switches: its lines, with all behaviours that the manual's pages leave open."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from typing_extensions import override

from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import BugError, ConfigError, DeadlineError, DeviceError, FailedError, ProtocolError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Crossconnect, CrossconnectState
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.dicon.mxs import protocol
from hwd_drivers.families.dicon.mxs.driver import MxsOptions, MxsSwitch
from hwd_drivers.families.dicon.mxs.models import driver
from hwd_drivers.families.dicon.mxs.twin import MxsTwin
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.server import Denial
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual


class Scripted(asyncio.Protocol):
    """A unit that answers each write with the next of the given texts."""

    def __init__(self, answers: list[str]) -> None:
        self.answers = answers
        self.got: list[bytes] = []
        self.transport: asyncio.Transport

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self.got.append(data)
        if self.answers:
            self.transport.write(self.answers.pop(0).encode() + b"\r")


class Other(BaseModel):
    """Options of some other driver."""


class World:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.clock = VirtualClock(loop, wall_start_ns=0)
        self.dialer = MemoryDialer(MemoryNet())

    async def open(self, options: BaseModel | None = None, size: str = "4x4") -> MxsSwitch:
        context = OpenContext(
            name="mx1",
            address="mem:mx1",
            dialer=self.dialer,
            clock=self.clock,
            sink=lambda document: None,
            user=None,
            password=None,
            options=options or MxsOptions(),
            capabilities=driver.capabilities("mxs-9100", size),
        )
        return await MxsSwitch.open(context)

    async def scripted(self, *answers: str) -> Scripted:
        unit = Scripted(list(answers))
        await self.dialer.listen(lambda: unit, "mem:mx1")
        return unit

    async def twin(self, size: str = "4x4", **options: Json) -> MxsTwin:
        twin = MxsTwin(
            name="mx1",
            capabilities=driver.capabilities("mxs-9100", size),
            timing=find_timing("lowradix-8ms"),
            draws=Draws(7),
            clock=self.clock,
            dialer=self.dialer,
            address="mem:mx1",
            options=options,
        )
        await twin.start()
        return twin

    @property
    def soon(self) -> float:
        return self.loop.time() + 3


def in_world(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    async def main() -> None:
        await test(World())

    return lambda: run_virtual(main())


def pairs(*texts: str) -> list[Crossconnect]:
    return [Crossconnect.parse(text) for text in texts]


OPENED = ['0, "No error"', "READY"]


@in_world
async def test_a_change_frees_then_connects_and_waits_until_the_unit_is_ready(world: World) -> None:
    unit = await world.scripted(*OPENED, "1;0;0;0", "BUSY", "BUSY", "READY", "0;1;0;0")
    switch = await world.open()
    exchange = await switch.change_crossconnects(remove=pairs("1A-1B"), add=pairs("2A-1B"), deadline_s=world.soon)
    look = b":ROUT1:SCAN?;:ROUT2:SCAN?;:ROUT3:SCAN?;:ROUT4:SCAN?\r"
    assert unit.got == [
        b":SYST:ERR?\r",
        b":STAT?\r",
        look,
        b":ROUT1:OPEN;:ROUT2:SCAN 1;:STAT?\r",
        b":STAT?\r",
        b":STAT?\r",
        look,
    ]
    assert exchange.before == (Crossconnect.parse("1A-1B"),)
    assert exchange.commands == 2
    assert exchange.acknowledged_ns > exchange.commanded_ns
    await switch.close()


@pytest.mark.parametrize("disconnect", ["open", "scan-0"])
@pytest.mark.parametrize("in_use", ["move", "deny"])
@pytest.mark.parametrize("answers", ["joined", "lines"])
def test_the_manners_of_a_unit_do_not_matter(disconnect: str, in_use: str, answers: str) -> None:
    @in_world
    async def story(world: World) -> None:
        twin = await world.twin(size="32x32", in_use=in_use, answers=answers)
        options = MxsOptions.model_validate({"disconnect": disconnect})
        switch = await world.open(options, size="32x32")
        straight = pairs(*(f"{port}A-{port}B" for port in range(1, 33)))
        turned = pairs(*(f"{port}A-{port % 32 + 1}B" for port in range(1, 33)))
        await switch.change_crossconnects(remove=(), add=straight, deadline_s=world.soon)
        exchange = await switch.change_crossconnects(remove=straight, add=turned, deadline_s=world.soon)
        assert exchange.before == tuple(straight)
        assert twin.mirror.crossconnects() == turned
        readings = await switch.read_crossconnects(deadline_s=world.soon)
        assert [reading.crossconnect for reading in readings] == turned
        await switch.close()
        await twin.close()

    story()


@in_world
async def test_a_denial_names_device_command_code_and_text(world: World) -> None:
    twin = await world.twin()
    switch = await world.open()
    twin.faults.deny_next = Denial(code="-240", text="Hardware error")
    with pytest.raises(DeviceError, match="mx1: :ROUT1:SCAN 2: the device says -240 Hardware error"):
        await switch.change_crossconnects(remove=(), add=pairs("1A-2B"), deadline_s=world.soon)
    await switch.close()
    await twin.close()


@in_world
async def test_a_reading_while_mirrors_move_says_so(world: World) -> None:
    twin = await world.twin()
    switch = await world.open()
    twin.faults.panel(remove=(), add=pairs("1A-2B"))
    (reading,) = await switch.read_crossconnects(deadline_s=world.soon)
    assert reading.state is CrossconnectState.TUNING
    await asyncio.sleep(1)
    (reading,) = await switch.read_crossconnects(deadline_s=world.soon)
    assert reading.state is CrossconnectState.UNSTATED
    await switch.close()
    await twin.close()


@in_world
async def test_errors_of_earlier_sessions_are_taken_out_of_the_queue(world: World) -> None:
    unit = await world.scripted('-113, "Undefined header"', '-222, "Data out of range"', *OPENED)
    switch = await world.open()
    assert len(unit.got) == 4
    await switch.close()


@in_world
async def test_a_unit_that_does_not_work_is_not_opened(world: World) -> None:
    await world.scripted(OPENED[0], "DEFECTIVE")
    with pytest.raises(FailedError, match="mx1: the switch reports DEFECTIVE"):
        await world.open()


@in_world
async def test_a_unit_that_stays_busy_passes_the_deadline(world: World) -> None:
    await world.scripted(*OPENED, "0;0;0;0", *["BUSY"] * 1000)
    switch = await world.open()
    with pytest.raises(DeadlineError, match="mx1: still BUSY"):
        await switch.change_crossconnects(remove=(), add=pairs("1A-2B"), deadline_s=world.loop.time() + 0.5)
    await switch.close()


@in_world
async def test_status_that_is_not_known_is_not_ready_and_the_session_goes_on(world: World) -> None:
    await world.scripted(*OPENED, "CALIBRATING", "1;0;0;0", "0;0;0;0", *["CALIBRATING"] * 1000)
    switch = await world.open()
    (reading,) = await switch.read_crossconnects(deadline_s=world.soon)
    assert reading.state is CrossconnectState.TUNING
    with pytest.raises(DeadlineError, match="mx1: still in the state CALIBRATING, which is not known here"):
        await switch.change_crossconnects(remove=(), add=pairs("1A-2B"), deadline_s=world.loop.time() + 0.5)
    await switch.close()


@pytest.mark.parametrize(
    ("answer", "finding"),
    [("1;1;0;0", "two inputs go to one output"), ("5;0;0;0", "5 is not 0 to 4"), ("a;0;0;0", "a is")],
)
def test_a_reading_that_makes_no_sense_ends_the_session(answer: str, finding: str) -> None:
    @in_world
    async def story(world: World) -> None:
        await world.scripted(*OPENED, "READY", answer)
        switch = await world.open()
        with pytest.raises(ProtocolError, match=finding):
            await switch.read_crossconnects(deadline_s=world.soon)
        assert "connection closed" in str(await switch.lost())
        await switch.close()

    story()


@in_world
async def test_an_unknown_port_is_refused_before_anything_is_sent(world: World) -> None:
    unit = await world.scripted(*OPENED)
    switch = await world.open()
    for text in ("5A-1B", "1A-5B"):
        with pytest.raises(ConfigError, match="a unit of 4x4 has no such port"):
            await switch.change_crossconnects(remove=(), add=pairs(text), deadline_s=world.soon)
    with pytest.raises(BugError, match="no crossconnect"):
        await switch.change_crossconnects(remove=(), add=(), deadline_s=world.soon)
    with pytest.raises(BugError, match="not MxsOptions"):
        await world.open(Other())
    assert len(unit.got) == 2
    await switch.close()


class Heard(asyncio.Protocol):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.got = b""

    @override
    def data_received(self, data: bytes) -> None:
        self.got += data


WORDS = st.sampled_from(
    ["ROUT1:", "ROUTE9:", "SCAN ", "SCAN?", "OPEN", ";", ":", "\r", "1", "0", "99999", "WEN ", "STAT?", "(", '"', "é"]
)


@settings(max_examples=100)
@given(st.lists(WORDS | st.text(max_size=4), max_size=40).map("".join), st.binary(max_size=40))
def test_no_bytes_of_a_client_upset_the_twin(text: str, noise: bytes) -> None:
    @in_world
    async def story(world: World) -> None:
        twin = await world.twin()
        transport, _ = await world.dialer.connect(Heard, "mem:mx1")
        transport.write(text.encode() + noise + b"\r")
        await asyncio.sleep(1)
        transport, heard = await world.dialer.connect(Heard, "mem:mx1")
        transport.write(b"*RST;STAT?\r")
        await asyncio.sleep(1)
        assert heard.got == b"READY\r"
        await twin.close()

    story()


def test_lines_are_never_longer_than_the_limit() -> None:
    queries = [protocol.connected(near) for near in range(1, 65)]
    lines = protocol.lines(queries)
    assert max(len(line) for line, _ in lines) <= protocol.LINE_CHARACTERS
    assert sum(count for _, count in lines) == 64
    assert ";".join(line for line, _ in lines).split(";") == queries


@pytest.mark.parametrize(
    ("size", "finding"), [(None, "Write inputs x outputs"), ("8", "such as 8x8"), ("200x100", "over the 256")]
)
def test_a_size_that_there_is_not_is_refused(size: str | None, finding: str) -> None:
    with pytest.raises(ConfigError, match=finding):
        driver.capabilities("mxs-9100", size)


def test_an_option_of_the_twin_that_there_is_not_is_refused() -> None:
    @in_world
    async def story(world: World) -> None:
        with pytest.raises(ConfigError, match="twin mx1: saved: is an unknown field"):
            await world.twin(saved=True)

    story()


@in_world
async def test_of_a_change_in_part_only_so_many_inputs_are_sent_though_each_has_a_command_of_its_own(
    world: World,
) -> None:
    twin = await world.twin()
    switch = await world.open()
    twin.faults.partial_next = 1
    wanted = pairs("1A-2B", "2A-1B", "3A-3B")
    with pytest.raises(DeviceError, match="has no 2A-1B, no 3A-3B"):
        await switch.change_crossconnects(remove=(), add=wanted, deadline_s=world.soon)
    there = [each.crossconnect for each in await switch.read_crossconnects(deadline_s=world.soon)]
    assert there == [*wanted[:1]]
    await switch.close()
    await twin.close()


@in_world
async def test_a_silent_failure_of_the_unit_is_not_a_success(world: World) -> None:
    twin = await world.twin()
    switch = await world.open()
    twin.faults.partial_next = 0
    with pytest.raises(DeviceError, match=r"the device is READY, reports no error and has no 1A-2B") as failed:
        await switch.change_crossconnects(remove=(), add=pairs("1A-2B"), deadline_s=world.soon)
    assert failed.value.text == "no 1A-2B"
    assert await switch.read_crossconnects(deadline_s=world.soon) == ()
    await switch.close()
    await twin.close()


@pytest.mark.parametrize("read_before", [True, False])
def test_an_input_that_another_client_reconnected_is_not_freed(read_before: bool) -> None:
    @in_world
    async def story(world: World) -> None:
        twin = await world.twin()
        switch = await world.open(MxsOptions(read_before=read_before))
        await switch.change_crossconnects(remove=(), add=pairs("1A-1B", "2A-2B"), deadline_s=world.soon)
        twin.faults.panel(remove=pairs("1A-1B"), add=pairs("1A-3B"))
        gone = pairs("1A-1B", "2A-2B")
        exchange = await switch.change_crossconnects(remove=gone, add=pairs("3A-1B"), deadline_s=world.soon)
        assert twin.mirror.crossconnects() == pairs("1A-3B", "3A-1B")
        assert exchange.commands == 2
        commanded: list[int] = []
        exchange = await switch.change_crossconnects(
            remove=gone, add=(), deadline_s=world.soon, on_commanded=commanded.append
        )
        assert (exchange.commands, commanded) == (0, [exchange.commanded_ns])
        assert twin.mirror.crossconnects() == pairs("1A-3B", "3A-1B")
        await switch.close()
        await twin.close()

    story()
