"""A Polatis unit that answers TL1: exact bytes, its choices where facts run out, its faults, in virtual time."""

import asyncio
import re
from collections.abc import Awaitable, Callable

import pytest
from typing_extensions import override

from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Crossconnect, PortSide
from hwd_drivers.families.polatis.models import tl1_driver as driver
from hwd_drivers.families.polatis.twin import PolatisTwin
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.server import Denial
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual

START_NS = 1_795_169_472 * 1_000_000_000
HEAD = "\r\n\n   PolatisOXC 26-11-20 10:11:12\r\n"


class Terminal(asyncio.Protocol):
    """A client that only looks at bytes."""

    def __init__(self) -> None:
        self.chunks: list[str] = []
        self.closed = asyncio.get_running_loop().create_future()
        self.came = asyncio.Event()
        self.transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self.chunks.append(data.decode())
        self.came.set()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(exc)

    def type(self, text: str) -> None:
        assert self.transport is not None
        self.transport.write(text.encode())

    async def ask(self, text: str, *, wait_s: float = 0.5) -> str:
        """What came within the time after `text` was sent."""
        self.chunks.clear()
        self.type(text)
        await asyncio.sleep(wait_s)
        return "".join(self.chunks)


class World:
    """A started twin of an 8x8 unit, and terminals."""

    def __init__(self, options: dict[str, Json], timing: str, model: str = "polatis-6000") -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = VirtualClock(loop, wall_start_ns=START_NS)
        self.dialer = MemoryDialer(MemoryNet())
        self.loop = loop
        self.twin = PolatisTwin(
            "tl1",
            name="ocs1",
            capabilities=driver.capabilities(model, "8x8"),
            timing=find_timing(timing),
            draws=Draws(7),
            clock=self.clock,
            dialer=self.dialer,
            address="mem:ocs1",
            options=options,
        )

    async def terminal(self, *, login: bool = True) -> Terminal:
        _, terminal = await self.dialer.connect(Terminal, "mem:ocs1")
        if login:
            terminal.type("ACT-USER::admin:1::root;")
            await terminal.came.wait()
            terminal.came.clear()
            terminal.chunks.clear()
        return terminal


def in_world(
    timing: str = "ideal", model: str = "polatis-6000", **options: Json
) -> Callable[[Callable[[World], Awaitable[None]]], Callable[[], None]]:
    def wrap(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
        async def main() -> None:
            world = World(options, timing, model)
            await world.twin.start()
            try:
                await test(world)
            finally:
                await world.twin.close()

        def run() -> None:
            run_virtual(main())

        return run

    return wrap


@in_world()
async def test_a_command_whose_tag_is_too_long_is_denied_and_not_done(world: World) -> None:
    terminal = await world.terminal()
    heard = await terminal.ask("ENT-PATCH::1,9:1234567:;")
    assert (
        "M  0 DENY\r\n   IICT\r\n   /* TL1 command ENT-PATCH: CTAG '1234567' is not 1 to 6 letters and digits */"
        in heard
    )
    assert world.twin.unit.pairs() == []
    assert "M  123456 COMPLD" in await terminal.ask("ENT-PATCH::1,9:123456:;")


@in_world()
async def test_answers_have_the_bytes_that_known_clients_parse(world: World) -> None:
    terminal = await world.terminal()
    terminal.type("ENT-PATCH::1&2,9&10:123:;\n")
    await asyncio.sleep(0.1)
    assert terminal.chunks == [f"{HEAD}M  123 COMPLD\r\n;\r\n"]
    terminal.chunks.clear()
    terminal.type("RTRV-PATCH:::124:;\n")
    await asyncio.sleep(0.1)
    assert terminal.chunks == [f'{HEAD}M  124 COMPLD\r\n   "1,9"\r\n   "2,10"\r\n;\r\n']
    terminal.chunks.clear()
    terminal.type("ENT-PATCH::1,99:5:;\n")
    await asyncio.sleep(0.1)
    assert terminal.chunks == [f"{HEAD}M  5 DENY\r\n   IIAC\r\n   /* Invalid OXC port: 99 */\r\n;\r\n"]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
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
    ],
)
def test_commands_are_answered(text: str, answer: str) -> None:
    @in_world()
    async def story(world: World) -> None:
        terminal = await world.terminal()
        assert answer in await terminal.ask(text)

    story()


@in_world()
async def test_a_list_with_one_wrong_port_does_nothing(world: World) -> None:
    terminal = await world.terminal()
    assert "DENY" in await terminal.ask("ENT-PATCH::1&2,9&17:1:;")
    assert '"' not in await terminal.ask("RTRV-PATCH:::2:;")


@in_world()
async def test_ports_in_use_move_and_either_end_deletes(world: World) -> None:
    terminal = await world.terminal()
    await terminal.ask("ENT-PATCH::1&2,9&10:1:;ENT-PATCH::10,1:2:;")
    assert '"1,10"' in (patches := await terminal.ask("RTRV-PATCH::ALL:3:;"))
    assert patches.count('"') == 2
    await terminal.ask("DLT-PATCH::10:4:;")
    assert '"' not in await terminal.ask("RTRV-PATCH:::5:;")


@in_world(in_use="deny")
async def test_ports_in_use_are_denied_where_the_unit_does_not_move(world: World) -> None:
    terminal = await world.terminal()
    await terminal.ask("ENT-PATCH::1,9:1:;")
    assert "SROF" in await terminal.ask("ENT-PATCH::1,10:2:;")


@in_world(duplicates="last")
async def test_a_port_twice_in_a_list_has_the_last_pair_where_units_are_like_that(world: World) -> None:
    terminal = await world.terminal()
    assert "M  1 COMPLD" in await terminal.ask("ENT-PATCH::1&1&2,9&10&11:1:;")
    assert 'COMPLD\r\n   "1,10"\r\n   "2,11"\r\n;' in await terminal.ask("RTRV-PATCH:::2:;")


@in_world(lists="in-turn")
async def test_a_list_is_done_up_to_the_wrong_pair_by_option(world: World) -> None:
    terminal = await world.terminal()
    assert "Invalid OXC port: 17" in await terminal.ask("ENT-PATCH::1&2&3,9&17&11:1:;")
    assert 'COMPLD\r\n   "1,9"\r\n;' in await terminal.ask("RTRV-PATCH:::2:;")


@in_world(order="lower-first", list_code="IPNV")
async def test_order_and_the_code_for_lists_are_the_units_choice(world: World) -> None:
    terminal = await world.terminal()
    assert "IIAC\r\n   /* Port 1 has to stand before port 9 */" in await terminal.ask("ENT-PATCH::9,1:1:;")
    assert "COMPLD" in await terminal.ask("ENT-PATCH::1,9:2:;")
    assert "IPNV\r\n   /* Port lists differ in length: 2 and 1 */" in await terminal.ask("ENT-PATCH::1&2,9:3:;")
    assert "IPNV\r\n   /* Port 1 stands twice in the list */" in await terminal.ask("ENT-PATCH::1&1,9&10:4:;")


@in_world(user="admin", password="root")
async def test_nothing_is_answered_before_a_good_login(world: World) -> None:
    terminal = await world.terminal(login=False)
    assert "PLNA" in await terminal.ask("RTRV-PATCH:::1:;")
    assert "M  2 DENY\r\n   PICC\r\n;\r\n" in await terminal.ask("ACT-USER::admin:2::wrong;")
    assert "M  3 COMPLD" in await terminal.ask("ACT-USER::admin:3::root;")
    assert "M  4 COMPLD" in await terminal.ask("RTRV-PATCH:::4:;")
    assert "PLNA" in await terminal.ask("CANC-USER::admin:5:;RTRV-PATCH:::6:;")


@in_world(logins="usual")
async def test_usual_logins_are_those_of_real_units(world: World) -> None:
    terminal = await world.terminal(login=False)
    for user, password in (("admin", "wrong"), ("root", "admin"), ("other", "root")):
        assert "M  1 DENY\r\n   PICC\r\n;\r\n" in await terminal.ask(f"ACT-USER::{user}:1::{password};")
    assert "PLNA" in await terminal.ask("RTRV-PATCH:::2:;")
    for user in ("admin", "root"):
        assert "M  3 COMPLD" in await terminal.ask(f"ACT-USER::{user}:3::root;")


@in_world("polatis-opus")
async def test_optical_time_and_answer_time_are_apart(world: World) -> None:
    terminal = await world.terminal()
    world.twin.mirror.set_input(PortSide.parse("1A"), 0.0)
    tuned_s: list[float] = []
    started_s = world.loop.time()
    world.twin.mirror.on_change.append(lambda now_ns: tuned_s.append(now_ns / 1e9 - started_s))
    terminal.type("ENT-PATCH::1,9:1:;")
    await terminal.came.wait()
    assert 0.19 <= world.loop.time() - started_s <= 0.21
    assert len(tuned_s) == 2
    assert tuned_s[0] == 0
    assert 0.02 <= tuned_s[1] <= 0.095
    assert "9:-1." in await terminal.ask("RTRV-PORT-POWER::9:2:;")


@in_world("polatis-opus", answer="at-once")
async def test_a_unit_may_answer_before_it_has_settled(world: World) -> None:
    terminal = await world.terminal()
    assert "COMPLD" in await terminal.ask("ENT-PATCH::1,9:1:;", wait_s=0.001)
    assert world.twin.mirror.next_ns() is not None


@in_world()
async def test_a_slow_answer_is_acknowledged_after_two_seconds(world: World) -> None:
    terminal = await world.terminal()
    world.twin.faults.slow_s = 3.0
    assert await terminal.ask("RTRV-PATCH:::8:;", wait_s=2.5) == "\r\nIP 8\r\n<"
    assert "M  8 COMPLD" in await terminal.ask("", wait_s=1.0)


@in_world(lines_per_block=1)
async def test_long_answers_are_cut_in_blocks_where_asked_for(world: World) -> None:
    terminal = await world.terminal()
    await terminal.ask("ENT-PATCH::1&2,9&10:1:;")
    text = await terminal.ask("RTRV-PATCH:::2:;")
    assert text.count("M  2 COMPLD") == 2
    assert text.count(">\r\n") == 1


@in_world(reports=True)
async def test_changes_are_reported_to_sessions_that_have_not_muted_them(world: World) -> None:
    one, other = await world.terminal(), await world.terminal()
    await one.ask("OPR-ARC-EQPT::REPMGR:1::IND;")
    assert "REPT" not in await one.ask("ENT-PATCH::1,9:2:;")
    assert 'A  1 REPT EVT PATCH\r\n   "1:NA,TUNED,NSA,,,,,:\\"1,9\\""\r\n;\r\n' in "".join(other.chunks)


@in_world()
async def test_a_denial_is_for_the_next_change_only(world: World) -> None:
    terminal = await world.terminal()
    world.twin.faults.deny_next = Denial(code="SROF", text="mirror drive fault")
    assert "M  1 COMPLD" in await terminal.ask("RTRV-PATCH:::1:;")
    assert "SROF\r\n   /* mirror drive fault */" in await terminal.ask("ENT-PATCH::1,9:2:;")
    assert "M  3 COMPLD" in await terminal.ask("ENT-PATCH::1,9:3:;")


@in_world()
async def test_a_silent_unit_does_and_does_not_tell(world: World) -> None:
    terminal = await world.terminal()
    world.twin.faults.silent = True
    assert await terminal.ask("ENT-PATCH::1,9:1:;") == ""
    world.twin.faults.clear()
    assert '"1,9"' in await terminal.ask("RTRV-PATCH:::2:;")


@in_world()
async def test_a_stuck_mirror_is_answered_and_not_moved(world: World) -> None:
    terminal = await world.terminal()
    world.twin.faults.stick([PortSide.parse("1A")])
    assert "COMPLD" in await terminal.ask("ENT-PATCH::1,9:1:;")
    assert '"' not in await terminal.ask("RTRV-PATCH:::2:;")


@in_world()
async def test_a_reset_and_a_refusal_end_sessions(world: World) -> None:
    terminal = await world.terminal()
    world.twin.faults.reset()
    await terminal.closed
    world.twin.faults.refusing = True
    refused = await world.terminal(login=False)
    await refused.closed


@in_world()
async def test_a_session_that_is_idle_too_long_is_ended(world: World) -> None:
    terminal = await world.terminal()
    await terminal.ask("ED-EQPT::TIMEOUT:1:::ADMIN=10;")
    await terminal.ask("RTRV-HDR:::2:;", wait_s=9)
    assert not terminal.closed.done()
    await asyncio.sleep(1.1)
    assert terminal.closed.done()


@in_world()
async def test_endless_bytes_end_the_session_and_not_the_twin(world: World) -> None:
    terminal = await world.terminal()
    terminal.type("x" * 70_000)
    await terminal.closed
    assert "COMPLD" in await (await world.terminal()).ask("RTRV-HDR:::1:;")


@in_world()
async def test_monitors_average_over_the_time_of_their_code(world: World) -> None:
    """Light of 0.5 mW for half of the 100 ms of code 4 reads half of it; code 1 is 10 ms."""
    terminal = await world.terminal()
    await terminal.ask("ENT-PATCH::1,9:1:;")
    await terminal.ask("SET-PORT-PMON::9:2:::OFFSET=10;")
    lit_dbm = -3.0
    world.twin.mirror.set_input(PortSide.parse("1A"), lit_dbm, world.clock.monotonic_ns())
    await asyncio.sleep(0.05)
    half = power_of(await terminal.ask("RTRV-PORT-POWER::9:3:;", wait_s=0.0001))
    whole = power_of(await terminal.ask("SET-PORT-PMON::9:4:::ATIME=1;RTRV-PORT-POWER::9:5:;", wait_s=0.0001))
    assert whole - half == pytest.approx(3.0, abs=0.2)
    assert '"9:1550,10.0,1"' in await terminal.ask("RTRV-PORT-PMON::9:6:;")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
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
    ],
)
def test_parts_of_ports_are_checked(text: str, answer: str) -> None:
    @in_world()
    async def story(world: World) -> None:
        assert answer in await (await world.terminal()).ask(text)

    story()


@in_world()
async def test_a_closed_shutter_is_dark_and_keeps_its_crossconnect(world: World) -> None:
    terminal = await world.terminal()
    await terminal.ask("ENT-PATCH::1,9:1:;")
    world.twin.mirror.set_input(PortSide.parse("1A"), 0.0)
    assert "COMPLD" in await terminal.ask("OPR-PORT-SHUTTER::9:2:;")
    assert '"8:OPEN"\r\n   "9:CLOSED"' in await terminal.ask("RTRV-PORT-SHUTTER::8&9:3:;")
    assert '"9:-60.00"' in await terminal.ask("RTRV-PORT-POWER::9:4:;")
    assert '"1,9"' in await terminal.ask("RTRV-PATCH:::5:;")
    assert "COMPLD" in await terminal.ask("RLS-PORT-SHUTTER::1&&16:6:;")
    assert '"9:-1.' in await terminal.ask("RTRV-PORT-POWER::9:7:;")


@in_world(shutter_open="RLS", shutter_closed="OPR")
async def test_the_words_of_shutters_are_the_units_choice(world: World) -> None:
    terminal = await world.terminal()
    await terminal.ask("OPR-PORT-SHUTTER::1:1:;")
    assert '"1:OPR"\r\n   "2:RLS"' in await terminal.ask("RTRV-PORT-SHUTTER::1&2:2:;")


@in_world()
async def test_labels_are_stored(world: World) -> None:
    terminal = await world.terminal()
    await terminal.ask('ED-PORT-LABEL::2:1:::LABEL="to h1, port 3";')
    assert '"2:to h1, port 3"' in await terminal.ask("RTRV-PORT-LABEL::2:2:;")


@in_world()
async def test_a_programme_darkens_a_port_and_lights_it_again(world: World) -> None:
    terminal = await world.terminal()
    await terminal.ask("ENT-PATCH::1,9:1:;")
    world.twin.mirror.set_input(PortSide.parse("1A"), 0.0)
    assert "COMPLD" in await terminal.ask("ENT-PORT-FLAP::9:2::1000,2000,2;")
    assert '"9:1000,2000,2,SET"' in await terminal.ask("RTRV-PORT-FLAP::9:3:;")
    assert "COMPLD" in await terminal.ask("OPR-PORT-FLAP::9:4:;", wait_s=0.001)
    mirror, out = world.twin.mirror, PortSide.parse("1B")
    seen = []
    for _ in range(5):
        await asyncio.sleep(0.5)
        seen.append(mirror.output(out, world.clock.monotonic_ns()) is not None)
        await asyncio.sleep(0.5)
    assert seen == [False, True, True, False, True]
    assert '"9:1000,2000,2,SET"' in await terminal.ask("RTRV-PORT-FLAP:::5:;")
    await terminal.ask("OPR-PORT-FLAP::9:6:;", wait_s=0.1)
    assert '"9:1000,2000,2,ACTIVE"' in await terminal.ask("RTRV-PORT-FLAP:::7:;", wait_s=0.1)
    await terminal.ask("RLS-PORT-FLAP::9:8:;", wait_s=0.1)
    assert mirror.output(out, world.clock.monotonic_ns()) is not None


@in_world()
async def test_loss_of_light_is_reported_to_unmuted_sessions_and_cleared(world: World) -> None:
    one, other = await world.terminal(), await world.terminal()
    await other.ask("OPR-ARC-EQPT::REPMGR:1::IND;")
    await one.ask("ENT-PATCH::1,9:1:;")
    world.twin.mirror.set_input(PortSide.parse("1A"), 0.0, world.clock.monotonic_ns())
    assert "COMPLD" in await one.ask("SET-TH-PMON::9:2:::TYPE=LOS,MODE=CONT,LOW=(-25);")
    assert '"9:CONT,LOW,25.0,-25.0"' in await one.ask("RTRV-TH-PMON::9:3:::TYPE=LOS;")
    assert '"9:CONT"' in await one.ask("RTRV-STATE-PMON::9:4:::TYPE=LOS;")
    told = await one.ask("OPR-PORT-SHUTTER::9:5:;")
    assert '** 1 REPT ALM PMON\r\n   "9:MJ,LOS,SA,11-20,' in told
    assert ':\\"dark\\""' in told
    assert '"9:CONT&TRIGGERED"' in await one.ask("RTRV-STATE-PMON::9:6:::TYPE=LOS;")
    assert 'A  2 REPT ALM PMON\r\n   "9:CL,LOS,SA,' in await one.ask("RLS-PORT-SHUTTER::9:7:;")
    assert '"9:CONT"' in await one.ask("RTRV-STATE-PMON::9:8:::TYPE=LOS;")
    assert "REPT" not in "".join(other.chunks)


@in_world()
async def test_a_single_alarm_stays_until_it_is_cleared_by_hand(world: World) -> None:
    terminal = await world.terminal()
    await terminal.ask("ENT-PATCH::1,9:1:;")
    mirror, near = world.twin.mirror, PortSide.parse("1A")
    mirror.set_input(near, 0.0, world.clock.monotonic_ns())
    assert "REPT" not in await terminal.ask("SET-TH-PMON::9:2:::TYPE=DEGRADED,MODE=SINGLE,LOW=(-10);")
    mirror.set_input(near, -20.0, world.clock.monotonic_ns())
    mirror.set_input(near, 0.0, world.clock.monotonic_ns())
    mirror.set_input(near, -20.0, world.clock.monotonic_ns())
    assert (told := await terminal.ask("RTRV-STATE-PMON::9:3:::TYPE=DEGRADED;")).count("REPT ALM PMON") == 1
    assert '"9:SINGLE&TRIGGERED"' in told
    mirror.set_input(near, 0.0, world.clock.monotonic_ns())
    await terminal.ask("SET-STATE-PMON::9:4:::TYPE=DEGRADED;")
    assert '"9:SINGLE"' in await terminal.ask("RTRV-STATE-PMON::9:5:::TYPE=DEGRADED;")
    mirror.set_input(near, -20.0, world.clock.monotonic_ns())
    assert '"9:SINGLE&TRIGGERED"' in await terminal.ask("RTRV-STATE-PMON::9:6:::TYPE=DEGRADED;")


@in_world(model="polatis-vst")
async def test_attenuators_hold_the_set_power(world: World) -> None:
    terminal = await world.terminal()
    await terminal.ask("ENT-PATCH::1&2,9&10:1:;")
    mirror, near, far = world.twin.mirror, PortSide.parse("1A"), PortSide.parse("1B")
    mirror.set_input(near, 0.0, world.clock.monotonic_ns())

    def out_dbm() -> float | None:
        return mirror.output(far, world.clock.monotonic_ns())

    assert "MODE=RELATIVE" in await terminal.ask("RTRV-EQPT::ATTEN:2:::PARAMETER=CONFIG;")
    assert '"9:NONE,,"' in await terminal.ask("RTRV-PORT-ATTEN::9:3:;")
    assert "COMPLD" in await terminal.ask("SET-PORT-ATTEN::9:4:::MODE=ABS,LEVEL=(-8.0);")
    assert '"9:ABS,-8.0,"' in await terminal.ask("RTRV-PORT-ATTEN::9:5:;")
    assert out_dbm() == pytest.approx(-8.0)
    mirror.set_input(near, -2.0, world.clock.monotonic_ns())
    assert out_dbm() == pytest.approx(-8.0)
    await terminal.ask("SET-PORT-ATTEN::9:6:::MODE=CONV,LEVEL=(-8.0);")
    mirror.set_input(near, 0.0, world.clock.monotonic_ns())
    assert out_dbm() == pytest.approx(-6.0)
    await terminal.ask("SET-PORT-ATTEN::9:7:::MODE=FIX;")
    assert out_dbm() == pytest.approx(-6.0)
    await terminal.ask("SET-PORT-ATTEN::9:8:::MODE=REL,LEVEL=(5);")
    assert out_dbm() == pytest.approx(-5.0)
    mirror.set_input(PortSide.parse("2A"), -1.0, world.clock.monotonic_ns())
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


@in_world(reverse_monitors=True)
async def test_monitors_may_see_light_that_comes_back(world: World) -> None:
    terminal = await world.terminal()
    world.twin.mirror.set_input(PortSide.parse("2B"), -7.0)
    assert '"REVPMON::PORT=9,MODE=OUTPUT"' in await terminal.ask("RTRV-EQPT::REVPMON:1:::PARAMETER=CONFIG;")
    assert '"9:-60.00"\r\n   "10:-7.00"' in await terminal.ask("RTRV-PORT-REVPOWER::9&10:2:;")


@in_world(sessions_max=1)
async def test_sessions_over_the_limit_are_ended(world: World) -> None:
    first = await world.terminal()
    second = await world.terminal(login=False)
    await second.closed
    assert "COMPLD" in await first.ask("RTRV-HDR:::1:;")


@in_world()
async def test_a_reboot_leaves_the_unit_dark_and_open(world: World) -> None:
    terminal = await world.terminal()
    await terminal.ask("ENT-PATCH::1,9:1:;OPR-PORT-SHUTTER::9:2:;")
    world.twin.faults.reboot(5)
    await terminal.closed
    await asyncio.sleep(6)
    again = await world.terminal()
    assert "M  1 COMPLD\r\n;" in await again.ask("RTRV-PATCH:::1:;")
    assert '"9:OPEN"' in await again.ask("RTRV-PORT-SHUTTER::9:2:;")


@in_world()
async def test_a_wrong_answer_is_one_to_something_else(world: World) -> None:
    terminal = await world.terminal()
    world.twin.faults.wrong_next = True
    assert '"Polatis,N-OST-8x8-LA1-TWIN,OXC,' in await terminal.ask("RTRV-PATCH:::1:;")
    assert "M  2 COMPLD\r\n;" in await terminal.ask("RTRV-PATCH:::2:;")


def power_of(answer: str) -> float:
    """The one power in an answer."""
    return float(answer.rpartition('"9:')[2].split('"')[0])


def test_two_twins_of_one_seed_tell_the_same() -> None:
    told: list[str] = []

    @in_world("polatis-mfabric")
    async def story(world: World) -> None:
        terminal = await world.terminal()
        world.twin.mirror.set_input(PortSide.parse("1A"), 0.0)
        terminal.type("ENT-PATCH::1,9:1:;")
        await asyncio.sleep(1)
        power = await terminal.ask("RTRV-PORT-POWER::9:2:;RTRV-INV::OCS:3:;")
        told.append(f"{power} {world.twin.mirror.loss_db(Crossconnect.parse('1A-1B'))}")

    story()
    story()
    assert told[0] == told[1]


async def test_it_is_served_over_tcp_too() -> None:
    twin = PolatisTwin(
        "tl1",
        name="ocs1",
        capabilities=driver.capabilities("polatis-6000", "8x8"),
        timing=find_timing("ideal"),
        draws=Draws(7),
        clock=SystemClock(),
        dialer=TcpDialer(),
        address="127.0.0.1:0",
        options={},
    )
    reader, writer = await asyncio.open_connection(*(await twin.start()).split(":"))
    writer.write(b"ACT-USER::admin:1::root;\r\nRTRV-HDR:::2:;\r\n")
    assert b"M  1 COMPLD" in await reader.readuntil(b"\n;\r\n")
    assert b"M  2 COMPLD" in await reader.readuntil(b"\n;\r\n")
    await twin.close()
    assert await reader.read() == b""
    writer.close()


def test_an_unknown_option_of_a_twin_is_refused_by_name() -> None:
    async def main() -> None:
        with pytest.raises(ConfigError, match="twin ocs1: in_us: is an unknown field"):
            World({"in_us": "deny"}, "ideal")

    run_virtual(main())


@in_world()
async def test_all_ports_of_a_unit_can_be_read_at_once(world: World) -> None:
    """As published programs do, though most units have monitors at their outputs only."""
    terminal = await world.terminal()
    fitted = [str(port) for port in range(9, 17)]
    for verb in ("RTRV-PORT-POWER", "RTRV-PORT-PMON", "RTRV-TH-PMON", "RTRV-STATE-PMON"):
        heard = await terminal.ask(f"{verb}::1&&16:7:;")
        assert "M  7 COMPLD" in heard
        assert re.findall(r'"(\d+):\S+"', heard) == fitted
    assert "IIAC\r\n   /* Invalid OXC port: 17 */" in await terminal.ask("RTRV-PORT-POWER::1&&17:7:;")
    assert "IIAC\r\n   /* No power monitor at port: 1 */" in await terminal.ask("RTRV-PORT-POWER::1&2:7:;")


@in_world(unfitted="deny")
async def test_unit_may_refuse_lists_with_ports_that_have_no_monitor(world: World) -> None:
    terminal = await world.terminal()
    assert "IIAC\r\n   /* No power monitor at port: 8 */" in await terminal.ask("RTRV-PORT-POWER::9&8:7:;")


@in_world(model="polatis-vst")
async def test_attenuators_of_all_ports_can_be_read_at_once(world: World) -> None:
    terminal = await world.terminal()
    heard = await terminal.ask("RTRV-PORT-ATTEN::1&&16:7:;")
    assert re.findall(r'"(\d+):NONE,,"', heard) == [str(port) for port in range(9, 17)]
    assert '"Polatis,N-VST-8x8-' in await terminal.ask("RTRV-NETYPE:::8:;")


@in_world()
async def test_threshold_without_a_type_is_that_of_light_that_is_lost(world: World) -> None:
    terminal = await world.terminal()
    assert "COMPLD" in await terminal.ask("set-th-pmon::9:7:::mode=single,low=(-25);")
    assert '"9:SINGLE,LOW,25.0,-25.0"' in await terminal.ask("RTRV-TH-PMON::9:7:::TYPE=LOS;")


@in_world()
async def test_flap_times_may_be_joined_as_lists_are(world: World) -> None:
    """One published program sends them so."""
    terminal = await world.terminal()
    assert "COMPLD" in await terminal.ask("ent-port-flap::9:7::10000&500&1:;")
    assert '"9:10000,500,1,SET"' in await terminal.ask("RTRV-PORT-FLAP::9:7:;")


@in_world(reports=True)
async def test_no_session_gets_reports_before_its_login(world: World) -> None:
    stranger, terminal = await world.terminal(login=False), await world.terminal()
    assert "REPT EVT PATCH" in await terminal.ask("ENT-PATCH::1,9:1:;")
    assert stranger.chunks == []
    assert "M  1 COMPLD" in await stranger.ask("ACT-USER::admin:1::root;")
    await terminal.ask("DLT-PATCH::ALL:2:;")
    assert "REPT EVT PATCH" in "".join(stranger.chunks)


@in_world()
async def test_all_ports_may_be_called_all(world: World) -> None:
    terminal = await world.terminal()
    everywhere = [str(port) for port in range(1, 17)]
    assert "COMPLD" in await terminal.ask("OPR-PORT-SHUTTER::ALL:1:;")
    for aid in ("ALL", "all", ""):
        heard = await terminal.ask(f"RTRV-PORT-SHUTTER::{aid}:2:;")
        assert re.findall(r'"(\d+):CLOSED"', heard) == everywhere
    assert re.findall(r'"(\d+):\S+"', await terminal.ask("RTRV-PORT-POWER:::3:;")) == everywhere[8:]
    assert "COMPLD" in await terminal.ask("ent-port-flap::ALL:4::1000,2000,2:;")
    assert len(re.findall(r'"\d+:1000,2000,2,SET"', await terminal.ask("rtrv-port-flap::ALL:5::;"))) == 16
    assert "IIAC" in await terminal.ask("OPR-PORT-SHUTTER:::6:;"), "nothing is not all where something is changed"


@in_world()
async def test_terminals_that_send_a_nul_after_each_cr_are_understood(world: World) -> None:
    terminal = await world.terminal()
    assert "M  2 COMPLD" in await terminal.ask("RTRV-HDR:::1:;\r\0RTRV-HDR:::2:;\r\0")
