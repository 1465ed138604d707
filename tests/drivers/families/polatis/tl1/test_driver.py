"""The Polatis driver: the bytes that it sends, and what it makes of answers that are not what they should be."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from pydantic import BaseModel
from typing_extensions import override

from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import BugError, ConfigError, DeviceError, LoginError, ProtocolError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Attenuation, AttenuationMode, Crossconnect, PortOverride, PortSide
from hwd_drivers.devices.abilities import Attenuators, CrossConnects, Device, PortOverrides, PowerReadings
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.polatis.models import tl1_driver as driver
from hwd_drivers.families.polatis.tl1.driver import PolatisOptions, PolatisSwitch
from hwd_drivers.families.polatis.tl1.front import Tl1Front
from hwd_drivers.families.polatis.twin import PolatisTwin
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual


class Scripted(asyncio.Protocol):
    """A unit that answers each command with the next of its texts; `#` is replaced by the CTAG."""

    def __init__(self, answers: list[str]) -> None:
        self.answers = answers
        self.got: list[str] = []
        self.writes: list[bytes] = []
        self.transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        self.writes.append(data)
        for text in data.decode().split("\n"):
            if not text:
                continue
            self.got.append(text)
            if self.answers:
                body = self.answers.pop(0).replace("#", text.split(":")[3])
                self.transport.write(f"\r\n\n   PolatisOXC 26-11-20 10:11:12\r\n{body}\r\n;\r\n".encode())


class Other(BaseModel):
    """Options of some other driver."""


class World:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.clock = VirtualClock(loop, wall_start_ns=0)
        self.dialer = MemoryDialer(MemoryNet())
        self.capabilities = driver.capabilities("polatis-6000", "8x8")

    def context(
        self, *, user: str | None = "admin", password: str | None = "root", options: BaseModel | None = None
    ) -> OpenContext:
        return OpenContext(
            name="ocs1",
            address="mem:ocs1",
            dialer=self.dialer,
            clock=self.clock,
            sink=self.sink,
            user=user,
            password=password,
            options=options or PolatisOptions(),
            capabilities=self.capabilities,
        )

    def sink(self, document: Document) -> None:
        raise AssertionError(f"a driver reports nothing by itself: {document}")

    async def scripted(
        self, *answers: str, read_before: bool = False, shutter_words: dict[str, PortOverride] | None = None
    ) -> tuple[Scripted, PolatisSwitch]:
        unit = Scripted(["M  # COMPLD", *answers])
        await self.dialer.listen(lambda: unit, "mem:ocs1")
        options = PolatisOptions(read_before=read_before, shutter_words=shutter_words or {})
        return unit, await PolatisSwitch.open(self.context(options=options))

    def twin(self, **options: str) -> PolatisTwin:
        return PolatisTwin(
            "tl1",
            name="ocs1",
            capabilities=self.capabilities,
            timing=find_timing("ideal"),
            draws=Draws(7),
            clock=self.clock,
            dialer=self.dialer,
            address="mem:ocs1",
            options=options,
        )

    @property
    def soon(self) -> float:
        return self.loop.time() + 1


def in_world(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    async def main() -> None:
        await test(World())

    def run() -> None:
        run_virtual(main())

    return run


def pairs(*texts: str) -> list[Crossconnect]:
    return [Crossconnect.parse(text) for text in texts]


@in_world
async def test_all_pairs_go_in_one_command(world: World) -> None:
    unit, switch = await world.scripted("M  # COMPLD")
    exchange = await switch.change_crossconnects(remove=(), add=pairs("1A-2B", "2A-1B"), deadline_s=world.soon)
    assert exchange.commands == 1
    await switch.close()
    assert unit.got == ["ACT-USER::admin:1::root;", "ENT-PATCH::1&2,10&9:2:;", "CANC-USER::admin:3:;"]


@in_world
async def test_pairs_that_are_not_moved_are_deleted_first_in_the_same_write(world: World) -> None:
    unit, switch = await world.scripted("M  # COMPLD", "M  # COMPLD")
    exchange = await switch.change_crossconnects(
        remove=pairs("1A-1B", "3A-3B", "4A-4B"), add=pairs("1A-2B", "2A-1B"), deadline_s=world.soon
    )
    assert exchange.commands == 2
    assert unit.writes[-1] == b"DLT-PATCH::3&4:2:;\nENT-PATCH::1&2,10&9:3:;\n"
    await switch.close()


@in_world
async def test_a_change_reports_the_state_just_before_it(world: World) -> None:
    before = 'M  # COMPLD\r\n   "2,9"\r\n   "1,10"'
    unit, switch = await world.scripted(before, "M  # COMPLD", "M  # COMPLD", read_before=True)
    exchange = await switch.change_crossconnects(remove=pairs("3A-3B"), add=pairs("1A-1B"), deadline_s=world.soon)
    assert unit.writes[-1] == b"RTRV-PATCH:::2:;\nDLT-PATCH::3:3:;\nENT-PATCH::1,9:4:;\n"
    assert exchange.before is not None
    assert list(map(str, exchange.before)) == ["1A-2B", "2A-1B"]
    assert exchange.commands == 2
    await switch.close()


@in_world
async def test_a_unit_that_does_not_report_the_state_before_is_changed_too(world: World) -> None:
    _, switch = await world.scripted("M  # DENY\r\n   SARB", "M  # COMPLD", read_before=True)
    exchange = await switch.change_crossconnects(remove=(), add=pairs("1A-1B"), deadline_s=world.soon)
    assert exchange.before is None
    await switch.close()


@in_world
async def test_the_words_of_shutters_are_learned_by_closing_and_opening(world: World) -> None:
    unit, switch = await world.scripted(
        'M  # COMPLD\r\n   "1:RLS"',
        'M  # COMPLD\r\n   "1:RLS"\r\n   "9:OPR"',
        "M  # COMPLD",
        'M  # COMPLD\r\n   "1:OPR"\r\n   "9:OPR"',
        'M  # COMPLD\r\n   "1:OPR"\r\n   "2:RLS"\r\n   "3:WAIT"',
    )
    one, other, third, far = (PortSide.parse(text) for text in ("1A", "2A", "3A", "1B"))
    assert await switch.read_overrides([one], deadline_s=world.soon) == {}
    await switch.override([one, far], PortOverride.FORCE_BLOCKED, deadline_s=world.soon)
    assert unit.writes[-1] == b"RTRV-PORT-SHUTTER::1&9:3:;\nOPR-PORT-SHUTTER::1&9:4:;\nRTRV-PORT-SHUTTER::1&9:5:;\n"
    assert await switch.read_overrides([one, other, third], deadline_s=world.soon) == {
        one: PortOverride.FORCE_BLOCKED,
        other: PortOverride.NORMAL,
    }
    await switch.close()


@in_world
async def test_a_word_that_did_not_change_teaches_nothing(world: World) -> None:
    """The unit may be late to tell, or the shutter was closed before."""
    _, switch = await world.scripted(
        'M  # COMPLD\r\n   "1:RLS"', "M  # COMPLD", 'M  # COMPLD\r\n   "1:RLS"', 'M  # COMPLD\r\n   "1:RLS"'
    )
    one = PortSide.parse("1A")
    await switch.override([one], PortOverride.FORCE_BLOCKED, deadline_s=world.soon)
    assert await switch.read_overrides([one], deadline_s=world.soon) == {}
    await switch.close()


@in_world
async def test_the_words_of_shutters_may_stand_in_the_testbed(world: World) -> None:
    words = {"uit": PortOverride.FORCE_BLOCKED, "Aan": PortOverride.NORMAL}
    _, switch = await world.scripted('M  # COMPLD\r\n   "1:UIT"\r\n   "2:AAN"', shutter_words=words)
    ends = [PortSide.parse("1A"), PortSide.parse("2A")]
    assert list((await switch.read_overrides(ends, deadline_s=world.soon)).values()) == [*words.values()]
    await switch.close()


@in_world
async def test_a_denied_override_names_command_and_ends(world: World) -> None:
    _, switch = await world.scripted('M  # COMPLD\r\n   "1:OPEN"', "M  # DENY\r\n   IICM", 'M  # COMPLD\r\n   "1:OPEN"')
    with pytest.raises(DeviceError, match="ocs1: OPR-PORT-SHUTTER 1A: the device answered DENY IICM"):
        await switch.override([PortSide.parse("1A")], PortOverride.FORCE_BLOCKED, deadline_s=world.soon)
    await switch.close()


@in_world
async def test_attenuators_are_set_in_one_write_and_read(world: World) -> None:
    unit, switch = await world.scripted(
        "M  # COMPLD", "M  # COMPLD", 'M  # COMPLD\r\n   "9:ABS,-3.5,"\r\n   "10:REL,2.0,1"'
    )
    one, other = PortSide.parse("1B"), PortSide.parse("2B")
    wanted = [
        Attenuation(end=one, mode=AttenuationMode.ABSOLUTE, level=-3.5),
        Attenuation(end=other, mode=AttenuationMode.RELATIVE, level=2.0, reference=PortSide.parse("1A")),
    ]
    await switch.attenuate(wanted, deadline_s=world.soon)
    assert unit.writes[-1] == (
        b"SET-PORT-ATTEN::9:2:::MODE=ABS,LEVEL=(-3.5);\nSET-PORT-ATTEN::10:3:::MODE=REL,LEVEL=(2),REFS=1;\n"
    )
    assert await switch.read_attenuation([one, other], deadline_s=world.soon) == tuple(wanted)
    await switch.close()


@in_world
async def test_an_answer_that_makes_no_sense_ends_the_session_and_is_logged(world: World) -> None:
    _, switch = await world.scripted('M  # COMPLD\r\n   "1;9"')
    with pytest.raises(ProtocolError, match="ocs1: RTRV-PATCH: data line '1;9' is not in,out"):
        await switch.read_crossconnects(deadline_s=world.soon)
    assert "connection closed" in str(await switch.lost())
    await switch.close()


@in_world
async def test_it_has_the_abilities_of_a_switch_with_monitors(world: World) -> None:
    _, switch = await world.scripted()
    assert isinstance(switch, Device)
    assert isinstance(switch, CrossConnects)
    assert isinstance(switch, PowerReadings)
    assert isinstance(switch, PortOverrides)
    assert isinstance(switch, Attenuators)
    await switch.close()


@in_world
async def test_a_denial_names_device_command_code_and_text(world: World) -> None:
    _, switch = await world.scripted("M  # DENY\r\n   IIAC\r\n   /* Invalid OXC port: 9 */")
    with pytest.raises(
        DeviceError, match=r"ocs1: ENT-PATCH 1A-1B: the device answered DENY IIAC \(Invalid OXC port: 9\)"
    ) as denied:
        await switch.change_crossconnects(remove=(), add=pairs("1A-1B"), deadline_s=world.soon)
    error = denied.value
    assert (error.device, error.command, error.code, error.text) == (
        "ocs1",
        "ENT-PATCH 1A-1B",
        "IIAC",
        "Invalid OXC port: 9",
    )
    await switch.close()


@in_world
async def test_a_partial_change_is_no_success(world: World) -> None:
    _, switch = await world.scripted("M  # PRTL")
    with pytest.raises(DeviceError) as denied:
        await switch.change_crossconnects(remove=pairs("1A-1B"), add=(), deadline_s=world.soon)
    assert denied.value.code == "PRTL"
    await switch.close()


@in_world
async def test_autonomous_messages_in_between_do_not_disturb(world: World) -> None:
    report = 'A  17 REPT EVT EQPT\r\n   "9:NA,LOS,NSA"\r\n;\r\n\r\n\n   PolatisOXC 26-11-20 10:11:12\r\n'
    _, switch = await world.scripted(f'{report}M  # COMPLD\r\n   "2,10"\r\n   "1,9"')
    readings = await switch.read_crossconnects(deadline_s=world.soon)
    assert [str(reading.crossconnect) for reading in readings] == ["1A-1B", "2A-2B"]
    await switch.close()


@pytest.mark.parametrize(
    ("line", "finding"), [("1;9", "is not in,out"), ("1,99", "names port 99, it has 1 to 16"), ("1,2", "reports 1,2")]
)
def test_a_reading_that_makes_no_sense_is_a_protocol_error(line: str, finding: str) -> None:
    async def story(world: World) -> None:
        _, switch = await world.scripted(f'M  # COMPLD\r\n   "{line}"')
        with pytest.raises(ProtocolError, match=finding):
            await switch.read_crossconnects(deadline_s=world.soon)
        await switch.close()

    in_world(story)()


@in_world
async def test_no_light_is_none_for_all_units(world: World) -> None:
    _, switch = await world.scripted('M  # COMPLD\r\n   "9:-50.00"\r\n   "10:-60.00"\r\n   "11:-49.99"')
    ends = [PortSide.parse(text) for text in ("1B", "2B", "3B")]
    powers = await switch.read_power(ends, deadline_s=world.soon)
    assert [power.power_dbm for power in powers] == [None, None, -49.99]
    assert await switch.read_power([], deadline_s=world.soon) == ()
    await switch.close()


@in_world
async def test_a_power_that_is_missing_is_a_protocol_error(world: World) -> None:
    _, switch = await world.scripted('M  # COMPLD\r\n   "9:-3.00"')
    with pytest.raises(ProtocolError, match="no reading of 2B"):
        await switch.read_power([PortSide.parse("1B"), PortSide.parse("2B")], deadline_s=world.soon)
    await switch.close()


@in_world
async def test_another_size_than_the_testbed_says_is_a_config_error(world: World) -> None:
    no = "M  # DENY\r\n   IICM"
    _, switch = await world.scripted('M  # COMPLD\r\n   "SYSTEM:SIZE=16x16"', no, no, no)
    with pytest.raises(ConfigError, match="the switch has 16x16 ports, the testbed says 8x8"):
        await switch.capabilities(deadline_s=world.soon)
    await switch.close()


@in_world
async def test_a_unit_without_monitors_shutters_and_attenuators_is_one(world: World) -> None:
    no = "M  # DENY\r\n   IICM"
    _, switch = await world.scripted('M  # COMPLD\r\n   "SYSTEM:SIZE=8x8"', no, no, no)
    found = await switch.capabilities(deadline_s=world.soon)
    assert (found.monitored, found.blockable, found.attenuated) == ((), (), ())
    await switch.close()


@in_world
async def test_a_wrong_password_is_a_login_error_without_the_password(world: World) -> None:
    twin = world.twin(user="admin", password="other")
    await twin.start()
    with pytest.raises(LoginError, match=r"ocs1: .*login of admin: DENY PICC") as refused:
        await PolatisSwitch.open(world.context(password="geheim"))
    assert "geheim" not in str(refused.value)
    await twin.close()


@in_world
async def test_a_password_does_not_show_in_its_context(world: World) -> None:
    assert "geheim" not in repr(world.context(password="geheim"))


@in_world
async def test_a_port_that_the_unit_lacks_is_refused_before_anything_is_sent(world: World) -> None:
    unit, switch = await world.scripted()
    for text in ("9A-1B", "1-2"):
        with pytest.raises(ConfigError, match="8x8"):
            await switch.change_crossconnects(remove=(), add=pairs(text), deadline_s=world.soon)
    assert len(unit.got) == 1
    await switch.close()


@in_world
async def test_no_change_at_all_is_a_bug(world: World) -> None:
    _, switch = await world.scripted()
    with pytest.raises(BugError, match="no crossconnect"):
        await switch.change_crossconnects(remove=(), add=(), deadline_s=world.soon)
    await switch.close()


@in_world
async def test_a_testbed_without_login_or_with_other_options_is_refused(world: World) -> None:
    with pytest.raises(ConfigError, match="needs a login"):
        await PolatisSwitch.open(world.context(user=None))
    with pytest.raises(BugError, match="not PolatisOptions"):
        await PolatisSwitch.open(world.context(options=Other()))


@in_world
async def test_a_failed_login_leaves_no_connection(world: World) -> None:
    twin = world.twin(user="admin", password="other")
    await twin.start()
    for _ in range(3):
        with pytest.raises(LoginError):
            await PolatisSwitch.open(world.context())
    await asyncio.sleep(0.1)
    front = twin.fronts["tl1"]
    assert isinstance(front, Tl1Front)
    assert front.sessions == 0
    await twin.close()
