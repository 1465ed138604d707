"""What is left open can be given up at any time, whatever else is tried meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hwd.bus.gateway import Gateway
from hwd.daemon.agents import GatewayAgents
from hwd.daemon.installed_drivers import load_text
from hwd.model.plan import Plan
from hwd.ports.ledger import Ledger
from hwd.reconfigure.apply.crash_recovery import CrashRecovery
from hwd.reconfigure.apply.switches import Switches
from hwd.reconfigure.journal.journal import Journal
from hwd.reconfigure.transfers import Transfers
from hwd.records.records import Records
from hwd_agents.bus.memory import MemoryBroker, MemoryBus
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.core.documents import Document, Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.ids import Draws, SeededIds
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices import registry
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.devices.supervisor import Supervisor
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.registry import twin_of
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual

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
            lit_by=lambda crossconnects, observed: frozenset(),
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
        async with recovery_of(journal_of(*SWITCHES), told) as recovery:
            trying = asyncio.create_task(recovery.recover())
            await asyncio.sleep(1.0)
            asked_s = loop.time()
            await recovery.give_up("r-ocs3", by="ada")
            assert loop.time() == asked_s
            await trying
        assert "journal.open r-ocs3" not in told
        assert told.count("journal.open r-ocs1") == told.count("journal.open r-ocs2") == 1

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
        assert [kind for kind in told if kind.startswith("journal.open")] == [
            "journal.open r-ocs2",
            "journal.open r-ocs3",
        ]

    run_virtual(main())
