"""The daemon: everything that watches, plans, drives and records one testbed, in one event loop.

daemon = Daemon(testbed=..., machine=..., storage=..., rack=..., ...)
await daemon.open()
await daemon.run()          # until cancelled; then the runs are aborted into their safe states
"""

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from hwd.bus.birth_data import inventory_data
from hwd.bus.gateway import Gateway
from hwd.bus.host_events import EventStore
from hwd.bus.host_settings.run_settings import HostSettings
from hwd.bus.host_switches.delegations import Delegations
from hwd.bus.host_switches.selections import Selections
from hwd.bus.host_switches.switch_documents import HostSwitches
from hwd.bus.runtopics import RunTopics
from hwd.config.playbook.playbook import ApplyStep, Playbook
from hwd.daemon.agents import GatewayAgents
from hwd.daemon.fanout import Fanout
from hwd.daemon.limits import Limits
from hwd.daemon.seams import Machine, Process, RackAccess, Storage
from hwd.fabric.fabric import Fabric
from hwd.model.documents.daemon import (
    DaemonLag,
    DaemonStarted,
    DaemonStopped,
    JournalDamaged,
    JournalRefused,
    JournalWritten,
)
from hwd.model.documents.reconfigurations import ReconfigurationEnded
from hwd.model.instant import Origin
from hwd.model.testbed import Switch, Testbed
from hwd.model.timeline import Timeline
from hwd.playbook.effects import Effects
from hwd.playbook.run_record import RunTemplate
from hwd.playbook.run_recovery import RunRecovery
from hwd.playbook.runner import Runner
from hwd.playbook.runs import Runs
from hwd.playbook.twin_faults import TwinFaults
from hwd.ports.ledger import Ledger
from hwd.ports.testbed_ports import all_ports
from hwd.reconfigure.history import OUTCOMES_REMEMBERED, History, Outcomes
from hwd.reconfigure.journal import Journal
from hwd.reconfigure.leases import Leases
from hwd.reconfigure.planner import BackgroundPlanner, Planner
from hwd.reconfigure.reconfiguration import Outcome
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.reconfigure.route import Request
from hwd.reconfigure.switches import Switches
from hwd.records.recorder import RecordingSink
from hwd.telemetry import Budget, Metrics
from hwd.timeline.alignment import Alignment
from hwd.web.applies import Applies
from hwd.web.hub import Hub
from hwd.web.linkboard import Linkboard
from hwd.web.service import HostAccess, Service, StatusBoards
from hwd.web.switchboard import Switchboard, SwitchReport
from hwd_drivers.core.documents import Document, Json, Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import HwdError
from hwd_drivers.devices.abilities import Device
from hwd_drivers.devices.facts import SwitchUp
from hwd_drivers.devices.supervisor import LONGEST_RETRY_S, Supervisor

LAG_PERIOD_S = 0.25
"""The period of the measurement of the event loop's delay."""
CLOSE_WITHIN_S = 10.0
"""The time limit for runs and applies to reach their safe states when the daemon stops. Each takes 5 s at most, all at
once."""
LAG_REPORT_S = 10.0
"""The time between two documents `daemon.lag`."""
RECALLED = 16
"""Timelines that one query reads at a start: those of a large rack are megabytes."""
RECALLED_MOST = 256
"""The most timelines that are read at a start: without agents they hold no turnaround, and there may be many."""
TWIN_RETRY_S = 1.0
"""The longest pause before a twin is tried again: it is a process of this machine, which an attempt costs nothing."""
RECOVER_AGAIN_S = 5.0
"""The pause after a roll-back that failed with all its switches connected: they did not answer in time, or refused."""

log = logging.getLogger(__name__)


class Daemon:
    """The daemon of one testbed. Its constructor takes all that it needs.

    `limits` counts limits that were reached, also in the embedded broker and the HTTP server, which start before the
    daemon; the daemon emits documents of them.
    """

    def __init__(
        self,
        *,
        testbed: Testbed,
        testbed_text: str,
        machine: Machine,
        storage: Storage,
        rack: RackAccess,
        process: Process,
        sinks: Sequence[Sink] = (),
        limits: Limits | None = None,
    ) -> None:
        self.testbed = testbed
        self.metrics = Metrics(Budget.of(testbed))
        self._switchboard = Switchboard(testbed.switches)
        self._fabric = Fabric(testbed)
        self._linkboard = Linkboard(self._fabric, self._switchboard.reports)
        self.hub = Hub()
        self._testbed_text = testbed_text
        self._machine = machine
        self._process = process
        self._bus = rack.bus
        self._open_switch = rack.open_switch
        self._records = records = storage.records
        self._ledger = ledger = Ledger()
        self._faults = TwinFaults(testbed=testbed, records=records, set_fault=rack.set_fault, ledger=ledger)
        self._clock = clock = machine.clock
        self._ids = machine.ids
        self._offload = machine.offload
        self._recorder = RecordingSink(records)
        self._history = History(testbed)
        self._sink = Fanout([self._recorder, self.metrics, self.hub, *sinks])
        self._emit = Emitter(clock, self._sink)
        self._sink.add(self._history, *History.TAKES)
        self._outcomes = Outcomes(clock)
        self._sink.add(self._outcomes, *Outcomes.TAKES)
        self._sink.add(self._switchboard, *Switchboard.TAKES)
        self._sink.add(self._linkboard, *Linkboard.TAKES)
        self._journal = Journal(storage.journal, sync=storage.journal_sync)
        self._known_journal = storage.journal_id or records.journal
        self._is_journal_known = False
        self._recover = asyncio.Event()
        self._limits = limits or Limits(clock)

    async def open(self) -> None:
        """Read records and journal, close crashed runs in the records, and build the parts. Touches no device."""
        await self._records.open()
        await self._load_journal()
        self._supervisors = {
            name: self._supervise(switch) for name, switch in self.testbed.switches.items() if switch.owner is None
        }
        await self._recall()
        alignments = await self._records.alignments.read(self._machine.clock_name)
        self._gateway = Gateway(
            bus=self._bus,
            testbed=self.testbed.name,
            hosts=tuple(self.testbed.hosts),
            clock=self._clock,
            ids=self._ids,
            sink=self._sink,
            event_store=EventStore(
                alignments={boot: Alignment.of(fact) for (_, boot), fact in alignments.items()},
                positions=await self._records.seen(),
                flush=self._recorder.flush,
                full=lambda: self._recorder.full,
            ),
            clocks_by_udp=not self._machine.virtual_time,
            reached=self._limits,
        )
        self._leases = Leases(
            self._ledger, store=self._records.leases, clock=self._clock, ids=self._ids, sink=self._sink
        )
        await self._leases.load()
        origins = {name: _origin(switch) for name, switch in self.testbed.switches.items()}
        host_switches = HostSwitches(self.testbed, clock=self._clock, sink=self._sink)
        self._delegations = Delegations(
            self._gateway,
            self.testbed,
            store=self._records.delegations,
            ledger=self._ledger,
            clock=self._clock,
            sink=self._sink,
            on_answer=host_switches.take_answer,
        )
        await self._delegations.load()
        self._selections = Selections(
            self.testbed,
            self._fabric,
            self._delegations,
            observed=lambda: {**self.reconfigurer.observed, **host_switches.crossconnects()},
            origins=origins,
            clock=self._clock,
            sink=self._sink,
            contain=self._gateway.containment.of,
        )
        self._selections.resume(*(await self._records.unfinished_selections.read()))
        for one in (host_switches, self._delegations, self._selections):
            self._sink.add(one, *one.TAKES)
        planner = Planner(self.testbed, self._fabric, self._history.expect, host_switches.crossconnects)
        self.reconfigurer = Reconfigurer(
            planner=BackgroundPlanner(planner, self._offload),
            switches=Switches(self._supervisors, self._clock, origins),
            agents=GatewayAgents(self._gateway),
            journal=self._journal,
            ledger=self._ledger,
            clock=self._clock,
            ids=self._ids,
            sink=self._sink,
            outcomes=self._outcomes,
        )
        self._sink.add(self.reconfigurer, *Reconfigurer.TAKES)
        self._sink.add(self._recover_when_up, ReconfigurationEnded, SwitchUp, JournalRefused, JournalWritten)
        self._settings = HostSettings(self._gateway, self.testbed, self._ledger, clock=self._clock, sink=self._sink)
        self._sink.add(self._settings, *HostSettings.TAKES)
        self._applies = Applies(
            testbed=self.testbed, reconfigurer=self.reconfigurer, ids=self._ids, offload=self._offload
        )
        self._runs = Runs(
            template=RunTemplate(
                testbed=self.testbed,
                testbed_text=self._testbed_text,
                version=self._process.version,
                commit=self._process.commit.id,
                virtual_time=self._machine.virtual_time,
                inventory=self._inventory,
                clock=self._clock,
            ),
            make_runner=self._make_runner,
            ledger=self._ledger,
            is_settled=self._is_settled,
            faults=self._faults,
            records=self._records,
            recorder=self._recorder,
            clock=self._clock,
            ids=self._ids,
            sink=self._sink,
            announce=self._sink.without(self._recorder),
            offload=self._offload,
        )
        self._sink.add(self._runs.recovery, *RunRecovery.TAKES)
        board = self._runs.board
        self._topics = RunTopics(self._bus, self.testbed.name, lambda: {status.run: status for status in board.all})
        self._sink.add(board, *board.TAKES)
        self._sink.add(self._topics, *RunTopics.TAKES)
        self.service = Service(
            testbed=self.testbed,
            version=self._process.version,
            applies=self._applies,
            runs=self._runs,
            faults=self._faults,
            reconfigurer=self.reconfigurer,
            leases=self._leases,
            hosts=HostAccess(
                bus_address=lambda: (self._bus.address, self._bus.connected),
                gateway=self._gateway,
                settings=self._settings,
                delegations=self._delegations,
            ),
            boards=StatusBoards(switches=self._switches, links=self._linkboard),
            records=self._records,
            recorder=self._recorder,
            clock=self._clock,
        )
        await self._runs.open()

    async def run(self) -> None:
        """Until cancelled. Ends with the runs in their safe states and every document written."""
        self._emit(
            DaemonStarted(
                version=self._process.version,
                pid=self._process.pid,
                testbed=self.testbed.name,
                data_dir=self._process.data_dir,
            )
        )
        if (damage := self._journal.damage) is not None:
            self._emit(JournalDamaged(why=damage.why, aside=damage.aside, held=[*damage.held]))
        try:
            async with asyncio.TaskGroup() as group:
                for name, supervisor in self._supervisors.items():
                    group.create_task(supervisor.run(), name=f"hwd:{name}/supervisor")
                group.create_task(self._gateway.run(), name="hwd:bus/gateway")
                group.create_task(self._leases.run(), name="hwd:leases/expiry")
                group.create_task(self._recorder.run(), name="hwd:records/writer")
                group.create_task(self._recover_journal(), name="hwd:journal/recover")
                group.create_task(self._settings.run(), name="hwd:hosts/settings")
                group.create_task(self._faults.run(), name="hwd:runs/faults")
                group.create_task(self._delegations.run(), name="hwd:hosts/leases")
                group.create_task(self._selections.run(), name="hwd:hosts/selections")
                group.create_task(self._topics.run(), name="hwd:bus/runs")
                group.create_task(self._runs.run(), name="hwd:runs/queue")
                group.create_task(self._watch_lag(), name="hwd:loop/lag")
                group.create_task(self._limits.run(self._sink), name="hwd:limits/tell")
                try:
                    await asyncio.Event().wait()
                finally:
                    await asyncio.shield(self._close())
        finally:
            self._emit(DaemonStopped(reason="asked to end"))
            try:
                await asyncio.shield(self._recorder.flush())
            except HwdError as error:
                log.error("the last documents could not be written: %s", error)
            self._records.close()

    # --- parts

    async def _recall(self) -> None:
        """Learn turnarounds and outcomes from the records of earlier processes of the daemon."""
        before: int | None = None
        for _ in range(RECALLED_MOST // RECALLED):
            if self._history.full:
                break
            older = await self._records.newest([Timeline.KIND], limit=RECALLED, before=before)
            if not older:
                break
            for stored in older:
                self._history.recall(stored.document)
            before = older[-1].id
        kinds = [fact.KIND for fact in Outcomes.TAKES]
        for stored in reversed(await self._records.newest(kinds, limit=OUTCOMES_REMEMBERED)):
            self._outcomes(stored.document)

    async def _load_journal(self) -> None:
        """Load the journal. The records have its id: without it a lost journal would look like a new and empty one."""
        known = await self._known_journal.read()
        self._journal.load(known=known, fresh=f"{self._clock.wall_ns():x}")
        self._is_journal_known = known is not None
        await self._name_journal()

    async def _name_journal(self) -> None:
        """Write the id of a new journal to the records, but not before the journal itself is on the disk.

        An id without a journal would look like damage at the next start.
        """
        if self._is_journal_known or not self._journal.is_written:
            return
        try:
            await self._known_journal.write(self._journal.id)
        except HwdError as error:
            log.warning("journal: the records cannot be told of it, that is tried again: %s", error)
        else:
            self._is_journal_known = True

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_WITHIN_S):
                try:
                    await self.service.close()
                finally:  # after a timeout too: a pending confirm has no other chance before the next start
                    self.reconfigurer.write_ends()
                await self._topics.flush()
        except TimeoutError:
            left = ", ".join(map(str, self.reconfigurer.under_way)) or "nothing"
            log.error("not all was brought back within %g s; the next start goes on with: %s", CLOSE_WITHIN_S, left)

    def _make_runner(self, id: str, playbook: Playbook) -> Runner:
        return Runner(
            id,
            playbook,
            reconfigurer=self.reconfigurer,
            leases=self._leases,
            request=self._step_request,
            all_ports=all_ports(self.testbed),
            history=self._history,
            effects=Effects(faults=self._faults.of(id), host_settings=self._settings),
            clock=self._clock,
            sink=self._sink,
        )

    def _step_request(self, step: ApplyStep, lease: str | None) -> Request:
        return self._applies.request(step.what, mode=step.mode, lease=lease, wanted=step.wanted)

    def refused_client(self, client_id: str, why: str) -> None:
        """The broker refused a client with this id: an agent without its password, or a stranger."""
        self._gateway.refused(client_id, why)

    def _inventory(self) -> dict[str, Json]:
        births = {name: view.birth for name, view in self._gateway.hosts().items()}
        return {
            "switches": self.service.switches(),
            "hosts": [
                {**host, "inventory": inventory_data(birth) if (birth := births.get(str(host["host"]))) else None}
                for host in self.service.hosts()
            ],
            "version": self._process.version,
            "commit": str(self._process.commit),
        }

    def _is_settled(self) -> bool:
        """Whether switches, agents and broker are connected, the clocks aligned, and the journal has no open entry."""
        hosts = self._gateway.hosts().values()
        there = all(view.up and view.alignment is not None for view in hosts)
        return there and bool(self.service.ready()["ready"]) and not self._journal.open

    def _switches(self) -> list[SwitchReport]:
        """The switches as documents reported them; for an unreachable one with the present reason."""

        def now(one: SwitchReport) -> SwitchReport:
            supervisor = self._supervisors.get(one.switch)
            if supervisor is None or one.up is not False or supervisor.cause is None:
                return one
            return msgspec.structs.replace(one, cause=supervisor.cause)

        return [now(one) for one in self._switchboard.reports()]

    def _supervise(self, switch: Switch) -> Supervisor:
        async def open_device() -> Device:
            return await self._open_switch(switch, self._sink)

        return Supervisor(
            name=switch.name,
            open=open_device,
            clock=self._clock,
            sink=self._sink,
            draws=self._machine.draws,
            longest_retry_s=LONGEST_RETRY_S if switch.twin is None else TWIN_RETRY_S,
        )

    def _recover_when_up(self, document: Document) -> None:
        match document.fact:
            case ReconfigurationEnded(outcome=Outcome.FAILED) | JournalRefused() | JournalWritten():
                self._recover.set()
            case SwitchUp() if self._journal.open:
                self._recover.set()

    async def _recover_journal(self) -> None:
        while True:
            self._recover.clear()
            try:
                await self.reconfigurer.recover()
            except Exception:  # a supervisor: open entries stay open, and the daemon goes on
                log.exception("journal: cannot recover")
            await self._name_journal()
            try:
                async with asyncio.timeout(RECOVER_AGAIN_S if self._is_to_try_again() else None):
                    await self._recover.wait()
            except TimeoutError:
                continue

    def _is_to_try_again(self) -> bool:
        """Whether recovery must be tried again by time, since no document will announce that it can succeed.

        That is so where all switches of an open entry are connected, and where the journal does not take all.
        """
        up = {name for name, supervisor in self._supervisors.items() if supervisor.device is not None}
        open_entries = [entry for entry in self._journal.open if not entry.doubt]
        there = any(up.issuperset(move.switch for move in entry.moves) for entry in open_entries)
        return there or bool(self.reconfigurer.journal_trouble)

    async def _watch_lag(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            longest_s, until_s = 0.0, loop.time() + LAG_REPORT_S
            while (due_s := loop.time() + LAG_PERIOD_S) < until_s:
                await asyncio.sleep(LAG_PERIOD_S)
                longest_s = max(longest_s, loop.time() - due_s)
            self._emit(DaemonLag(seconds=longest_s))
            await asyncio.sleep(max(0.0, until_s - loop.time()))


def _origin(switch: Switch) -> Origin:
    """The origin of the times of a switch."""
    if switch.twin is None:
        return Origin.MEASURED
    from hwd_drivers.twins.timing import find_timing  # a daemon of real switches does not load the simulator

    return Origin.FITTED if find_timing(switch.twin.timing).fitted_to else Origin.TWIN
