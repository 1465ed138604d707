"""The Polatis driver: the bytes that it sends, and what it makes of answers that are not what they should be."""

from typing import Any

import pytest

from hwd_drivers.core.errors import DeviceError, ProtocolError
from hwd_drivers.core.values import Attenuation, AttenuationMode, PortOverride, PortSide

from ....stage import Scripted, Session, Stage, in_virtual_time, texts

DONE = "M  # COMPLD"
NO = "M  # DENY\r\n   IICM"


@pytest.fixture
def stage() -> Stage:
    return Stage(
        "polatis-tl1",
        "polatis-6000",
        "8x8",
        within_s=1.0,
        answered=lambda line, text: (
            f"\r\n\n   PolatisOXC 26-11-20 10:11:12\r\n{text.replace('#', line.split(':')[3])}\r\n;\r\n"
        ),
    )


async def scripted(stage: Stage, *answers: str, read_before: bool = False, **options: Any) -> tuple[Scripted, Session]:
    unit = await stage.script(DONE, *answers)
    return unit, await stage.open(read_before=read_before, **options)


@in_virtual_time
async def test_all_pairs_go_in_one_command(stage: Stage) -> None:
    unit, switch = await scripted(stage, DONE)
    exchange = await switch.change(add="1A-2B 2A-1B")
    assert exchange.commands == 1
    await switch.close()
    assert unit.lines == ["ACT-USER::admin:1::root;", "ENT-PATCH::1&2,10&9:2:;", "CANC-USER::admin:3:;"]


@in_virtual_time
async def test_pairs_that_are_not_moved_are_deleted_first_in_the_same_write(stage: Stage) -> None:
    unit, switch = await scripted(stage, DONE, DONE)
    exchange = await switch.change(remove="1A-1B 3A-3B 4A-4B", add="1A-2B 2A-1B")
    assert exchange.commands == 2
    assert unit.writes[-1] == b"DLT-PATCH::3&4:2:;\nENT-PATCH::1&2,10&9:3:;\n"


@in_virtual_time
async def test_a_change_reports_the_state_just_before_it(stage: Stage) -> None:
    before = 'M  # COMPLD\r\n   "2,9"\r\n   "1,10"'
    unit, switch = await scripted(stage, before, DONE, DONE, read_before=True)
    exchange = await switch.change(remove="3A-3B", add="1A-1B")
    assert unit.writes[-1] == b"RTRV-PATCH:::2:;\nDLT-PATCH::3:3:;\nENT-PATCH::1,9:4:;\n"
    assert texts(exchange.before or ()) == "1A-2B 2A-1B"
    assert exchange.commands == 2


@in_virtual_time
async def test_a_unit_that_does_not_report_the_state_before_is_changed_too(stage: Stage) -> None:
    _, switch = await scripted(stage, "M  # DENY\r\n   SARB", DONE, read_before=True)
    exchange = await switch.change(add="1A-1B")
    assert exchange.before is None


@in_virtual_time
async def test_the_words_of_shutters_are_learned_by_closing_and_opening(stage: Stage) -> None:
    unit, switch = await scripted(
        stage,
        'M  # COMPLD\r\n   "1:RLS"',
        'M  # COMPLD\r\n   "1:RLS"\r\n   "9:OPR"',
        DONE,
        'M  # COMPLD\r\n   "1:OPR"\r\n   "9:OPR"',
        'M  # COMPLD\r\n   "1:OPR"\r\n   "2:RLS"\r\n   "3:WAIT"',
    )
    assert await switch.overrides("1A") == {}
    await switch.override("1A 1B", PortOverride.FORCE_BLOCKED)
    assert unit.writes[-1] == b"RTRV-PORT-SHUTTER::1&9:3:;\nOPR-PORT-SHUTTER::1&9:4:;\nRTRV-PORT-SHUTTER::1&9:5:;\n"
    assert await switch.overrides("1A 2A 3A") == {"1A": PortOverride.FORCE_BLOCKED, "2A": PortOverride.NORMAL}


@in_virtual_time
async def test_a_word_that_did_not_change_teaches_nothing(stage: Stage) -> None:
    """The unit may be late to tell, or the shutter was closed before."""
    _, switch = await scripted(
        stage, 'M  # COMPLD\r\n   "1:RLS"', DONE, 'M  # COMPLD\r\n   "1:RLS"', 'M  # COMPLD\r\n   "1:RLS"'
    )
    await switch.override("1A", PortOverride.FORCE_BLOCKED)
    assert await switch.overrides("1A") == {}


@in_virtual_time
async def test_the_words_of_shutters_may_stand_in_the_testbed(stage: Stage) -> None:
    words = {"uit": PortOverride.FORCE_BLOCKED, "Aan": PortOverride.NORMAL}
    _, switch = await scripted(stage, 'M  # COMPLD\r\n   "1:UIT"\r\n   "2:AAN"', shutter_words=words)
    assert [*(await switch.overrides("1A 2A")).values()] == [*words.values()]


@in_virtual_time
async def test_a_denied_override_names_command_and_ends(stage: Stage) -> None:
    _, switch = await scripted(stage, 'M  # COMPLD\r\n   "1:OPEN"', NO, 'M  # COMPLD\r\n   "1:OPEN"')
    with pytest.raises(DeviceError, match="ocs1: OPR-PORT-SHUTTER 1A: the device answered DENY IICM"):
        await switch.override("1A", PortOverride.FORCE_BLOCKED)


@in_virtual_time
async def test_attenuators_are_set_in_one_write_and_read(stage: Stage) -> None:
    unit, switch = await scripted(stage, DONE, DONE, 'M  # COMPLD\r\n   "9:ABS,-3.5,"\r\n   "10:REL,2.0,1"')
    one, other = PortSide.parse("1B"), PortSide.parse("2B")
    wanted = [
        Attenuation(end=one, mode=AttenuationMode.ABSOLUTE, level=-3.5),
        Attenuation(end=other, mode=AttenuationMode.RELATIVE, level=2.0, reference=PortSide.parse("1A")),
    ]
    await switch.attenuate(*wanted)
    assert unit.writes[-1] == (
        b"SET-PORT-ATTEN::9:2:::MODE=ABS,LEVEL=(-3.5);\nSET-PORT-ATTEN::10:3:::MODE=REL,LEVEL=(2),REFS=1;\n"
    )
    assert await switch.attenuation("1B 2B") == tuple(wanted)


@in_virtual_time
async def test_a_denial_names_device_command_code_and_text(stage: Stage) -> None:
    _, switch = await scripted(stage, "M  # DENY\r\n   IIAC\r\n   /* Invalid OXC port: 9 */")
    with pytest.raises(
        DeviceError, match=r"ocs1: ENT-PATCH 1A-1B: the device answered DENY IIAC \(Invalid OXC port: 9\)"
    ) as denied:
        await switch.change(add="1A-1B")
    error = denied.value
    found = (error.device, error.command, error.code, error.text)
    assert found == ("ocs1", "ENT-PATCH 1A-1B", "IIAC", "Invalid OXC port: 9")


@in_virtual_time
async def test_a_partial_change_is_no_success(stage: Stage) -> None:
    _, switch = await scripted(stage, "M  # PRTL")
    with pytest.raises(DeviceError) as denied:
        await switch.change(remove="1A-1B")
    assert denied.value.code == "PRTL"


@in_virtual_time
async def test_autonomous_messages_in_between_do_not_disturb(stage: Stage) -> None:
    report = 'A  17 REPT EVT EQPT\r\n   "9:NA,LOS,NSA"\r\n;\r\n\r\n\n   PolatisOXC 26-11-20 10:11:12\r\n'
    _, switch = await scripted(stage, f'{report}M  # COMPLD\r\n   "2,10"\r\n   "1,9"')
    assert await switch.pairs() == "1A-1B 2A-2B"


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("1;9", "ocs1: RTRV-PATCH: data line '1;9' is not in,out"),
        ("1,99", "names port 99, it has 1 to 16"),
        ("1,2", "reports 1,2"),
    ],
)
@in_virtual_time
async def test_a_reading_that_makes_no_sense_is_a_protocol_error(stage: Stage, line: str, finding: str) -> None:
    _, switch = await scripted(stage, f'M  # COMPLD\r\n   "{line}"')
    with pytest.raises(ProtocolError, match=finding):
        await switch.read()
    assert "connection closed" in str(await switch.lost())


@in_virtual_time
async def test_no_light_is_none_for_all_units(stage: Stage) -> None:
    _, switch = await scripted(stage, 'M  # COMPLD\r\n   "9:-50.00"\r\n   "10:-60.00"\r\n   "11:-49.99"')
    assert await switch.power("1B 2B 3B") == [None, None, -49.99]
    assert await switch.power("") == []


@in_virtual_time
async def test_a_power_that_is_missing_is_a_protocol_error(stage: Stage) -> None:
    _, switch = await scripted(stage, 'M  # COMPLD\r\n   "9:-3.00"')
    with pytest.raises(ProtocolError, match="no reading of 2B"):
        await switch.power("1B 2B")


@in_virtual_time
async def test_a_unit_without_monitors_shutters_and_attenuators_is_one(stage: Stage) -> None:
    _, switch = await scripted(stage, 'M  # COMPLD\r\n   "SYSTEM:SIZE=8x8"', NO, NO, NO)
    found = await switch.capabilities()
    assert (found.monitored, found.blockable, found.attenuated) == ((), (), ())
