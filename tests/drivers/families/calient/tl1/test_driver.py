"""The Calient TL1 driver: the commands that it sends, how it waits for light, and its handling of wrong answers."""

import asyncio

import pytest

from hwd_drivers.core.errors import DeadlineError, DeviceError, ProtocolError, RefusedError
from hwd_drivers.families.calient.unit import Wish

from ....parts import ends, pairs
from ....stage import Scripted, Session, Stage, texts

DONE = "M  # COMPLD"
PORTS = "\r\n".join(f'   "1.1.{n}:WX,NONE,NONE:INAS=IS,OUTAS=IS"' for n in range(1, 9))
OPENING = ('M  # COMPLD\r\n   "lab:lab,2"\r\n   /* NOTICE */', f"M  # COMPLD\r\n{PORTS}")


def make_stage() -> Stage:
    return Stage(
        "calient-tl1",
        "calient-s160",
        "8",
        login=("lab", "geheim"),
        answered=lambda line, text: (
            f"\r\n\n   CALIENT01TS 26-11-20 10:11:12\r\n{text.replace('#', line.split(':')[3])}\r\n;\r\nagent>"
        ),
        greeting="\r\nagent>",
    )


async def scripted(stage: Stage, *answers: str, opening: tuple[str, ...] = OPENING) -> tuple[Scripted, Session]:
    unit = await stage.script(*opening, *answers)
    return unit, await stage.open()


def row(
    source: int, destination: int, *, both: bool = False, states: str = "AS=IS,OS=IS,OC=OK", group: str = "SYSTEM"
) -> str:
    name = f"1.1.{source}{'-' if both else '>'}1.1.{destination}"
    kind = "2WAY" if both else "1WAY"
    return (
        f'   "{name}:SRCPORT=1.1.{source},DSTPORT=1.1.{destination},GRPNAME={group},CONNNAME={name},CONNTYPE={kind},'
        f'{states},PS=UPR,AL=CL"'
    )


def rows(*lines: str) -> str:
    return "\r\n".join(("M  # COMPLD", *lines))


async def test_old_connections_are_deleted_before_new_ones_are_entered(stage: Stage) -> None:
    unit, switch = await scripted(
        stage,
        rows(row(1, 1, group="LAB"), row(2, 2, states="AS=UMA,OS=RDY,OC=OK")),
        *[DONE] * 5,
        rows(row(1, 3, states="AS=IS,OS=RDY,OC=OK")),
        rows(row(1, 3)),
    )
    started_s = stage.now_s
    told: list[int] = []
    exchange = await switch.change(remove="1A-1B 2A-2B", add="1A-3B", on_commanded=told.append)
    assert unit.lines[2:] == [
        "RTRV-CRS::,:3:;",
        "CANC-CRS::1.1.1,1.1.1:4::,LAB,1.1.1>1.1.1;",
        "DLT-CRS::1.1.1,1.1.1:5::,LAB,1.1.1>1.1.1;",
        "DLT-CRS::1.1.2,1.1.2:6::,SYSTEM,1.1.2>1.1.2;",
        "ENT-CRS::1.1.1,1.1.3:7::SYSTEM,1WAY;",
        "ACT-CRS::1.1.1,1.1.3:8::1.1.1>1.1.3,SYSTEM;",
        "RTRV-CRS::,:9:;",
        "RTRV-CRS::,:10:;",
    ]
    assert exchange.commands == 5
    assert texts(exchange.before or ()) == "1A-1B 2A-2B"
    assert told == [exchange.commanded_ns]
    assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e9 == pytest.approx(stage.now_s - started_s, abs=0.01)
    assert stage.now_s - started_s == pytest.approx(0.1, abs=0.01), "it looked again after one poll"


async def test_commands_are_in_flight_together_where_that_is_allowed(stage: Stage) -> None:
    await stage.start()
    switch = await stage.open(in_flight=8)
    exchange = await switch.change(add="1A-2B 2A-1B 3A-3B 4A-4B")
    assert exchange.commands == 8
    assert await switch.read() == ["1A-2B tuned", "2A-1B tuned", "3A-3B tuned", "4A-4B tuned"]


async def test_of_a_change_in_part_only_so_many_pairs_are_made_though_each_has_commands_of_its_own(
    stage: Stage,
) -> None:
    twin, switch = await stage.start_and_open()
    twin.faults.partial_next = 1
    with pytest.raises(DeviceError, match="2A-1B gone, 3A-3B gone"):
        await switch.change(add="1A-2B 2A-1B 3A-3B")
    assert await switch.pairs() == stage.lit() == "1A-2B"
    await switch.change(add="2A-1B 3A-3B")
    assert stage.lit() == "1A-2B 2A-1B 3A-3B", "it was used up"


async def test_it_copes_with_a_unit_of_one_step_and_reports_in_between_do_not_disturb(stage: Stage) -> None:
    stage.timing = "polatis-opus"
    twin, switch = await stage.start_and_open(steps="one", reports=True)
    for wanted in ("1A-2B 2A-1B", "3A-3B"):
        await switch.change(add=wanted)
    assert stage.passes("1A-2B")
    twin.faults.panel(remove=pairs("3A-3B"), add=())
    assert await switch.pairs() == "1A-2B 2A-1B"


async def test_nothing_is_activated_after_an_entry_was_denied(stage: Stage) -> None:
    no = "M  # DENY\r\n   SROF\r\n   /* Invalid Connection - Port already in Connection */"
    unit, switch = await scripted(stage, rows(), DONE, no)
    with pytest.raises(DeviceError, match=r"ocs1: ENT-CRS 2A-1B: the device answered DENY SROF .*Port already in Conn"):
        await switch.change(add="1A-2B 2A-1B 3A-3B")
    assert [text.split(":")[0] for text in unit.lines[3:]] == ["ENT-CRS", "ENT-CRS"]


async def test_an_activation_that_is_denied_or_dropped_or_never_settles_is_an_error(stage: Stage) -> None:
    denied = "M  # DENY\r\n   SROF\r\n   /* no light today */"
    ready, dark = (rows(row(1, 2, states=f"AS={state},OS=RDY,OC=OK")) for state in ("IS", "UMA"))
    answers = [rows(), DONE, denied, dark, rows(), DONE, DONE, *[rows()] * 12, rows(), DONE, DONE, *[ready] * 40]
    unit, switch = await scripted(stage, *answers)
    with pytest.raises(DeviceError, match=r"ocs1: ACT-CRS 1A-2B: the device answered DENY SROF \(no light today\)"):
        await switch.change(add="1A-2B")
    with pytest.raises(DeviceError, match="1A-2B gone"):
        await switch.change(add="1A-2B")
    unit.answers = [rows(), DONE, DONE, *[ready] * 40]
    never = r"ocs1: ACT-CRS 1A-2B: not in service within 2 s: 1A-2B AS=IS,OS=RDY,OC=OK"
    with pytest.raises(DeadlineError, match=never):
        await switch.change(add="1A-2B", within_s=2)


async def test_a_connection_that_stays_failed_is_a_device_error(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    twin.faults.stick(ends("1A"))
    started_s = stage.now_s
    with pytest.raises(DeviceError, match=r"did not do it: 1A-2B AS=IS,OS=OOS,OC=FAIL") as failed:
        await switch.change(add="1A-2B 2A-1B")
    assert failed.value.code == "OC=FAIL"
    assert stage.now_s - started_s == pytest.approx(1.0, abs=0.11), "it failed for so long"
    assert await switch.read() == ["1A-2B failed", "2A-1B tuned"]
    twin.faults.clear()
    await switch.change(add="1A-2B")
    assert stage.passes("1A-2B"), "it was made anew"


async def test_half_of_a_connection_of_both_ways_is_refused_before_anything_is_sent(stage: Stage) -> None:
    unit, switch = await scripted(stage, rows(row(1, 2, both=True)))
    with pytest.raises(RefusedError, match="Change both"):
        await switch.change(remove="1A-2B")
    assert [text.split(":")[0] for text in unit.lines[2:]] == ["RTRV-CRS"]


async def test_a_missing_connection_needs_no_command_and_a_second_login_is_no_error(stage: Stage) -> None:
    again = ("M  # DENY\r\n   SNVS\r\n   /* Already logged in */", OPENING[1])
    _, switch = await scripted(stage, rows(), opening=again)
    exchange = await switch.change(remove="1A-2B")
    assert (exchange.commands, exchange.before) == (0, ())
    assert exchange.commanded_ns <= exchange.acknowledged_ns


async def test_connections_of_an_interrupted_change_are_made_again(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    twin.unit.enter(Wish(source="1.1.1", destination="1.1.2", two_way=False), activate=False)
    assert await switch.read() == ["1A-2B failed"]
    await switch.change(add="1A-2B")
    assert await switch.read() == ["1A-2B tuned"]


async def test_one_that_is_slow_to_become_active_is_waited_for(stage: Stage) -> None:
    _, switch = await scripted(
        stage, rows(), DONE, DONE, *[rows(row(1, 2, states="AS=UMA,OS=RDY,OC=FAIL"))] * 20, rows(row(1, 2))
    )
    exchange = await switch.change(add="1A-2B")
    assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e9 == pytest.approx(2.0, abs=0.1)


async def test_a_session_is_kept_alive_where_nothing_else_is_said(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    silent = await stage.open(keep_alive_s=1000)
    lost = asyncio.create_task(silent.lost())
    await asyncio.sleep(61)
    assert lost.done()
    await asyncio.sleep(600)
    assert await switch.read() == []
    await switch.close()
    await asyncio.sleep(1)
    assert twin.fronts["tl1"].sessions == []


async def test_power_is_of_the_in_and_of_the_out_fibre(stage: Stage) -> None:
    unit, switch = await scripted(
        stage,
        'M  # COMPLD\r\n   "1.1.1:ALIAS=NONE,INPWR=-3.4,OUTPWR=NONE"\r\n   "1.1.2:ALIAS=x,INPWR=-60.0,OUTPWR=-5.25"',
        'M  # COMPLD\r\n   "1.1.1:ALIAS=NONE,INPWR=-3.4,OUTPWR=-7.5"',
        'M  # COMPLD\r\n   "1.1.1:ALIAS=NONE,INPWR=-3.4,OUTPWR=-7.5"',
    )
    assert await switch.power("1A 1B 2A 2B") == [-3.4, None, None, -5.25]
    assert await switch.power("1A 1B") == [-3.4, -7.5]
    assert unit.lines[2:] == ["RTRV-PORT-SUM::0:3:;", "RTRV-PORT-SUM::1.1.1:4:;"]
    assert await switch.power("") == []
    with pytest.raises(ProtocolError, match=r"ocs1: RTRV-PORT-SUM: no reading of 1\.1\.2, 1\.1\.2 in"):
        await switch.power("1A 1B 2A 2B")


async def test_a_port_that_was_not_listed_is_a_protocol_error(stage: Stage) -> None:
    _, switch = await scripted(stage, rows(row(1, 9)))
    with pytest.raises(ProtocolError, match=r"ocs1: RTRV-CRS: 1\.1\.1>1\.1\.9 has port 1\.1\.9"):
        await switch.read()
