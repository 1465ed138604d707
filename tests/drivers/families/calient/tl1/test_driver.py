"""The Calient TL1 driver: the commands that it sends, how it waits for light, and its handling of wrong answers."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from typing_extensions import override

from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import (
    BugError,
    ConfigError,
    DeadlineError,
    DeviceError,
    LoginError,
    ProtocolError,
    RefusedError,
)
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Crossconnect, CrossconnectState, PortSide
from hwd_drivers.devices.abilities import CrossConnects, Device, PowerReadings
from hwd_drivers.devices.registry import NoOptions, OpenContext
from hwd_drivers.families.calient.models import tl1_driver
from hwd_drivers.families.calient.tl1.driver import CalientOptions, CalientSwitch
from hwd_drivers.families.calient.twin import CalientTwin
from hwd_drivers.families.calient.unit import Wish
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual

PORTS = "\r\n".join(f'   "1.1.{n}:WX,NONE,NONE:INAS=IS,OUTAS=IS"' for n in range(1, 9))
OPENING = ('M  # COMPLD\r\n   "lab:lab,2"\r\n   /* NOTICE */', f"M  # COMPLD\r\n{PORTS}")


class Scripted(asyncio.Protocol):
    """A unit that answers each command with the next of its texts; `#` is replaced by the CTAG."""

    def __init__(self, answers: list[str]) -> None:
        self.answers = answers
        self.got: list[str] = []
        self.transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(b"\r\nagent>")

    @override
    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        for text in data.decode().split("\n"):
            if not text:
                continue
            self.got.append(text)
            if self.answers:
                body = self.answers.pop(0).replace("#", text.split(":")[3])
                self.transport.write(f"\r\n\n   CALIENT01TS 26-11-20 10:11:12\r\n{body}\r\n;\r\nagent>".encode())


class World:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.clock = VirtualClock(loop, wall_start_ns=0)
        self.dialer = MemoryDialer(MemoryNet())
        self.capabilities = tl1_driver.capabilities("calient-s160", "8")

    def context(self, options: CalientOptions | None = None, *, user: str | None = "lab") -> OpenContext:
        return OpenContext(
            name="ocs1",
            address="mem:ocs1",
            dialer=self.dialer,
            clock=self.clock,
            sink=self.sink,
            user=user,
            password="geheim",
            options=options or CalientOptions(),
            capabilities=self.capabilities,
        )

    def sink(self, document: Document) -> None:
        raise AssertionError(f"a driver reports nothing by itself: {document}")

    async def scripted(self, *answers: str, opening: tuple[str, ...] = OPENING) -> tuple[Scripted, CalientSwitch]:
        unit = Scripted([*opening, *answers])
        await self.dialer.listen(lambda: unit, "mem:ocs1")
        return unit, await CalientSwitch.open(self.context())

    async def on_twin(
        self, *, timing: str = "ideal", driver: CalientOptions | None = None, **options: str | bool
    ) -> tuple[CalientTwin, CalientSwitch]:
        twin = CalientTwin(
            "tl1",
            name="ocs1",
            capabilities=self.capabilities,
            timing=find_timing(timing),
            draws=Draws(7),
            clock=self.clock,
            dialer=self.dialer,
            address="mem:ocs1",
            options=options,
        )
        await twin.start()
        return twin, await CalientSwitch.open(self.context(driver))

    @property
    def soon(self) -> float:
        return self.loop.time() + 5


def in_world(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    async def main() -> None:
        await test(World())

    return lambda: run_virtual(main())


def pairs(*texts: str) -> list[Crossconnect]:
    return [Crossconnect.parse(text) for text in texts]


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


DONE = "M  # COMPLD"


@in_world
async def test_old_connections_are_deleted_before_new_ones_are_entered(world: World) -> None:
    unit, switch = await world.scripted(
        rows(row(1, 1, group="LAB"), row(2, 2, states="AS=UMA,OS=RDY,OC=OK")),
        *[DONE] * 5,
        rows(row(1, 3, states="AS=IS,OS=RDY,OC=OK")),
        rows(row(1, 3)),
    )
    started_s = world.loop.time()
    told: list[int] = []
    exchange = await switch.change_crossconnects(
        remove=pairs("1A-1B", "2A-2B"), add=pairs("1A-3B"), deadline_s=world.soon, on_commanded=told.append
    )
    assert unit.got[2:] == [
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
    assert exchange.before == tuple(pairs("1A-1B", "2A-2B"))
    assert told == [exchange.commanded_ns]
    assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e9 == pytest.approx(
        world.loop.time() - started_s, abs=0.01
    )
    assert world.loop.time() - started_s == pytest.approx(0.1, abs=0.01), "it looked again after one poll"
    await switch.close()


@in_world
async def test_commands_are_in_flight_together_where_that_is_allowed(world: World) -> None:
    _, switch = await world.on_twin(driver=CalientOptions(in_flight=8))
    all_of_them = pairs("1A-2B", "2A-1B", "3A-3B", "4A-4B")
    exchange = await switch.change_crossconnects(remove=(), add=all_of_them, deadline_s=world.soon)
    assert exchange.commands == 8
    found = await switch.read_crossconnects(deadline_s=world.soon)
    assert [(each.crossconnect, each.state) for each in found] == [
        (pair, CrossconnectState.TUNED) for pair in all_of_them
    ]
    await switch.close()


@in_world
async def test_of_a_change_in_part_only_so_many_pairs_are_made_though_each_has_commands_of_its_own(
    world: World,
) -> None:
    twin, switch = await world.on_twin()
    twin.faults.partial_next = 1
    wanted = pairs("1A-2B", "2A-1B", "3A-3B")
    with pytest.raises(DeviceError, match="2A-1B gone, 3A-3B gone"):
        await switch.change_crossconnects(remove=(), add=wanted, deadline_s=world.soon)
    there = [each.crossconnect for each in await switch.read_crossconnects(deadline_s=world.soon)]
    assert there == wanted[:1] == twin.mirror.crossconnects()
    await switch.change_crossconnects(remove=(), add=wanted[1:], deadline_s=world.soon)
    assert twin.mirror.crossconnects() == wanted, "it was used up"
    await switch.close()
    await twin.close()


@in_world
async def test_it_copes_with_a_unit_of_one_step(world: World) -> None:
    twin, switch = await world.on_twin(steps="one", timing="polatis-opus")
    await switch.change_crossconnects(remove=(), add=pairs("1A-2B"), deadline_s=world.soon)
    assert twin.mirror.passes(pairs("1A-2B")[0], world.clock.monotonic_ns())
    await switch.close()
    await twin.close()


@in_world
async def test_a_denied_activation_that_left_it_dark_is_a_device_error(world: World) -> None:
    _, switch = await world.scripted(
        rows(),
        DONE,
        "M  # DENY\r\n   SROF\r\n   /* no light today */",
        rows(row(1, 2, states="AS=UMA,OS=RDY,OC=OK")),
    )
    with pytest.raises(DeviceError, match=r"ocs1: ACT-CRS 1A-2B: the device answered DENY SROF \(no light today\)"):
        await switch.change_crossconnects(remove=(), add=pairs("1A-2B"), deadline_s=world.soon)
    await switch.close()


@in_world
async def test_nothing_is_activated_after_an_entry_was_denied(world: World) -> None:
    unit, switch = await world.scripted(
        rows(), DONE, "M  # DENY\r\n   SROF\r\n   /* Invalid Connection - Port already in Connection */"
    )
    with pytest.raises(DeviceError, match="Port already in Connection") as denied:
        await switch.change_crossconnects(remove=(), add=pairs("1A-2B", "2A-1B", "3A-3B"), deadline_s=world.soon)
    assert (denied.value.device, denied.value.command, denied.value.code) == ("ocs1", "ENT-CRS 2A-1B", "SROF")
    assert [text.split(":")[0] for text in unit.got[3:]] == ["ENT-CRS", "ENT-CRS"]
    await switch.close()


@in_world
async def test_a_connection_that_stays_failed_is_a_device_error(world: World) -> None:
    twin, switch = await world.on_twin()
    twin.faults.stick([PortSide.parse("1A")])
    started_s = world.loop.time()
    with pytest.raises(DeviceError, match=r"did not do it: 1A-2B AS=IS,OS=OOS,OC=FAIL") as failed:
        await switch.change_crossconnects(remove=(), add=pairs("1A-2B", "2A-1B"), deadline_s=world.soon)
    assert failed.value.code == "OC=FAIL"
    assert world.loop.time() - started_s == pytest.approx(1.0, abs=0.11), "it failed for so long"
    states = {str(each.crossconnect): each.state for each in await switch.read_crossconnects(deadline_s=world.soon)}
    assert states == {"1A-2B": CrossconnectState.FAILED, "2A-1B": CrossconnectState.TUNED}
    twin.faults.clear()
    await switch.change_crossconnects(remove=(), add=pairs("1A-2B"), deadline_s=world.soon)
    assert twin.mirror.passes(pairs("1A-2B")[0], world.clock.monotonic_ns()), "it was made anew"
    await switch.close()
    await twin.close()


@in_world
async def test_one_that_never_settles_is_a_deadline_error_with_its_states(world: World) -> None:
    _, switch = await world.scripted(rows(), DONE, DONE, *[rows(row(1, 2, states="AS=IS,OS=RDY,OC=OK"))] * 40)
    with pytest.raises(
        DeadlineError, match=r"ocs1: ACT-CRS 1A-2B: not in service within 2 s: 1A-2B AS=IS,OS=RDY,OC=OK"
    ):
        await switch.change_crossconnects(remove=(), add=pairs("1A-2B"), deadline_s=world.loop.time() + 2)
    await switch.close()


@in_world
async def test_one_that_is_dropped_while_it_settles_is_a_device_error(world: World) -> None:
    _, switch = await world.scripted(rows(), DONE, DONE, *[rows()] * 20)
    with pytest.raises(DeviceError, match="1A-2B gone"):
        await switch.change_crossconnects(remove=(), add=pairs("1A-2B"), deadline_s=world.soon)
    await switch.close()


@in_world
async def test_half_of_a_connection_of_both_ways_is_refused_before_anything_is_sent(world: World) -> None:
    unit, switch = await world.scripted(rows(row(1, 2, both=True)))
    with pytest.raises(RefusedError, match="Change both"):
        await switch.change_crossconnects(remove=pairs("1A-2B"), add=(), deadline_s=world.soon)
    assert [text.split(":")[0] for text in unit.got[2:]] == ["RTRV-CRS"]
    await switch.close()


@in_world
async def test_a_missing_connection_needs_no_command(world: World) -> None:
    _, switch = await world.scripted(rows())
    exchange = await switch.change_crossconnects(remove=pairs("1A-2B"), add=(), deadline_s=world.soon)
    assert (exchange.commands, exchange.before) == (0, ())
    assert exchange.commanded_ns <= exchange.acknowledged_ns
    await switch.close()


@in_world
async def test_connections_of_an_interrupted_change_are_made_again(world: World) -> None:
    twin, switch = await world.on_twin()
    twin.unit.enter(Wish(source="1.1.1", destination="1.1.2", two_way=False), activate=False)
    (left,) = await switch.read_crossconnects(deadline_s=world.soon)
    assert (str(left.crossconnect), left.state) == ("1A-2B", CrossconnectState.FAILED)
    await switch.change_crossconnects(remove=(), add=pairs("1A-2B"), deadline_s=world.soon)
    (made,) = await switch.read_crossconnects(deadline_s=world.soon)
    assert made.state is CrossconnectState.TUNED
    await switch.close()
    await twin.close()


@in_world
async def test_one_that_is_slow_to_become_active_is_waited_for(world: World) -> None:
    _, switch = await world.scripted(
        rows(), DONE, DONE, *[rows(row(1, 2, states="AS=UMA,OS=RDY,OC=FAIL"))] * 20, rows(row(1, 2))
    )
    exchange = await switch.change_crossconnects(remove=(), add=pairs("1A-2B"), deadline_s=world.soon)
    assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e9 == pytest.approx(2.0, abs=0.1)
    await switch.close()


@in_world
async def test_reports_in_between_do_not_disturb(world: World) -> None:
    twin, switch = await world.on_twin(reports=True, timing="polatis-opus")
    for wanted in (pairs("1A-2B", "2A-1B"), pairs("3A-3B")):
        await switch.change_crossconnects(remove=(), add=wanted, deadline_s=world.soon)
    twin.faults.panel(remove=pairs("3A-3B"), add=())
    found = await switch.read_crossconnects(deadline_s=world.soon)
    assert [str(each.crossconnect) for each in found] == ["1A-2B", "2A-1B"]
    await switch.close()
    await twin.close()


@in_world
async def test_a_session_is_kept_alive(world: World) -> None:
    twin, switch = await world.on_twin()
    await asyncio.sleep(600)
    assert await switch.read_crossconnects(deadline_s=world.soon) == ()
    await switch.close()
    await asyncio.sleep(1)
    assert twin.fronts["tl1"].sessions == 0  # type: ignore[attr-defined]  # of this front
    await twin.close()


@in_world
async def test_without_the_keep_alive_the_unit_ends_the_session(world: World) -> None:
    twin, switch = await world.on_twin(driver=CalientOptions(keep_alive_s=1000))
    lost = asyncio.create_task(switch.lost())
    await asyncio.sleep(61)
    assert lost.done()
    await switch.close()
    await twin.close()


@in_world
async def test_a_second_login_is_no_error(world: World) -> None:
    _, switch = await world.scripted(opening=("M  # DENY\r\n   SNVS\r\n   /* Already logged in */", OPENING[1]))
    await switch.close()


@in_world
async def test_a_wrong_password_is_a_login_error_without_the_password(world: World) -> None:
    with pytest.raises(LoginError, match=r"ocs1: .*login of lab: DENY PIUI") as refused:
        await world.on_twin(user="lab", password="other")
    assert "geheim" not in str(refused.value)


@in_world
async def test_power_is_of_the_in_and_of_the_out_fibre(world: World) -> None:
    unit, switch = await world.scripted(
        'M  # COMPLD\r\n   "1.1.1:ALIAS=NONE,INPWR=-3.4,OUTPWR=NONE"\r\n   "1.1.2:ALIAS=x,INPWR=-60.0,OUTPWR=-5.25"',
        'M  # COMPLD\r\n   "1.1.1:ALIAS=NONE,INPWR=-3.4,OUTPWR=-7.5"',
        'M  # COMPLD\r\n   "1.1.1:ALIAS=NONE,INPWR=-3.4,OUTPWR=-7.5"',
    )
    ends = [PortSide.parse(text) for text in ("1A", "1B", "2A", "2B")]
    found = await switch.read_power(ends, deadline_s=world.soon)
    assert [each.power_dbm for each in found] == [-3.4, None, None, -5.25]
    found = await switch.read_power(ends[:2], deadline_s=world.soon)
    assert [each.power_dbm for each in found] == [-3.4, -7.5]
    assert unit.got[2:] == ["RTRV-PORT-SUM::0:3:;", "RTRV-PORT-SUM::1.1.1:4:;"]
    assert await switch.read_power([], deadline_s=world.soon) == ()
    with pytest.raises(ProtocolError, match=r"ocs1: RTRV-PORT-SUM: no reading of 1\.1\.2, 1\.1\.2 in"):
        await switch.read_power(ends, deadline_s=world.soon)
    await switch.close()


@in_world
async def test_a_port_that_was_not_listed_is_a_protocol_error(world: World) -> None:
    _, switch = await world.scripted(rows(row(1, 9)))
    with pytest.raises(ProtocolError, match=r"ocs1: RTRV-CRS: 1\.1\.1>1\.1\.9 has port 1\.1\.9"):
        await switch.read_crossconnects(deadline_s=world.soon)
    await switch.close()


@in_world
async def test_another_number_of_ports_than_the_testbed_says_is_a_config_error(world: World) -> None:
    world.capabilities = tl1_driver.capabilities("calient-s160", "16")
    _, switch = await world.scripted(OPENING[1])
    with pytest.raises(ConfigError, match="the switch has 8 ports, the testbed says 16"):
        await switch.capabilities(deadline_s=world.soon)
    with pytest.raises(ConfigError, match="port 9A: the switch has ports 1 to 8"):
        await switch.change_crossconnects(remove=(), add=pairs("9A-1B"), deadline_s=world.soon)
    await switch.close()


@in_world
async def test_it_has_the_abilities_of_a_switch_with_monitors(world: World) -> None:
    _, switch = await world.scripted()
    assert isinstance(switch, Device)
    assert isinstance(switch, CrossConnects)
    assert isinstance(switch, PowerReadings)
    with pytest.raises(BugError, match="no crossconnect"):
        await switch.change_crossconnects(remove=(), add=(), deadline_s=world.soon)
    await switch.close()


@in_world
async def test_a_testbed_without_login_or_with_other_options_is_refused(world: World) -> None:
    with pytest.raises(ConfigError, match="needs a login"):
        await CalientSwitch.open(world.context(user=None))
    context = OpenContext(
        name="ocs1",
        address="mem:ocs1",
        dialer=world.dialer,
        clock=world.clock,
        sink=world.sink,
        user="lab",
        password="x",
        options=NoOptions(),
        capabilities=world.capabilities,
    )
    with pytest.raises(BugError, match="not CalientOptions"):
        await CalientSwitch.open(context)
