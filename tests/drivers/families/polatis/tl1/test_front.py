"""A Polatis unit that answers TL1: exact bytes, its choices where facts run out, its faults, in virtual time."""

import asyncio
import re

import pytest

from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Crossconnect, PortSide
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.twins.server import Denial

from ....stage import Client, Stage, ends, in_virtual_time

HEAD = "\r\n\n   PolatisOXC 26-11-20 10:11:12\r\n"


@pytest.fixture
def stage() -> Stage:
    return Stage("polatis-tl1", "polatis-6000", "8x8")


async def at_terminal(stage: Stage, *, login: bool = True, **options: Json) -> Client:
    """Another client; the first one starts the unit with these options."""
    if stage.twin is None:
        await stage.start(**options)
    client = await stage.connect()
    if login:
        client.type("ACT-USER::admin:1::root;")
        await client.came.wait()
        client.got = b""
    return client


@in_virtual_time
async def test_a_command_whose_tag_is_too_long_is_denied_and_not_done(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    heard = await terminal.ask("ENT-PATCH::1,9:1234567:;")
    assert (
        "M  0 DENY\r\n   IICT\r\n   /* TL1 command ENT-PATCH: CTAG '1234567' is not 1 to 6 letters and digits */"
        in heard
    )
    assert stage.twin.unit.pairs() == []
    assert "M  123456 COMPLD" in await terminal.ask("ENT-PATCH::1,9:123456:;")


@in_virtual_time
async def test_answers_have_the_bytes_that_known_clients_parse(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    for text, answer in (
        ("ENT-PATCH::1&2,9&10:123:;\n", "M  123 COMPLD\r\n;\r\n"),
        ("RTRV-PATCH:::124:;\n", 'M  124 COMPLD\r\n   "1,9"\r\n   "2,10"\r\n;\r\n'),
        ("ENT-PATCH::1,99:5:;\n", "M  5 DENY\r\n   IIAC\r\n   /* Invalid OXC port: 99 */\r\n;\r\n"),
    ):
        assert await terminal.ask(text, within_s=0.1) == HEAD + answer


ANSWERS = [
    ("RTRV-PATCH:::7:;", "M  7 COMPLD\r\n;"),
    ('RTRV-PATCH:"PolatisOXC"::7:;', "M  7 COMPLD\r\n;"),
    ("RTRV-PATCH:Other::7:;", "M  7 DENY\r\n   IITA\r\n;"),
    ("RTRV-HDR:::7:;", "M  7 COMPLD\r\n;"),
    ("RTRV-HDR;", "M  0 COMPLD\r\n;"),
    ("MAKE-COFFEE:::7:;", "M  7 DENY\r\n   IICM\r\n;"),
    ("%%%:::7:;", "M  7 DENY\r\n   IICM\r\n;"),
    ("OPR-ARC-EQPT::REPMGR:7::IND;", "M  7 COMPLD\r\n;"),
    ("RTRV-EQPT::SYSTEM:7:::PARAMETER=SIZE;", 'M  7 COMPLD\r\n   "SYSTEM:SIZE=8x8"\r\n;'),
    ("RTRV-PORT-POWER::9:7:;", 'M  7 COMPLD\r\n   "9:-60.00"\r\n;'),
    ("RTRV-PORT-POWER::1:7:;", "M  7 DENY\r\n   IIAC\r\n   /* No power monitor at port: 1 */\r\n;"),
    ("ENT-PATCH::1&1,9&10:7:;", "M  7 DENY\r\n   IIAC\r\n   /* Port 1 stands twice in the list */\r\n;"),
    ("ENT-PATCH::1&2,9&9:7:;", "M  7 DENY\r\n   IIAC\r\n   /* Port 9 stands twice in the list */\r\n;"),
    ("ENT-PATCH::1,2:7:;", "M  7 DENY\r\n   IIAC\r\n   /* Ports 1 and 2 are on the same side */\r\n;"),
    ("DLT-PATCH::ALL:7:;", "M  7 COMPLD\r\n;"),
    ("DLT-PATCH::3:7:;", "M  7 COMPLD\r\n;"),
    ("SET-PORT-PMON::9:7:::WAVE=1200;", "IDRG\r\n   /* Wavelength 1200 nm is not between 1260 and 1640 */"),
    ("SET-PORT-PMON::9:7:::OFFSET=(-101);", "IDRG\r\n   /* Offset -101 dB is over 100 */"),
    ("SET-PORT-PMON::9:7:::ATIME=9;", "IDRG\r\n   /* Averaging time code 9 is not 1 to 8 */"),
    ("SET-PORT-PMON::1:7:::ATIME=1;", "IIAC\r\n   /* No power monitor at port: 1 */"),
    ("SET-TH-PMON::9:7:::TYPE=LOS,LOW=(-200);", "IDRG\r\n   /* Limit -200 dBm"),
    ("RTRV-PORT-REVPOWER::9:7:;", "DENY\r\n   IICM"),
    ("RTRV-EQPT::REVPMON:7:::PARAMETER=CONFIG;", "DENY\r\n   IICM"),
    ("RTRV-EQPT::ATTEN:7:::PARAMETER=CONFIG;", "DENY\r\n   IICM"),
    ("OPR-PORT-FLAP::9:7:;", "SNVS\r\n   /* Port 9 has no programme */"),
    ("ENT-PORT-FLAP::9:7::5,500,1;", "IDRG\r\n   /* Block time (ms) 5 is not between 10 and 10000 */"),
    ("OPR-PORT-SHUTTER::17:7:;", "IIAC\r\n   /* Invalid OXC port: 17 */"),
    ("RTRV-PORT-FLAP:::7:;", "M  7 COMPLD\r\n;"),
    ("RTRV-PORT-LABEL::3:7:;", 'M  7 COMPLD\r\n   "3:"\r\n;'),
]


@in_virtual_time
async def test_commands_are_answered(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    for text, answer in ANSWERS:
        assert answer in await terminal.ask(text), text


@in_virtual_time
async def test_a_list_with_one_wrong_port_does_nothing(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    assert "DENY" in await terminal.ask("ENT-PATCH::1&2,9&17:1:;")
    assert '"' not in await terminal.ask("RTRV-PATCH:::2:;")


@in_virtual_time
async def test_ports_in_use_move_and_either_end_deletes(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    await terminal.ask("ENT-PATCH::1&2,9&10:1:;ENT-PATCH::10,1:2:;")
    assert '"1,10"' in (patches := await terminal.ask("RTRV-PATCH::ALL:3:;"))
    assert patches.count('"') == 2
    await terminal.ask("DLT-PATCH::10:4:;")
    assert '"' not in await terminal.ask("RTRV-PATCH:::5:;")


@in_virtual_time
async def test_ports_in_use_are_denied_where_the_unit_does_not_move(stage: Stage) -> None:
    terminal = await at_terminal(stage, in_use="deny")
    await terminal.ask("ENT-PATCH::1,9:1:;")
    assert "SROF" in await terminal.ask("ENT-PATCH::1,10:2:;")


@in_virtual_time
async def test_a_port_twice_in_a_list_has_the_last_pair_where_units_are_like_that(stage: Stage) -> None:
    terminal = await at_terminal(stage, duplicates="last")
    assert "M  1 COMPLD" in await terminal.ask("ENT-PATCH::1&1&2,9&10&11:1:;")
    assert 'COMPLD\r\n   "1,10"\r\n   "2,11"\r\n;' in await terminal.ask("RTRV-PATCH:::2:;")


@in_virtual_time
async def test_a_list_is_done_up_to_the_wrong_pair_by_option(stage: Stage) -> None:
    terminal = await at_terminal(stage, lists="in-turn")
    assert "Invalid OXC port: 17" in await terminal.ask("ENT-PATCH::1&2&3,9&17&11:1:;")
    assert 'COMPLD\r\n   "1,9"\r\n;' in await terminal.ask("RTRV-PATCH:::2:;")


@in_virtual_time
async def test_order_and_the_code_for_lists_are_the_units_choice(stage: Stage) -> None:
    terminal = await at_terminal(stage, order="lower-first", list_code="IPNV")
    assert "IIAC\r\n   /* Port 1 has to stand before port 9 */" in await terminal.ask("ENT-PATCH::9,1:1:;")
    assert "COMPLD" in await terminal.ask("ENT-PATCH::1,9:2:;")
    assert "IPNV\r\n   /* Port lists differ in length: 2 and 1 */" in await terminal.ask("ENT-PATCH::1&2,9:3:;")
    assert "IPNV\r\n   /* Port 1 stands twice in the list */" in await terminal.ask("ENT-PATCH::1&1,9&10:4:;")


@in_virtual_time
async def test_nothing_is_answered_before_a_good_login(stage: Stage) -> None:
    terminal = await at_terminal(stage, login=False, user="admin", password="root")
    assert "PLNA" in await terminal.ask("RTRV-PATCH:::1:;")
    assert "M  2 DENY\r\n   PICC\r\n;\r\n" in await terminal.ask("ACT-USER::admin:2::wrong;")
    assert "M  3 COMPLD" in await terminal.ask("ACT-USER::admin:3::root;")
    assert "M  4 COMPLD" in await terminal.ask("RTRV-PATCH:::4:;")
    assert "PLNA" in await terminal.ask("CANC-USER::admin:5:;RTRV-PATCH:::6:;")


@in_virtual_time
async def test_usual_logins_are_those_of_real_units(stage: Stage) -> None:
    terminal = await at_terminal(stage, login=False, logins="usual")
    for user, password in (("admin", "wrong"), ("root", "admin"), ("other", "root")):
        assert "M  1 DENY\r\n   PICC\r\n;\r\n" in await terminal.ask(f"ACT-USER::{user}:1::{password};")
    assert "PLNA" in await terminal.ask("RTRV-PATCH:::2:;")
    for user in ("admin", "root"):
        assert "M  3 COMPLD" in await terminal.ask(f"ACT-USER::{user}:3::root;")


@in_virtual_time
async def test_optical_time_and_answer_time_are_apart(stage: Stage) -> None:
    stage.timing = "polatis-opus"
    terminal = await at_terminal(stage)
    stage.light("1A", 0.0)
    tuned_s: list[float] = []
    started_s = stage.now_s
    stage.twin.mirror.on_change.append(lambda now_ns: tuned_s.append(now_ns / 1e9 - started_s))
    terminal.type("ENT-PATCH::1,9:1:;")
    await terminal.came.wait()
    assert 0.19 <= stage.now_s - started_s <= 0.21
    assert len(tuned_s) == 2
    assert tuned_s[0] == 0
    assert 0.02 <= tuned_s[1] <= 0.095
    assert "9:-1." in await terminal.ask("RTRV-PORT-POWER::9:2:;")


@in_virtual_time
async def test_a_unit_may_answer_before_it_has_settled(stage: Stage) -> None:
    stage.timing = "polatis-opus"
    terminal = await at_terminal(stage, answer="at-once")
    assert "COMPLD" in await terminal.ask("ENT-PATCH::1,9:1:;", within_s=0.001)
    assert stage.twin.mirror.next_ns() is not None


@in_virtual_time
async def test_a_slow_answer_is_acknowledged_after_two_seconds(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    stage.twin.faults.slow_s = 3.0
    assert await terminal.ask("RTRV-PATCH:::8:;", within_s=2.5) == "\r\nIP 8\r\n<"
    assert "M  8 COMPLD" in await terminal.ask("", within_s=1.0)


@in_virtual_time
async def test_long_answers_are_cut_in_blocks_where_asked_for(stage: Stage) -> None:
    terminal = await at_terminal(stage, lines_per_block=1)
    await terminal.ask("ENT-PATCH::1&2,9&10:1:;")
    text = await terminal.ask("RTRV-PATCH:::2:;")
    assert text.count("M  2 COMPLD") == 2
    assert text.count(">\r\n") == 1


@in_virtual_time
async def test_changes_are_reported_to_sessions_that_have_not_muted_them(stage: Stage) -> None:
    one, other = await at_terminal(stage, reports=True), await at_terminal(stage)
    await one.ask("OPR-ARC-EQPT::REPMGR:1::IND;")
    assert "REPT" not in await one.ask("ENT-PATCH::1,9:2:;")
    assert 'A  1 REPT EVT PATCH\r\n   "1:NA,TUNED,NSA,,,,,:\\"1,9\\""\r\n;\r\n' in other.got.decode()


@in_virtual_time
async def test_a_denial_is_for_the_next_change_only(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    stage.twin.faults.deny_next = Denial(code="SROF", text="mirror drive fault")
    assert "M  1 COMPLD" in await terminal.ask("RTRV-PATCH:::1:;")
    assert "SROF\r\n   /* mirror drive fault */" in await terminal.ask("ENT-PATCH::1,9:2:;")
    assert "M  3 COMPLD" in await terminal.ask("ENT-PATCH::1,9:3:;")


@in_virtual_time
async def test_a_silent_unit_does_and_does_not_tell(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    stage.twin.faults.silent = True
    assert await terminal.ask("ENT-PATCH::1,9:1:;") == ""
    stage.twin.faults.clear()
    assert '"1,9"' in await terminal.ask("RTRV-PATCH:::2:;")


@in_virtual_time
async def test_a_stuck_mirror_is_answered_and_not_moved(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    stage.twin.faults.stick(ends("1A"))
    assert "COMPLD" in await terminal.ask("ENT-PATCH::1,9:1:;")
    assert '"' not in await terminal.ask("RTRV-PATCH:::2:;")


@in_virtual_time
async def test_a_reset_and_a_refusal_end_sessions(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    stage.twin.faults.reset()
    await terminal.closed.wait()
    stage.twin.faults.refusing = True
    refused = await at_terminal(stage, login=False)
    await refused.closed.wait()


@in_virtual_time
async def test_a_session_that_is_idle_too_long_is_ended(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    await terminal.ask("ED-EQPT::TIMEOUT:1:::ADMIN=10;")
    await terminal.ask("RTRV-HDR:::2:;", within_s=9)
    assert not terminal.ended
    await asyncio.sleep(1.1)
    assert terminal.ended


@in_virtual_time
async def test_endless_bytes_end_the_session_and_not_the_twin(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    terminal.type("x" * 70_000)
    await terminal.closed.wait()
    assert "COMPLD" in await (await at_terminal(stage)).ask("RTRV-HDR:::1:;")


@in_virtual_time
async def test_monitors_average_over_the_time_of_their_code(stage: Stage) -> None:
    """Light of 0.5 mW for half of the 100 ms of code 4 reads half of it; code 1 is 10 ms."""
    terminal = await at_terminal(stage)
    await terminal.ask("ENT-PATCH::1,9:1:;")
    await terminal.ask("SET-PORT-PMON::9:2:::OFFSET=10;")
    lit_dbm = -3.0
    stage.light("1A", lit_dbm, from_now=True)
    await asyncio.sleep(0.05)
    half = power_of(await terminal.ask("RTRV-PORT-POWER::9:3:;", within_s=0.0001))
    whole = power_of(await terminal.ask("SET-PORT-PMON::9:4:::ATIME=1;RTRV-PORT-POWER::9:5:;", within_s=0.0001))
    assert whole - half == pytest.approx(3.0, abs=0.2)
    assert '"9:1550,10.0,1"' in await terminal.ask("RTRV-PORT-PMON::9:6:;")


@in_virtual_time
async def test_a_closed_shutter_is_dark_and_keeps_its_crossconnect(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    await terminal.ask("ENT-PATCH::1,9:1:;")
    stage.light("1A", 0.0)
    assert "COMPLD" in await terminal.ask("OPR-PORT-SHUTTER::9:2:;")
    assert '"8:OPEN"\r\n   "9:CLOSED"' in await terminal.ask("RTRV-PORT-SHUTTER::8&9:3:;")
    assert '"9:-60.00"' in await terminal.ask("RTRV-PORT-POWER::9:4:;")
    assert '"1,9"' in await terminal.ask("RTRV-PATCH:::5:;")
    assert "COMPLD" in await terminal.ask("RLS-PORT-SHUTTER::1&&16:6:;")
    assert '"9:-1.' in await terminal.ask("RTRV-PORT-POWER::9:7:;")


@in_virtual_time
async def test_the_words_of_shutters_are_the_units_choice(stage: Stage) -> None:
    terminal = await at_terminal(stage, shutter_open="RLS", shutter_closed="OPR")
    await terminal.ask("OPR-PORT-SHUTTER::1:1:;")
    assert '"1:OPR"\r\n   "2:RLS"' in await terminal.ask("RTRV-PORT-SHUTTER::1&2:2:;")


@in_virtual_time
async def test_labels_are_stored(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    await terminal.ask('ED-PORT-LABEL::2:1:::LABEL="to h1, port 3";')
    assert '"2:to h1, port 3"' in await terminal.ask("RTRV-PORT-LABEL::2:2:;")


@in_virtual_time
async def test_a_programme_darkens_a_port_and_lights_it_again(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    await terminal.ask("ENT-PATCH::1,9:1:;")
    stage.light("1A", 0.0)
    assert "COMPLD" in await terminal.ask("ENT-PORT-FLAP::9:2::1000,2000,2;")
    assert '"9:1000,2000,2,SET"' in await terminal.ask("RTRV-PORT-FLAP::9:3:;")
    assert "COMPLD" in await terminal.ask("OPR-PORT-FLAP::9:4:;", within_s=0.001)
    mirror, out = stage.twin.mirror, PortSide.parse("1B")
    seen = []
    for _ in range(5):
        await asyncio.sleep(0.5)
        seen.append(mirror.output(out, stage.clock.monotonic_ns()) is not None)
        await asyncio.sleep(0.5)
    assert seen == [False, True, True, False, True]
    assert '"9:1000,2000,2,SET"' in await terminal.ask("RTRV-PORT-FLAP:::5:;")
    await terminal.ask("OPR-PORT-FLAP::9:6:;", within_s=0.1)
    assert '"9:1000,2000,2,ACTIVE"' in await terminal.ask("RTRV-PORT-FLAP:::7:;", within_s=0.1)
    await terminal.ask("RLS-PORT-FLAP::9:8:;", within_s=0.1)
    assert mirror.output(out, stage.clock.monotonic_ns()) is not None


@in_virtual_time
async def test_loss_of_light_is_reported_to_unmuted_sessions_and_cleared(stage: Stage) -> None:
    one, other = await at_terminal(stage), await at_terminal(stage)
    await other.ask("OPR-ARC-EQPT::REPMGR:1::IND;")
    await one.ask("ENT-PATCH::1,9:1:;")
    stage.light("1A", 0.0, from_now=True)
    assert "COMPLD" in await one.ask("SET-TH-PMON::9:2:::TYPE=LOS,MODE=CONT,LOW=(-25);")
    assert '"9:CONT,LOW,25.0,-25.0"' in await one.ask("RTRV-TH-PMON::9:3:::TYPE=LOS;")
    assert '"9:CONT"' in await one.ask("RTRV-STATE-PMON::9:4:::TYPE=LOS;")
    told = await one.ask("OPR-PORT-SHUTTER::9:5:;")
    assert '** 1 REPT ALM PMON\r\n   "9:MJ,LOS,SA,11-20,' in told
    assert ':\\"dark\\""' in told
    assert '"9:CONT&TRIGGERED"' in await one.ask("RTRV-STATE-PMON::9:6:::TYPE=LOS;")
    assert 'A  2 REPT ALM PMON\r\n   "9:CL,LOS,SA,' in await one.ask("RLS-PORT-SHUTTER::9:7:;")
    assert '"9:CONT"' in await one.ask("RTRV-STATE-PMON::9:8:::TYPE=LOS;")
    assert "REPT" not in other.got.decode()


@in_virtual_time
async def test_a_single_alarm_stays_until_it_is_cleared_by_hand(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    await terminal.ask("ENT-PATCH::1,9:1:;")
    mirror, near = stage.twin.mirror, PortSide.parse("1A")
    mirror.set_input(near, 0.0, stage.clock.monotonic_ns())
    assert "REPT" not in await terminal.ask("SET-TH-PMON::9:2:::TYPE=DEGRADED,MODE=SINGLE,LOW=(-10);")
    mirror.set_input(near, -20.0, stage.clock.monotonic_ns())
    mirror.set_input(near, 0.0, stage.clock.monotonic_ns())
    mirror.set_input(near, -20.0, stage.clock.monotonic_ns())
    assert (told := await terminal.ask("RTRV-STATE-PMON::9:3:::TYPE=DEGRADED;")).count("REPT ALM PMON") == 1
    assert '"9:SINGLE&TRIGGERED"' in told
    mirror.set_input(near, 0.0, stage.clock.monotonic_ns())
    await terminal.ask("SET-STATE-PMON::9:4:::TYPE=DEGRADED;")
    assert '"9:SINGLE"' in await terminal.ask("RTRV-STATE-PMON::9:5:::TYPE=DEGRADED;")
    mirror.set_input(near, -20.0, stage.clock.monotonic_ns())
    assert '"9:SINGLE&TRIGGERED"' in await terminal.ask("RTRV-STATE-PMON::9:6:::TYPE=DEGRADED;")


@in_virtual_time
async def test_attenuators_hold_the_set_power(stage: Stage) -> None:
    stage.model = "polatis-vst"
    terminal = await at_terminal(stage)
    await terminal.ask("ENT-PATCH::1&2,9&10:1:;")
    mirror, near, far = stage.twin.mirror, PortSide.parse("1A"), PortSide.parse("1B")
    mirror.set_input(near, 0.0, stage.clock.monotonic_ns())

    def out_dbm() -> float | None:
        power: float | None = mirror.output(far, stage.clock.monotonic_ns())
        return power

    assert "MODE=RELATIVE" in await terminal.ask("RTRV-EQPT::ATTEN:2:::PARAMETER=CONFIG;")
    assert '"9:NONE,,"' in await terminal.ask("RTRV-PORT-ATTEN::9:3:;")
    assert "COMPLD" in await terminal.ask("SET-PORT-ATTEN::9:4:::MODE=ABS,LEVEL=(-8.0);")
    assert '"9:ABS,-8.0,"' in await terminal.ask("RTRV-PORT-ATTEN::9:5:;")
    assert out_dbm() == pytest.approx(-8.0)
    mirror.set_input(near, -2.0, stage.clock.monotonic_ns())
    assert out_dbm() == pytest.approx(-8.0)
    await terminal.ask("SET-PORT-ATTEN::9:6:::MODE=CONV,LEVEL=(-8.0);")
    mirror.set_input(near, 0.0, stage.clock.monotonic_ns())
    assert out_dbm() == pytest.approx(-6.0)
    await terminal.ask("SET-PORT-ATTEN::9:7:::MODE=FIX;")
    assert out_dbm() == pytest.approx(-6.0)
    await terminal.ask("SET-PORT-ATTEN::9:8:::MODE=REL,LEVEL=(5);")
    assert out_dbm() == pytest.approx(-5.0)
    mirror.set_input(PortSide.parse("2A"), -1.0, stage.clock.monotonic_ns())
    await terminal.ask("SET-PORT-ATTEN::9:9:::MODE=REL,LEVEL=(5),REFS=2;")
    assert '"9:REL,5.0,2"' in await terminal.ask("RTRV-PORT-ATTEN::9:10:;RTRV-PORT-POWER::9:11:;")
    assert out_dbm() == pytest.approx(-6.0)
    await terminal.ask("SET-PORT-ATTEN::9:12:::MODE=MAX;")
    assert (most := out_dbm()) is not None
    assert most < -30
    await terminal.ask("SET-PORT-ATTEN::9:13:::MODE=NONE;")
    assert (least := out_dbm()) is not None
    assert least > -2.7
    assert "IDRG" in await terminal.ask("SET-PORT-ATTEN::9:14:::MODE=ABS;")
    assert "No attenuator at port: 1" in await terminal.ask("SET-PORT-ATTEN::1:15:::MODE=MAX;")


@in_virtual_time
async def test_monitors_may_see_light_that_comes_back(stage: Stage) -> None:
    terminal = await at_terminal(stage, reverse_monitors=True)
    stage.light("2B", -7.0)
    assert '"REVPMON::PORT=9,MODE=OUTPUT"' in await terminal.ask("RTRV-EQPT::REVPMON:1:::PARAMETER=CONFIG;")
    assert '"9:-60.00"\r\n   "10:-7.00"' in await terminal.ask("RTRV-PORT-REVPOWER::9&10:2:;")


@in_virtual_time
async def test_sessions_over_the_limit_are_ended(stage: Stage) -> None:
    first = await at_terminal(stage, sessions_max=1)
    second = await at_terminal(stage, login=False)
    await second.closed.wait()
    assert "COMPLD" in await first.ask("RTRV-HDR:::1:;")


@in_virtual_time
async def test_a_reboot_leaves_the_unit_dark_and_open(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    await terminal.ask("ENT-PATCH::1,9:1:;OPR-PORT-SHUTTER::9:2:;")
    stage.twin.faults.reboot(5)
    await terminal.closed.wait()
    await asyncio.sleep(6)
    again = await at_terminal(stage)
    assert "M  1 COMPLD\r\n;" in await again.ask("RTRV-PATCH:::1:;")
    assert '"9:OPEN"' in await again.ask("RTRV-PORT-SHUTTER::9:2:;")


@in_virtual_time
async def test_a_wrong_answer_is_one_to_something_else(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    stage.twin.faults.wrong_next = True
    assert '"Polatis,N-OST-8x8-LA1-TWIN,OXC,' in await terminal.ask("RTRV-PATCH:::1:;")
    assert "M  2 COMPLD\r\n;" in await terminal.ask("RTRV-PATCH:::2:;")


def power_of(answer: str) -> float:
    """The one power in an answer."""
    return float(answer.rpartition('"9:')[2].split('"')[0])


def test_two_twins_of_one_seed_tell_the_same() -> None:
    told: list[str] = []

    @in_virtual_time
    async def tell(stage: Stage) -> None:
        terminal = await at_terminal(stage)
        stage.light("1A", 0.0)
        await terminal.ask("ENT-PATCH::1,9:1:;", within_s=1)
        power = await terminal.ask("RTRV-PORT-POWER::9:2:;RTRV-INV::OCS:3:;")
        told.append(f"{power} {stage.twin.mirror.loss_db(Crossconnect.parse('1A-1B'))}")

    for _ in range(2):
        tell(stage=Stage("polatis-tl1", "polatis-6000", "8x8", timing="polatis-mfabric"))
    assert told[0] == told[1]


async def test_it_is_served_over_tcp_too() -> None:
    async with Stage("polatis-tl1", "polatis-6000", "8x8", dialer=TcpDialer()) as stage:
        twin = await stage.start()
        reader, writer = await asyncio.open_connection(*stage.address.split(":"))
        writer.write(b"ACT-USER::admin:1::root;\r\nRTRV-HDR:::2:;\r\n")
        assert b"M  1 COMPLD" in await reader.readuntil(b"\n;\r\n")
        assert b"M  2 COMPLD" in await reader.readuntil(b"\n;\r\n")
        await twin.close()
        assert await reader.read() == b""
        writer.close()


@in_virtual_time
async def test_an_unknown_option_of_a_twin_is_refused_by_name(stage: Stage) -> None:
    with pytest.raises(ConfigError, match="twin ocs1: in_us: is an unknown field"):
        stage.make(in_us="deny")


@in_virtual_time
async def test_all_ports_of_a_unit_can_be_read_at_once(stage: Stage) -> None:
    """As published programs do, though most units have monitors at their outputs only."""
    terminal = await at_terminal(stage)
    fitted = [str(port) for port in range(9, 17)]
    for verb in ("RTRV-PORT-POWER", "RTRV-PORT-PMON", "RTRV-TH-PMON", "RTRV-STATE-PMON"):
        heard = await terminal.ask(f"{verb}::1&&16:7:;")
        assert "M  7 COMPLD" in heard
        assert re.findall(r'"(\d+):\S+"', heard) == fitted
    assert "IIAC\r\n   /* Invalid OXC port: 17 */" in await terminal.ask("RTRV-PORT-POWER::1&&17:7:;")
    assert "IIAC\r\n   /* No power monitor at port: 1 */" in await terminal.ask("RTRV-PORT-POWER::1&2:7:;")


@in_virtual_time
async def test_unit_may_refuse_lists_with_ports_that_have_no_monitor(stage: Stage) -> None:
    terminal = await at_terminal(stage, unfitted="deny")
    assert "IIAC\r\n   /* No power monitor at port: 8 */" in await terminal.ask("RTRV-PORT-POWER::9&8:7:;")


@in_virtual_time
async def test_attenuators_of_all_ports_can_be_read_at_once(stage: Stage) -> None:
    stage.model = "polatis-vst"
    terminal = await at_terminal(stage)
    heard = await terminal.ask("RTRV-PORT-ATTEN::1&&16:7:;")
    assert re.findall(r'"(\d+):NONE,,"', heard) == [str(port) for port in range(9, 17)]
    assert '"Polatis,N-VST-8x8-' in await terminal.ask("RTRV-NETYPE:::8:;")


@in_virtual_time
async def test_threshold_without_a_type_is_that_of_light_that_is_lost(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    assert "COMPLD" in await terminal.ask("set-th-pmon::9:7:::mode=single,low=(-25);")
    assert '"9:SINGLE,LOW,25.0,-25.0"' in await terminal.ask("RTRV-TH-PMON::9:7:::TYPE=LOS;")


@in_virtual_time
async def test_flap_times_may_be_joined_as_lists_are(stage: Stage) -> None:
    """One published program sends them so."""
    terminal = await at_terminal(stage)
    assert "COMPLD" in await terminal.ask("ent-port-flap::9:7::10000&500&1:;")
    assert '"9:10000,500,1,SET"' in await terminal.ask("RTRV-PORT-FLAP::9:7:;")


@in_virtual_time
async def test_no_session_gets_reports_before_its_login(stage: Stage) -> None:
    stranger, terminal = await at_terminal(stage, login=False, reports=True), await at_terminal(stage)
    assert "REPT EVT PATCH" in await terminal.ask("ENT-PATCH::1,9:1:;")
    assert stranger.got == b""
    assert "M  1 COMPLD" in await stranger.ask("ACT-USER::admin:1::root;")
    await terminal.ask("DLT-PATCH::ALL:2:;")
    assert "REPT EVT PATCH" in stranger.got.decode()


@in_virtual_time
async def test_all_ports_may_be_called_all(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    everywhere = [str(port) for port in range(1, 17)]
    assert "COMPLD" in await terminal.ask("OPR-PORT-SHUTTER::ALL:1:;")
    for aid in ("ALL", "all", ""):
        heard = await terminal.ask(f"RTRV-PORT-SHUTTER::{aid}:2:;")
        assert re.findall(r'"(\d+):CLOSED"', heard) == everywhere
    assert re.findall(r'"(\d+):\S+"', await terminal.ask("RTRV-PORT-POWER:::3:;")) == everywhere[8:]
    assert "COMPLD" in await terminal.ask("ent-port-flap::ALL:4::1000,2000,2:;")
    assert len(re.findall(r'"\d+:1000,2000,2,SET"', await terminal.ask("rtrv-port-flap::ALL:5::;"))) == 16
    assert "IIAC" in await terminal.ask("OPR-PORT-SHUTTER:::6:;"), "nothing is not all where something is changed"


@in_virtual_time
async def test_terminals_that_send_a_nul_after_each_cr_are_understood(stage: Stage) -> None:
    terminal = await at_terminal(stage)
    assert "M  2 COMPLD" in await terminal.ask("RTRV-HDR:::1:;\r\0RTRV-HDR:::2:;\r\0")
