"""The Polatis driver: the bytes that it sends, and what it makes of answers that are not what they should be."""

import asyncio
from typing import Any

import pytest

from hwd_drivers.core.errors import DeviceError, ProtocolError
from hwd_drivers.core.values import Attenuation, AttenuationMode, PortOverride, PortSide

from ....stage import Scripted, Session, Stage, texts

DONE = "M  # COMPLD"
NO = "M  # DENY\r\n   IICM"


def make_stage() -> Stage:
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


def told(*lines: str) -> str:
    return "\r\n".join((DONE, *(f'   "{line}"' for line in lines)))


@pytest.mark.parametrize(
    ("remove", "add", "read_before", "answers", "sent", "before"),
    [
        ("", "1A-2B 2A-1B", False, [DONE], "ENT-PATCH::1&2,10&9:2:;\n", None),
        ("1A-1B 3A-3B 4A-4B", "1A-2B 2A-1B", False, [DONE] * 2,
         "DLT-PATCH::3&4:2:;\nENT-PATCH::1&2,10&9:3:;\n", None),
        ("3A-3B", "1A-1B", True, [told("2,9", "1,10"), DONE, DONE],
         "RTRV-PATCH:::2:;\nDLT-PATCH::3:3:;\nENT-PATCH::1,9:4:;\n", "1A-2B 2A-1B"),
        ("", "1A-1B", True, ["M  # DENY\r\n   SARB", DONE], "RTRV-PATCH:::2:;\nENT-PATCH::1,9:3:;\n", None),
    ],
    ids=["all pairs in one", "deleted first", "state before", "no state before"],
)  # fmt: skip
async def test_a_change_is_one_write(
    stage: Stage, remove: str, add: str, read_before: bool, answers: list[str], sent: str, before: str | None
) -> None:
    unit, switch = await scripted(stage, *answers, read_before=read_before)
    exchange = await switch.change(remove=remove, add=add)
    assert unit.writes[-1].decode() == sent
    assert exchange.commands == sum(not line.startswith("RTRV") for line in sent.splitlines())
    assert (None if exchange.before is None else texts(exchange.before)) == before
    await switch.close()
    assert unit.lines[0] == "ACT-USER::admin:1::root;"
    assert unit.lines[-1].startswith("CANC-USER::admin:")


async def test_the_words_of_shutters_are_learned_by_closing_and_opening(stage: Stage) -> None:
    unit, switch = await scripted(
        stage,
        told("1:RLS"),
        told("1:RLS", "9:OPR"),
        DONE,
        told("1:OPR", "9:OPR"),
        told("1:OPR", "2:RLS", "3:WAIT"),
        told("1:OPR"),
        NO,
        told("1:OPR"),
    )
    assert await switch.overrides("1A") == {}
    await switch.override("1A 1B", PortOverride.FORCE_BLOCKED)
    assert unit.writes[-1] == b"RTRV-PORT-SHUTTER::1&9:3:;\nOPR-PORT-SHUTTER::1&9:4:;\nRTRV-PORT-SHUTTER::1&9:5:;\n"
    assert await switch.overrides("1A 2A 3A") == {"1A": PortOverride.FORCE_BLOCKED, "2A": PortOverride.NORMAL}
    with pytest.raises(DeviceError, match="ocs1: OPR-PORT-SHUTTER 1A: the device answered DENY IICM"):
        await switch.override("1A", PortOverride.FORCE_BLOCKED)


async def test_a_word_that_did_not_change_teaches_nothing(stage: Stage) -> None:
    """The unit may be late to tell, or the shutter was closed before."""
    _, switch = await scripted(stage, told("1:RLS"), DONE, told("1:RLS"), told("1:RLS"))
    await switch.override("1A", PortOverride.FORCE_BLOCKED)
    assert await switch.overrides("1A") == {}


async def test_the_words_of_shutters_may_stand_in_the_testbed(stage: Stage) -> None:
    words = {"uit": PortOverride.FORCE_BLOCKED, "Aan": PortOverride.NORMAL}
    _, switch = await scripted(stage, told("1:UIT", "2:AAN"), shutter_words=words)
    assert [*(await switch.overrides("1A 2A")).values()] == [*words.values()]


async def test_attenuators_are_set_in_one_write_and_read(stage: Stage) -> None:
    unit, switch = await scripted(stage, DONE, DONE, told("9:ABS,-3.5,", "10:REL,2.0,1"))
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


async def test_a_partial_change_is_no_success(stage: Stage) -> None:
    _, switch = await scripted(stage, "M  # PRTL")
    with pytest.raises(DeviceError) as denied:
        await switch.change(remove="1A-1B")
    assert denied.value.code == "PRTL"


async def test_autonomous_messages_in_between_do_not_disturb(stage: Stage) -> None:
    report = 'A  17 REPT EVT EQPT\r\n   "9:NA,LOS,NSA"\r\n;\r\n\r\n\n   PolatisOXC 26-11-20 10:11:12\r\n'
    _, switch = await scripted(stage, report + told("2,10", "1,9"))
    assert await switch.pairs() == "1A-1B 2A-2B"


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("1;9", "ocs1: RTRV-PATCH: data line '1;9' is not in,out"),
        ("1,99", "names port 99, it has 1 to 16"),
        ("1,2", "reports 1,2"),
    ],
)
async def test_a_reading_that_makes_no_sense_is_a_protocol_error(stage: Stage, line: str, finding: str) -> None:
    _, switch = await scripted(stage, told(line))
    with pytest.raises(ProtocolError, match=finding):
        await switch.read()
    assert "connection closed" in str(await switch.lost())


async def test_no_light_is_none_and_a_power_that_is_missing_is_a_protocol_error(stage: Stage) -> None:
    _, switch = await scripted(stage, told("9:-50.00", "10:-60.00", "11:-49.99"), told("9:-3.00"))
    assert await switch.power("1B 2B 3B") == [None, None, -49.99]
    assert await switch.power("") == []
    with pytest.raises(ProtocolError, match="no reading of 2B"):
        await switch.power("1B 2B")


async def test_a_unit_without_monitors_shutters_and_attenuators_is_one(stage: Stage) -> None:
    _, switch = await scripted(stage, told("SYSTEM:SIZE=8x8"), NO, NO, NO)
    found = await switch.capabilities()
    assert (found.monitored, found.blockable, found.attenuated) == ((), (), ())


async def test_optical_time_and_answer_time_of_the_twin_are_apart(stage: Stage) -> None:
    stage.timing = "polatis-opus"
    twin, switch = await stage.start_and_open()
    started_s = stage.now_s
    tuned_s: list[float] = []
    twin.mirror.on_change.append(lambda now_ns: tuned_s.append(now_ns / 1e9 - started_s))
    await switch.change(add="1A-1B")
    assert 0.19 <= stage.now_s - started_s <= 0.21
    dark_s, lit_s = tuned_s
    assert dark_s == 0
    assert 0.02 <= lit_s <= 0.095
    await asyncio.sleep(1)
    assert await switch.pairs() == "1A-1B"
