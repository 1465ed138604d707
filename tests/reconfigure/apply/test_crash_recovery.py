"""What is left open can be given up at any time, whatever else is tried meanwhile."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from hwd.bus.gateway import Gateway
from hwd.daemon.agents import GatewayAgents
from hwd.daemon.installed_drivers import load_text
from hwd.daemon.switch_opener import opener
from hwd.model.bodies import LeaseBody
from hwd.model.daemon import DaemonRecovered, JournalOpen
from hwd.model.plan import Plan
from hwd.model.reconfiguration import ReconfigurationStarted, ReconfigurationState
from hwd.model.testbed import Testbed
from hwd.ports.ledger import Ledger
from hwd.reconfigure.apply.crash_recovery import CrashRecovery
from hwd.reconfigure.apply.journal_writer import JournalWriter
from hwd.reconfigure.apply.switches import Switches
from hwd.reconfigure.journal.journal import Journal
from hwd.reconfigure.transfers import Transfers
from hwd.records.records import Records
from hwd.sim.racks import TRUNKS
from hwd.sim.rank import Rank
from hwd.twin.rack import TwinRack
from hwd_agents.bus.memory import MemoryBroker, MemoryBus
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.core.documents import Document, Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.frames import decode_frames, encode_frame
from hwd_drivers.core.ids import Draws, SeededIds
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices.facts import SwitchUp
from hwd_drivers.devices.supervisor import Supervisor
from hwd_drivers.switching.moves import SwitchMoves
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

from ..conftest import CROSSED, STRAIGHT, Lab, entry_of, of_testbed, plan_of, wanted

SWITCHES = ("ocs1", "ocs2", "ocs3")
SILENT = "testbed: lab\nswitches:\n" + "".join(
    f"  {name}: {{driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {{timing: ideal}}}}\n" for name in SWITCHES
)
ANSWER_S = 20.0
"""So long is a switch waited for that says nothing."""


def moves(switch: str) -> SwitchMoves:
    add = (Crossconnect.parse("1A-3B"),)
    return SwitchMoves(switch=switch, remove=(), add=add, keep=(), before=(), failed=(), lasting=())


def plan(switch: str) -> Plan:
    return plan_of(moves(switch), what=f"one on {switch}")


@asynccontextmanager
async def recovery_of(journal: Journal, told: list[str], *, bug_at: str = "") -> AsyncIterator[CrashRecovery]:
    """With switches that are connected, and answer nothing any more. Whoever is told of `bug_at` raises."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    clock = VirtualClock(loop, wall_start_ns=0)
    dialer = MemoryDialer(MemoryNet())
    testbed = load_text(SILENT, file="lab.yaml").require()
    rack = TwinRack(testbed, dialer=dialer, clock=clock, ids=SeededIds(1), places=lambda name: f"mem:{name}")

    def keep(document: Document) -> None:
        told.append(document.kind)

    def tell(document: Document) -> None:
        id = document.fact.to_data()["reconfiguration"]
        if id == bug_at:
            raise TypeError(f"a bug at {bug_at}")
        told.append(f"{document.kind} {id}")

    open_switch = opener(dialer=dialer, clock=clock, twin_address=(await rack.start()).get, environment={})
    switches = {
        name: Supervisor(
            name=name, open=partial(open_switch, one, keep), clock=clock, sink=keep, draws=Draws(1), answer_s=ANSWER_S
        )
        for name, one in testbed.switches.items()
    }
    runs = [asyncio.create_task(one.run()) for one in switches.values()]
    try:
        for name, switch in switches.items():
            await switch.wait_up()
            rack.switches[name].faults.silent = True
        ledger = Ledger()
        yield CrashRecovery(
            writer=JournalWriter(journal, ledger, clock=clock, emit=Emitter(clock, tell)),
            switches=Switches(switches, clock),
            ledger=ledger,
            transfers=no_transfers(testbed, ledger, clock, tell),
            lit_by=lambda crossconnects, observed: frozenset(one.switch for one in crossconnects),
            clock=clock,
            emit=Emitter(clock, tell),
        )
    finally:
        for run in runs:
            run.cancel()
        await asyncio.wait(runs)
        await rack.close()


def no_transfers(testbed: Testbed, ledger: Ledger, clock: Clock, sink: Sink) -> Transfers:
    """Of a testbed without hosts."""
    bus = MemoryBus(MemoryBroker(), "daemon", clock)
    gateway = Gateway(bus=bus, testbed="lab", hosts=(), clock=clock, ids=SeededIds(1), sink=sink)
    return Transfers(
        ledger,
        testbed,
        store=Records("sqlite://", InlineOffload()).transfers,
        agents=GatewayAgents(gateway),
        clock=clock,
        sink=sink,
        announce=sink,
    )


def journal_of(*switches: str) -> Journal:
    journal = Journal(MemoryDisk())
    for switch in switches:
        journal.begin(entry_of(plan(switch), f"r-{switch}"))
    return journal


async def test_one_that_is_not_tried_now_is_given_up_at_once() -> None:
    loop, told = asyncio.get_running_loop(), list[str]()
    journal = journal_of(*SWITCHES)
    journal.begin(entry_of(plan("ocs1"), "r-next"))
    async with recovery_of(journal, told) as recovery:
        trying = asyncio.create_task(recovery.recover())
        await asyncio.sleep(1.0)
        asked_s = loop.time()
        await recovery.give_up("r-next", by="ada")
        assert loop.time() == asked_s
        await trying
    assert "journal.open r-next" not in told
    assert told.count("journal.open r-ocs1") == told.count("journal.open r-ocs2") == 1


async def test_a_switch_that_says_nothing_keeps_no_way_back_at_another_waiting() -> None:
    loop, told = asyncio.get_running_loop(), list[str]()
    async with recovery_of(journal_of(*SWITCHES), told) as recovery:
        began_s = loop.time()
        await recovery.recover()
        assert ANSWER_S <= loop.time() - began_s < ANSWER_S + 1.0
    assert {f"journal.open r-{switch}" for switch in SWITCHES} <= {*told}


async def test_one_that_is_tried_now_is_given_up_when_that_try_is_over_and_not_those_of_others() -> None:
    loop, told = asyncio.get_running_loop(), list[str]()
    async with recovery_of(journal_of(*SWITCHES), told) as recovery:
        began_s = loop.time()
        trying = asyncio.create_task(recovery.recover())
        await asyncio.sleep(1.0)
        given_up = await recovery.give_up("r-ocs1", by="ada")
        assert ANSWER_S <= loop.time() - began_s < ANSWER_S + 1.0
        assert given_up.left == ["ocs1: nothing"]
        await trying
        assert [one.reconfiguration for one in recovery.left_open()] == ["r-ocs2", "r-ocs3"]


async def test_a_bug_in_one_recovery_does_not_stop_the_others() -> None:
    told = list[str]()
    async with recovery_of(journal_of(*SWITCHES), told, bug_at="r-ocs1") as recovery:
        with pytest.raises(ExceptionGroup) as raised:
            await recovery.recover()
    assert [str(error) for error in raised.value.exceptions] == ["a bug at r-ocs1"]
    assert {kind for kind in told if kind.startswith("journal.open")} == {"journal.open r-ocs2", "journal.open r-ocs3"}


async def test_light_of_ways_back_is_that_of_what_is_left_open_and_not_of_what_is_under_way() -> None:
    journal = journal_of("ocs1")
    async with recovery_of(journal, []) as recovery:
        journal.begin(entry_of(plan("ocs2"), "r-ocs2"))
        assert recovery.light() == {"ocs1"}
        recovery.claim("r-ocs2", frozenset({"ocs2.1"}))
        assert recovery.light() == {"ocs1", "ocs2"}


# --- ports of what a crash cut off


async def cut_off_in(lab: Lab, what: str) -> str:
    """The daemon dies when this is driven and not confirmed yet; returns its id."""
    lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 0.5})
    driving = asyncio.create_task(lab.apply(what))
    await lab.until(ReconfigurationState, state="driving")
    started = lab.emitted(ReconfigurationStarted)[-1]
    await asyncio.sleep(1.0)
    await lab.die(driving)
    lab.set_fault({"fault": "clear"})
    await asyncio.sleep(1.0)
    assert lab.light() >= wanted(what)
    return started.reconfiguration


async def test_nic_ports_whose_light_a_way_back_changes_are_leased_to_nobody_before_it(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B,3A-1B")
    id = await cut_off_in(lab, "ocs1:1A-4B,4A-1B")
    lab.set_fault({"switch": "ocs1", "fault": "refuse"})
    lab.world.start_daemon()
    await asyncio.sleep(10.0)
    (left,) = lab.reconfigurer.recovery.left_open()
    assert left.ports == ["h0.eth0", "h1.eth0", "h1.eth1", "ocs1.1", "ocs1.3", "ocs1.4"], (
        "the switch is away, and the journal has them: light that was there before too"
    )
    for port in left.ports:
        with pytest.raises(RefusedError, match=f"{port}: reconfiguration {id} .* was cut off and is not undone"):
            await lab.service.leases.take(LeaseBody(holder="bob", ports=[port], for_s=600))
    await lab.lease("h0.eth1", holder="bob")

    lab.set_fault({"fault": "clear"})
    await lab.until(DaemonRecovered, reconfiguration=id)
    assert lab.light() == wanted("ocs1:1A-3B,3A-1B")
    await lab.lease("h0.eth0", "h1.eth0", "h1.eth1", holder="eve")


@of_testbed(TRUNKS.text)
async def test_light_behind_a_switch_that_is_unread_may_be_any_until_it_is_read(lab: Lab) -> None:
    await lab.apply(TRUNKS.wanted[0])  # port 1 of both over trunk 5, port 2 over trunk 6
    await cut_off_in(lab, "ocs1:1A-7B,7A-1B")
    for switch in ("ocs1", "ocs2"):
        lab.set_fault({"switch": switch, "fault": "refuse"})
    lab.world.start_daemon()
    await asyncio.sleep(10.0)
    own = ["h0.eth0", "h1.eth0", "ocs1.1", "ocs1.5", "ocs1.7"]
    assert [one.ports for one in lab.reconfigurer.recovery.left_open()] == [sorted([*own, "h0.eth1", "h1.eth1"])]
    lab.world.rack.switches["ocs2"].faults.refusing = False
    await lab.until(SwitchUp, switch="ocs2")
    await asyncio.sleep(1.0)
    assert [one.ports for one in lab.reconfigurer.recovery.left_open()] == [own]


# --- switches that have left the testbed file


def rewrite_journal(lab: Lab, change: Callable[[dict[str, Any]], None]) -> None:
    """Change each entry of the journal of a daemon that is dead."""
    disk = lab.world.journal_disk
    entries = [json.loads(payload) for payload in decode_frames(disk.read().rstrip(b"\0")).payloads]
    for entry in entries:
        change(entry)
    disk.replace(b"".join(encode_frame(json.dumps(entry).encode()) for entry in entries), reserve=16384)
    disk.close()


def also_on_old1(id: str) -> Callable[[dict[str, Any]], None]:
    """The entry of this reconfiguration moves a switch as well that the testbed file does not have."""

    def change(entry: dict[str, Any]) -> None:
        if entry["entry"] == "begin" and entry["reconfiguration"] == id:
            entry["moves"].append({**entry["moves"][0], "switch": "old1"})

    return change


async def test_other_switches_of_an_entry_are_brought_back_where_one_left_the_testbed_file(lab: Lab) -> None:
    await lab.apply(STRAIGHT)
    id = await cut_off_in(lab, CROSSED)
    rewrite_journal(lab, also_on_old1(id))
    await lab.start()
    await asyncio.sleep(10.0)
    assert lab.light() == wanted(STRAIGHT), "ocs1 is brought back"
    (left,) = lab.reconfigurer.recovery.left_open()
    assert left.reconfiguration == id
    assert left.why.startswith("old1: no switch of this testbed file that the daemon drives. Put it back")
    assert [one.why for one in lab.emitted(JournalOpen)][-1] == left.why, "it is told"

    given_up = await lab.in_daemon(lab.reconfigurer.recovery.give_up(id, by="ada"))
    assert given_up.left[-1] == "old1: not read since the daemon began"
    assert (await lab.apply(CROSSED)).outcome == "confirmed"


async def test_a_switch_that_left_the_testbed_file_keeps_no_transfer_from_other_ports(lab: Lab) -> None:
    id = await cut_off_in(lab, "ocs1:1A-3B,3A-1B")
    rewrite_journal(lab, also_on_old1(id))
    await lab.start()
    await asyncio.sleep(10.0)
    assert [one.reconfiguration for one in lab.reconfigurer.recovery.left_open()] == [id]
    rank = await Rank.connect(lab.world, "h0")
    refused = await rank.claim("eth0", within_s=5)
    assert (refused["outcome"], id in refused["why"]) == ("refused", True)
    assert (await rank.claim("eth1", within_s=5))["outcome"] == "go"


async def test_a_switch_that_fails_after_another_one_left_the_testbed_file_is_tried_again(lab: Lab) -> None:
    await lab.apply(STRAIGHT)
    id = await cut_off_in(lab, CROSSED)
    rewrite_journal(lab, also_on_old1(id))
    lab.set_fault({"switch": "ocs1", "fault": "deny", "code": "SROF", "text": "busy"})
    lab.world.start_daemon()
    await lab.until(JournalOpen, reconfiguration=id)
    assert lab.light() == wanted(CROSSED)
    await asyncio.sleep(10.0)
    assert lab.light() == wanted(STRAIGHT)
