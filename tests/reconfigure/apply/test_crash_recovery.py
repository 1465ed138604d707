"""What is left open can be given up at any time, whatever else is tried meanwhile."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hwd.bus.gateway import Gateway
from hwd.daemon.agents import GatewayAgents
from hwd.daemon.installed_drivers import load_text
from hwd.model.documents.daemon import DaemonRecovered, JournalOpen
from hwd.model.documents.reconfigurations import ReconfigurationStarted, ReconfigurationState
from hwd.model.plan import Plan
from hwd.ports.ledger import Ledger
from hwd.reconfigure.apply.crash_recovery import CrashRecovery
from hwd.reconfigure.apply.switches import Switches
from hwd.reconfigure.journal.journal import Journal
from hwd.reconfigure.transfers import Transfers
from hwd.records.records import Records
from hwd.sim.racks import TRUNKS
from hwd.sim.rank import Rank
from hwd.sim.world import DAEMON
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
from hwd_drivers.devices import registry
from hwd_drivers.devices.facts import SwitchUp
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.devices.supervisor import Supervisor
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.registry import twin_of
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual

from ..conftest import CROSSED, STRAIGHT, Lab, RunLab
from .test_confirm_over_restarts import apply, light, wanted

SWITCHES = ("ocs1", "ocs2", "ocs3")
ANSWER_S = 20.0
"""So long is a switch waited for that says nothing."""


def moves(switch: str) -> SwitchMoves:
    add = (Crossconnect.parse("1A-3B"),)
    return SwitchMoves(switch=switch, remove=(), add=add, keep=(), before=(), failed=(), lasting=())


def plan(switch: str) -> Plan:
    return Plan(
        what=f"one on {switch}",
        mode=ApplyMode.UPDATE,
        moves=(moves(switch),),
        links=(),
        dark=(),
        touches=frozenset(),
        expected_s=0.0,
        expected_from="nothing",
        warnings=(),
        lease=None,
        ready_within_s=None,
        confirm_within_s=None,
    )


@asynccontextmanager
async def recovery_of(journal: Journal, told: list[str], *, bug_at: str = "") -> AsyncIterator[CrashRecovery]:
    """With switches that are connected, and answer nothing any more. Whoever is told of `bug_at` raises."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    clock = VirtualClock(loop, wall_start_ns=0)
    dialer = MemoryDialer(MemoryNet())
    spec = registry.find("polatis-tl1")
    capabilities = spec.capabilities("polatis-6000", "8x8")

    def keep(document: Document) -> None:
        told.append(document.kind)

    def tell(document: Document) -> None:
        id = document.fact.to_data()["reconfiguration"]
        if id == bug_at:
            raise TypeError(f"a bug at {bug_at}")
        told.append(f"{document.kind} {id}")

    def supervised(name: str, address: str) -> Supervisor:
        context = OpenContext(
            name=name,
            address=address,
            dialer=dialer,
            clock=clock,
            sink=keep,
            user="bench",
            password="bench",
            options=spec.options(),
            capabilities=capabilities,
        )
        return Supervisor(
            name=name, open=lambda: spec.open(context), clock=clock, sink=keep, draws=Draws(1), answer_s=ANSWER_S
        )

    twins = [
        twin_of(spec).make(
            name=name,
            capabilities=capabilities,
            timing=find_timing("ideal"),
            draws=Draws(1),
            clock=clock,
            dialer=dialer,
            address="mem:",
            options={},
        )
        for name in SWITCHES
    ]
    switches = {name: supervised(name, await twin.start()) for name, twin in zip(SWITCHES, twins, strict=True)}
    runs = [asyncio.create_task(one.run()) for one in switches.values()]
    try:
        for switch, twin in zip(switches.values(), twins, strict=True):
            await switch.wait_up()
            twin.faults.silent = True
        ledger = Ledger()
        yield CrashRecovery(
            journal=journal,
            switches=Switches(switches, clock),
            ledger=ledger,
            transfers=no_transfers(ledger, clock, tell),
            lit_by=lambda crossconnects, observed: frozenset(one.switch for one in crossconnects),
            clock=clock,
            emit=Emitter(clock, tell),
        )
    finally:
        for run in runs:
            run.cancel()
        await asyncio.wait(runs)
        for twin in twins:
            await twin.close()


def no_transfers(ledger: Ledger, clock: Clock, sink: Sink) -> Transfers:
    """Of a testbed without hosts."""
    bus = MemoryBus(MemoryBroker(), "daemon", clock)
    gateway = Gateway(bus=bus, testbed="lab", hosts=(), clock=clock, ids=SeededIds(1), sink=sink)
    return Transfers(
        ledger,
        load_text("testbed: lab\n", file="lab.yaml").require(),
        store=Records("sqlite://", InlineOffload()).transfers,
        agents=GatewayAgents(gateway),
        clock=clock,
        sink=sink,
        announce=sink,
    )


def journal_of(*switches: str) -> Journal:
    journal = Journal(MemoryDisk())
    for switch in switches:
        journal.begin(plan(switch), reconfiguration=f"r-{switch}", run=None)
    return journal


def test_one_that_is_not_tried_now_is_given_up_at_once() -> None:
    async def main() -> None:
        loop, told = asyncio.get_running_loop(), list[str]()
        journal = journal_of(*SWITCHES)
        journal.begin(plan("ocs1"), reconfiguration="r-next", run=None)
        async with recovery_of(journal, told) as recovery:
            trying = asyncio.create_task(recovery.recover())
            await asyncio.sleep(1.0)
            asked_s = loop.time()
            await recovery.give_up("r-next", by="ada")
            assert loop.time() == asked_s
            await trying
        assert "journal.open r-next" not in told
        assert told.count("journal.open r-ocs1") == told.count("journal.open r-ocs2") == 1

    run_virtual(main())


def test_a_switch_that_says_nothing_keeps_no_way_back_at_another_waiting() -> None:
    async def main() -> None:
        loop, told = asyncio.get_running_loop(), list[str]()
        async with recovery_of(journal_of(*SWITCHES), told) as recovery:
            began_s = loop.time()
            await recovery.recover()
            assert ANSWER_S <= loop.time() - began_s < ANSWER_S + 1.0
        assert {f"journal.open r-{switch}" for switch in SWITCHES} <= {*told}

    run_virtual(main())


def test_one_that_is_tried_now_is_given_up_when_that_try_is_over_and_not_those_of_others() -> None:
    async def main() -> None:
        loop, told = asyncio.get_running_loop(), list[str]()
        async with recovery_of(journal_of(*SWITCHES), told) as recovery:
            began_s = loop.time()
            trying = asyncio.create_task(recovery.recover())
            await asyncio.sleep(1.0)
            given_up = await recovery.give_up("r-ocs1", by="ada")
            assert ANSWER_S <= loop.time() - began_s < ANSWER_S + 1.0
            assert given_up.left == ["ocs1: nothing"]
            await trying
            assert [one.reconfiguration for one in recovery.left()] == ["r-ocs2", "r-ocs3"]

    run_virtual(main())


def test_a_bug_in_one_recovery_does_not_stop_the_others() -> None:
    async def main() -> None:
        told = list[str]()
        async with recovery_of(journal_of(*SWITCHES), told, bug_at="r-ocs1") as recovery:
            with pytest.raises(ExceptionGroup) as raised:
                await recovery.recover()
        assert [str(error) for error in raised.value.exceptions] == ["a bug at r-ocs1"]
        assert {kind for kind in told if kind.startswith("journal.open")} == {
            "journal.open r-ocs2",
            "journal.open r-ocs3",
        }

    run_virtual(main())


def test_light_of_ways_back_is_that_of_what_is_left_open_and_not_of_what_is_under_way() -> None:
    async def main() -> None:
        journal = journal_of("ocs1")
        async with recovery_of(journal, []) as recovery:
            journal.begin(plan("ocs2"), reconfiguration="r-ocs2", run=None)
            assert recovery.light() == {"ocs1"}
            recovery.claim("r-ocs2", frozenset({"ocs2.1"}))
            assert recovery.light() == {"ocs1", "ocs2"}

    run_virtual(main())


# --- ports of what a crash cut off


async def cut_off_in(lab: Lab, what: str) -> str:
    """The daemon dies when this is driven and not confirmed yet; returns its id."""
    lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 0.5})
    driving = asyncio.create_task(apply(lab, what))
    await lab.until(ReconfigurationState, state="driving")
    started = lab.emitted(ReconfigurationStarted)[-1]
    await asyncio.sleep(1.0)
    lab.world.kill(DAEMON)
    await asyncio.gather(driving, return_exceptions=True)
    lab.set_fault({"fault": "clear"})
    await asyncio.sleep(1.0)
    assert light(lab) >= wanted(what)
    return started.reconfiguration


def test_nic_ports_whose_light_a_way_back_changes_are_leased_to_nobody_before_it(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        id = await cut_off_in(lab, "ocs1:1A-3B,3A-1B")
        lab.set_fault({"switch": "ocs1", "fault": "refuse"})
        lab.world.start_daemon()
        await asyncio.sleep(10.0)
        (left,) = lab.reconfigurer.left_open
        assert left.ports == ["h0.eth0", "h1.eth0", "ocs1.1", "ocs1.3"], "the switch is away, and the journal has them"
        for port in left.ports:
            with pytest.raises(RefusedError, match=f"{port}: reconfiguration {id} .* was cut off and is not undone"):
                await lab.service.take_lease(holder="bob", ports=[port], for_s=600)
        await lab.service.take_lease(holder="bob", ports=["h0.eth1", "h1.eth1"], for_s=600)

        lab.set_fault({"fault": "clear"})
        await lab.until(DaemonRecovered, reconfiguration=id)
        assert light(lab) == {""}
        await lab.service.take_lease(holder="eve", ports=["h0.eth0", "h1.eth0"], for_s=600)

    run_lab(test)


def test_light_that_was_there_before_what_a_crash_cut_off_is_held_too(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, "ocs1:1A-3B,3A-1B")
        await cut_off_in(lab, "ocs1:1A-4B,4A-1B")
        lab.set_fault({"switch": "ocs1", "fault": "refuse"})
        lab.world.start_daemon()
        await asyncio.sleep(10.0)
        (left,) = lab.reconfigurer.left_open
        assert left.ports == ["h0.eth0", "h1.eth0", "h1.eth1", "ocs1.1", "ocs1.3", "ocs1.4"]

    run_lab(test)


def test_light_behind_a_switch_that_is_unread_may_be_any_until_it_is_read(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, TRUNKS.wanted[0])  # port 1 of both over trunk 5, port 2 over trunk 6
        await cut_off_in(lab, "ocs1:1A-7B,7A-1B")
        for switch in ("ocs1", "ocs2"):
            lab.set_fault({"switch": switch, "fault": "refuse"})
        lab.world.start_daemon()
        await asyncio.sleep(10.0)
        own = ["h0.eth0", "h1.eth0", "ocs1.1", "ocs1.5", "ocs1.7"]
        assert [one.ports for one in lab.reconfigurer.left_open] == [sorted([*own, "h0.eth1", "h1.eth1"])]
        lab.world.rack.switches["ocs2"].faults.refusing = False
        await lab.until(SwitchUp, switch="ocs2")
        await asyncio.sleep(1.0)
        assert [one.ports for one in lab.reconfigurer.left_open] == [own]

    run_lab(test, text=TRUNKS.text)


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


def test_other_switches_of_an_entry_are_brought_back_where_one_left_the_testbed_file(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, STRAIGHT)
        id = await cut_off_in(lab, CROSSED)
        rewrite_journal(lab, also_on_old1(id))
        lab.world.start_daemon()
        await lab.world.settled()
        await asyncio.sleep(10.0)
        assert light(lab) == wanted(STRAIGHT), "ocs1 is brought back"
        (left,) = lab.reconfigurer.left_open
        assert left.reconfiguration == id
        assert left.why.startswith("old1: no switch of this testbed file that the daemon drives. Put it back")
        assert [one.why for one in lab.emitted(JournalOpen)][-1] == left.why, "it is told"

        given_up = await lab.world.nodes.run_in_node(DAEMON, lab.reconfigurer.give_up(id, by="ada"))
        assert given_up.left[-1] == "old1: not read since the daemon began"
        assert (await apply(lab, CROSSED)).outcome == "confirmed"

    run_lab(test)


def test_a_switch_that_left_the_testbed_file_keeps_no_transfer_from_other_ports(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        id = await cut_off_in(lab, "ocs1:1A-3B,3A-1B")
        rewrite_journal(lab, also_on_old1(id))
        lab.world.start_daemon()
        await lab.world.settled()
        await asyncio.sleep(10.0)
        assert [one.reconfiguration for one in lab.reconfigurer.left_open] == [id]
        rank = await Rank.connect(lab.world, "h0")
        refused = await rank.claim("eth0", within_s=5)
        assert (refused["outcome"], id in refused["why"]) == ("refused", True)
        assert (await rank.claim("eth1", within_s=5))["outcome"] == "go"

    run_lab(test)


def test_a_switch_that_fails_after_another_one_left_the_testbed_file_is_tried_again(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, STRAIGHT)
        id = await cut_off_in(lab, CROSSED)
        rewrite_journal(lab, also_on_old1(id))
        lab.set_fault({"switch": "ocs1", "fault": "deny", "code": "SROF", "text": "busy"})
        lab.world.start_daemon()
        await lab.until(JournalOpen, reconfiguration=id)
        assert light(lab) == wanted(CROSSED)
        await asyncio.sleep(10.0)
        assert light(lab) == wanted(STRAIGHT)

    run_lab(test)
