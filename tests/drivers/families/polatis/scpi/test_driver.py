"""The Polatis driver over SCPI: the lines that it sends, and that nothing of what units leave open matters to it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from pydantic import BaseModel
from typing_extensions import override

from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import BugError, ConfigError, DeviceError, FailedError, ProtocolError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Crossconnect, PortOverride, PortSide
from hwd_drivers.devices.abilities import Attenuators, CrossConnects, Device, PortOverrides, PowerReadings
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.polatis.models import scpi_driver as driver
from hwd_drivers.families.polatis.scpi.driver import PolatisScpiOptions, PolatisScpiSwitch
from hwd_drivers.families.polatis.twin import PolatisTwin
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.server import Denial
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual


class Scripted(asyncio.Protocol):
    """A unit that answers each line that has a query with the next of the given texts."""

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

    async def open(
        self, model: str = "polatis-6000", size: str = "8x8", options: BaseModel | None = None
    ) -> PolatisScpiSwitch:
        context = OpenContext(
            name="ocs1",
            address="mem:ocs1",
            dialer=self.dialer,
            clock=self.clock,
            sink=lambda document: None,
            user=None,
            password=None,
            options=options or PolatisScpiOptions(),
            capabilities=driver.capabilities(model, size),
        )
        return await PolatisScpiSwitch.open(context)

    async def scripted(self, *answers: str, **options: bool) -> tuple[Scripted, PolatisScpiSwitch]:
        unit = Scripted(["Polatis,N-OST-8x8,1,6", *answers])
        await self.dialer.listen(lambda: unit, "mem:ocs1")
        return unit, await self.open(options=PolatisScpiOptions(**options))

    async def twin(self, model: str = "polatis-6000", size: str = "8x8", **options: Json) -> PolatisTwin:
        twin = PolatisTwin(
            "scpi",
            name="ocs1",
            capabilities=driver.capabilities(model, size),
            timing=find_timing("polatis-mfabric"),
            draws=Draws(7),
            clock=self.clock,
            dialer=self.dialer,
            address="mem:ocs1",
            options=options,
        )
        await twin.start()
        return twin

    @property
    def soon(self) -> float:
        return self.loop.time() + 5


def in_world(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    async def main() -> None:
        await test(World())

    def run() -> None:
        run_virtual(main())

    return run


def pairs(*texts: str) -> list[Crossconnect]:
    return [Crossconnect.parse(text) for text in texts]


@in_world
async def test_a_change_is_one_line_that_reads_the_state_before_and_after(world: World) -> None:
    unit, switch = await world.scripted("(@1),(@9);(@1,2),(@10,9)")
    exchange = await switch.change_crossconnects(
        remove=pairs("1A-1B"), add=pairs("1A-2B", "2A-1B"), deadline_s=world.soon
    )
    assert unit.got == [
        b"*CLS;*IDN?\r\n",
        b":oxc:swit:conn:stat?;:oxc:swit:conn:sub (@1),(@9);:oxc:swit:conn:add (@1,2),(@10,9);:oxc:swit:conn:stat?\r\n",
    ]
    assert exchange.before == (Crossconnect.parse("1A-1B"),)
    assert exchange.commands == 2
    await switch.close()


@in_world
async def test_the_look_before_can_be_left_out(world: World) -> None:
    unit, switch = await world.scripted("(@1),(@9)", read_before=False)
    exchange = await switch.change_crossconnects(remove=(), add=pairs("1A-1B"), deadline_s=world.soon)
    assert unit.got[-1] == b":oxc:swit:conn:add (@1),(@9);:oxc:swit:conn:stat?\r\n"
    assert exchange.before is None
    await switch.close()


@in_world
async def test_a_failure_is_explained_by_the_error_queue(world: World) -> None:
    _, switch = await world.scripted("(@),(@);(@),(@)", '-222, "Data out of range"')
    with pytest.raises(DeviceError, match="ocs1: add 1A-1B: the device says -222 Data out of range") as said:
        await switch.change_crossconnects(remove=(), add=pairs("1A-1B"), deadline_s=world.soon)
    assert (said.value.command, said.value.code) == ("add 1A-1B", "-222")
    await switch.close()


@in_world
async def test_a_failure_without_an_error_is_found_by_the_read_back(world: World) -> None:
    _, switch = await world.scripted("(@),(@);(@),(@)", '0, "No error"')
    await switch.change_crossconnects(remove=(), add=pairs("1A-1B"), deadline_s=world.soon)
    await switch.close()


@pytest.mark.parametrize("after_error", ["goes-on", "drops-line"])
@pytest.mark.parametrize("answers", ["joined", "lines"])
@pytest.mark.parametrize("errors", ["session", "unit"])
@pytest.mark.parametrize("in_use", ["move", "deny"])
def test_the_manners_of_a_unit_do_not_matter(after_error: str, answers: str, errors: str, in_use: str) -> None:
    @in_world
    async def story(world: World) -> None:
        twin = await world.twin(
            scpi_after_error=after_error, scpi_answers=answers, scpi_errors=errors, in_use=in_use, scpi_line_end="cr"
        )
        switch = await world.open()
        swapped = pairs("1A-2B", "2A-1B")
        await switch.change_crossconnects(remove=(), add=pairs("1A-1B", "2A-2B"), deadline_s=world.soon)
        exchange = await switch.change_crossconnects(remove=pairs("1A-1B", "2A-2B"), add=swapped, deadline_s=world.soon)
        assert exchange.before == (*pairs("1A-1B", "2A-2B"),)
        assert twin.mirror.crossconnects() == swapped
        twin.faults.deny_next = Denial(code="-240", text="Hardware error")
        with pytest.raises(DeviceError, match="ocs1: add 3A-3B: the device says -240 Hardware error"):
            await switch.change_crossconnects(remove=(), add=pairs("3A-3B"), deadline_s=world.soon)
        readings = await switch.read_crossconnects(deadline_s=world.soon)
        assert [reading.crossconnect for reading in readings] == swapped
        await switch.close()
        await twin.close()

    story()


@in_world
async def test_a_change_is_acknowledged_when_the_unit_is_through_with_it(world: World) -> None:
    twin = await world.twin()
    switch = await world.open()
    exchange = await switch.change_crossconnects(remove=(), add=pairs("1A-1B"), deadline_s=world.soon)
    assert 0.02e9 < exchange.acknowledged_ns - exchange.commanded_ns < 0.2e9
    await switch.close()
    await twin.close()


@in_world
async def test_powers_of_more_ports_than_a_query_may_name_are_read_in_turn(world: World) -> None:
    twin = await world.twin(size="10x300")
    switch = await world.open(size="10x300")
    ends = [PortSide.parse(f"{port}B") for port in range(1, 301)]
    twin.mirror.set_input(PortSide.parse("1A"), 0.0)
    await switch.change_crossconnects(remove=(), add=pairs("1A-300B"), deadline_s=world.soon)
    await asyncio.sleep(1)
    powers = await switch.read_power(ends, deadline_s=world.soon)
    assert [str(power.end) for power in powers if power.power_dbm is not None] == ["300B"]
    assert len(powers) == 300
    await switch.close()
    await twin.close()


@in_world
async def test_a_unit_without_monitors_is_one(world: World) -> None:
    """The testbed claims that it has them."""
    twin = await world.twin(model="polatis-instrument")
    switch = await world.open()
    found = await switch.capabilities(deadline_s=world.soon)
    assert found.monitored == ()
    assert found.reports_before
    assert len(found.blockable) == 16
    await switch.close()
    await twin.close()


@in_world
async def test_another_size_than_the_testbed_says_is_a_config_error(world: World) -> None:
    twin = await world.twin(size="4x4")
    switch = await world.open()
    with pytest.raises(ConfigError, match="the switch has 4x4 ports, the testbed says 8x8"):
        await switch.capabilities(deadline_s=world.soon)
    await switch.close()
    await twin.close()


@in_world
async def test_ports_that_are_switched_off_are_blocked(world: World) -> None:
    twin = await world.twin()
    switch = await world.open()
    one, other = PortSide.parse("1A"), PortSide.parse("2B")
    await switch.override([one], PortOverride.FORCE_BLOCKED, deadline_s=world.soon)
    assert twin.mirror.blocked == {one}
    assert await switch.read_overrides([one, other], deadline_s=world.soon) == {
        one: PortOverride.FORCE_BLOCKED,
        other: PortOverride.NORMAL,
    }
    twin.faults.deny_next = Denial(code="-200", text="no")
    with pytest.raises(DeviceError, match="oxc:swit:port:enab 1A"):
        await switch.override([one], PortOverride.NORMAL, deadline_s=world.soon)
    await switch.override([one], PortOverride.NORMAL, deadline_s=world.soon)
    assert twin.mirror.blocked == frozenset()
    assert await switch.read_overrides([], deadline_s=world.soon) == {}
    await switch.close()
    await twin.close()


@in_world
async def test_port_state_that_is_not_known_is_neither_blocked_nor_open_and_the_session_goes_on(world: World) -> None:
    _, switch = await world.scripted("(E,S)", "(S)", "(@1),(@9)")
    one, other = PortSide.parse("1A"), PortSide.parse("2B")
    with pytest.raises(FailedError, match="is in the state 'S', which is not known here: E, D, F are"):
        await switch.read_overrides([one, other], deadline_s=world.soon)
    with pytest.raises(FailedError, match="is in the state 'S'"):
        await switch.override([one], PortOverride.NORMAL, deadline_s=world.soon)
    assert len(await switch.read_crossconnects(deadline_s=world.soon)) == 1
    await switch.close()


@pytest.mark.parametrize(
    ("answer", "finding"),
    [
        ("(@1,2),(@9)", "lists of 2 and 1 ports"),
        ("(@1)", "not two lists"),
        ("1,2", "1"),
        ("(@1),(@2)", "reports 1 with 2"),
        ("(@1),(@99)", "Invalid OXC port: 99"),
        ("(@1),(@9);x", "nobody asked|connection closed"),
    ],
)
def test_an_answer_that_makes_no_sense_ends_the_session(answer: str, finding: str) -> None:
    @in_world
    async def story(world: World) -> None:
        _, switch = await world.scripted(answer)
        with pytest.raises(ProtocolError, match=finding):
            await switch.read_crossconnects(deadline_s=world.soon)
            raise await switch.lost()
        assert "connection closed" in str(await switch.lost())
        await switch.close()

    story()


@in_world
async def test_it_has_the_abilities_that_its_protocol_gives(world: World) -> None:
    _, switch = await world.scripted()
    for ability in (Device, CrossConnects, PowerReadings, PortOverrides):
        assert isinstance(switch, ability)
    assert not isinstance(switch, Attenuators)
    with pytest.raises(BugError, match="no crossconnect"):
        await switch.change_crossconnects(remove=(), add=(), deadline_s=world.soon)
    with pytest.raises(BugError, match="not PolatisScpiOptions"):
        await world.open(options=Other())
    await switch.close()
