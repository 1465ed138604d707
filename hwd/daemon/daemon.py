"""The daemon: everything that watches, plans, drives and records one testbed, in one event loop.

daemon = Daemon(testbed=..., machine=..., storage=..., rack=..., ...)
await daemon.open()
await daemon.run()          # until cancelled; then the runs are aborted into their safe states
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path

from msgspec import UNSET

from hwd.bus.gateway import Gateway
from hwd.bus.host_events import EventStore
from hwd.bus.host_settings.run_settings import HostSettings
from hwd.bus.host_switches.delegations import Delegations
from hwd.bus.host_switches.selections import Selections
from hwd.bus.host_switches.switch_documents import HostSwitches
from hwd.bus.runtopics import RunTopics
from hwd.daemon.agents import GatewayAgents
from hwd.daemon.disk_space import SpaceWatch
from hwd.daemon.driven_switches import DrivenSwitches
from hwd.daemon.fanout import Fanout
from hwd.daemon.lag import LagWatch, ignore_lag
from hwd.daemon.limits import Limits
from hwd.daemon.reload import Reload, TestbedFile
from hwd.daemon.retention import Retention, unfinished
from hwd.daemon.seams import Machine, Process, RackAccess, Storage
from hwd.daemon.set_switch_asks import SetSwitchAsks
from hwd.fabric.fabric import Fabric
from hwd.fabric.in_use import InUse
from hwd.jobs.efficiency.efficiency_reader import EfficiencyReader
from hwd.jobs.efficiency.port_rates import PortRates
from hwd.jobs.event_log import EventLog
from hwd.jobs.jobs import Jobs
from hwd.jobs.programs import Programs
from hwd.jobs.training.training_reader import TrainingReader
from hwd.jobs.verification.job_verifier import JobVerifier
from hwd.model.daemon import DaemonStarted, DaemonStopped, JournalDamaged, RecordsRefused, RecordsWritten
from hwd.model.testbed import Testbed
from hwd.playbook.light_of_jobs import LightOfJobs
from hwd.playbook.run_record import RunTemplate
from hwd.playbook.runner import RunAccess
from hwd.playbook.runs import Runs
from hwd.playbook.twin_faults import TwinFaults
from hwd.ports.ledger import Ledger
from hwd.rack.changes import Changes
from hwd.rack.health import RackHealth
from hwd.rack.links import Links
from hwd.rack.nic_ports import NicPorts
from hwd.rack.ready_links import ReadyLinks
from hwd.rack.switches import ReportedSwitches
from hwd.reconfigure.apply.switches import Switches
from hwd.reconfigure.desired.desired_state import DesiredState
from hwd.reconfigure.desired.drift import Drift
from hwd.reconfigure.desired.earlier_states import EarlierStates
from hwd.reconfigure.desired.history import History, Outcomes
from hwd.reconfigure.desired.restores import Restores
from hwd.reconfigure.journal.identity import JournalIdentity
from hwd.reconfigure.journal.journal import Journal
from hwd.reconfigure.journal.records_catch_up import RecordsCatchUp
from hwd.reconfigure.journal.recovery import JournalRecovery
from hwd.reconfigure.leases.baselines import Baselines
from hwd.reconfigure.leases.ends import LeaseEnds
from hwd.reconfigure.leases.leases import Leases
from hwd.reconfigure.leases.requests import LeaseRequests
from hwd.reconfigure.plans.device_times import DeviceTimes
from hwd.reconfigure.plans.move_counts import MoveCounts
from hwd.reconfigure.plans.planner import BackgroundPlanner, Planner
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.reconfigure.transfers import Transfers
from hwd.records.reconfiguration_log import ReconfigurationLog
from hwd.records.recorder import RecordingSink
from hwd.telemetry import Budget, Metrics
from hwd.telemetry.alerts import Alerts
from hwd.timeline.alignment import Alignment
from hwd.web.applies import Applies
from hwd.web.daemonboard import Daemonboard
from hwd.web.demands import Demands
from hwd.web.hub import Hub
from hwd.web.rack_status import RackStatus
from hwd.web.service import Service
from hwd_agents.wire import ClaimOperation, ClaimTransfer, EndOperation, EndTransfers, JoinJob, SwitchPreparedSet
from hwd_drivers.core.documents import Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import HwdError

CLOSE_WITHIN_S = 10.0
"""The time limit for runs and applies to reach their safe states when the daemon stops. Each takes 5 s at most, all at
once."""
CHANGES_READ = 256
"""Documents of each kind that a start reads for the last change of each switch."""
log = logging.getLogger(__name__)


class Daemon:
    """The daemon of one testbed. Its constructor takes all that it needs.

    `limits` counts limits that were reached, also in the embedded broker and the HTTP server, which start before the
    daemon; the daemon emits documents of them. `on_turn` gets the lag of each measured turn of the event loop.
    `testbed_file`: what a reload reads; without it there is none.
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
        on_turn: Callable[[float], None] = ignore_lag,
        testbed_file: TestbedFile | None = None,
    ) -> None:
        self._ports = NicPorts()
        self._ready = ReadyLinks(self._ports)
        self.metrics = Metrics(Budget.of(testbed), self._ready)
        self.hub = Hub()
        self._in_use = InUse(Fabric(testbed))
        self._testbed_text = testbed_text
        self._testbed_file = testbed_file
        self._machine = machine
        self._process = process
        self._rack = rack
        self._records = storage.records
        self._space = storage.space
        self._journal = Journal(storage.journal, sync=storage.journal_sync)
        self._identity = JournalIdentity(self._journal, storage.journal_id or storage.records.journal, machine.clock)
        self._catch_up = RecordsCatchUp(self._journal, storage.records.reconfigurations, machine.clock)
        self._event_log = EventLog(storage.job_events, storage.records.jobs)
        self._recorder = RecordingSink(
            storage.records, on_end=self._journal.note_recorded, on_refused=self._note_records
        )
        self._sink = Fanout([self._recorder])
        self._sink.subscribe(self._ports, self._ready)
        self._sink.add(self.metrics)
        self._sink.add(self.hub)
        for sink in sinks:
            self._sink.add(sink)
        self._emit = Emitter(machine.clock, self._sink)
        self._limits = limits or Limits(machine.clock)
        self._lag_watch = LagWatch(self._emit, on_turn)

    async def open(self) -> None:
        """Read records and journal, close crashed runs in the records, and build the parts. Touches no device."""
        in_use, records, sink = self._in_use, self._records, self._sink
        testbed = in_use.testbed
        machine, clock, ids = self._machine, self._machine.clock, self._machine.ids
        await records.open()
        await self._identity.load()
        await self._catch_up.read()
        ledger, fabric = Ledger(lease_required=testbed.leases.required), self._in_use.fabric
        history, outcomes = History(in_use), Outcomes(clock)
        await history.load(records)
        device_times = DeviceTimes()
        await device_times.load(records)
        await outcomes.load(records)
        move_counts = MoveCounts(testbed, clock)
        await move_counts.load(records)
        desired = DesiredState(testbed, ledger, self._recorder.flush)
        await desired.load(records)

        self._driven = driven = DrivenSwitches(testbed, self._rack.open_switch, machine=machine, sink=sink)
        switches = Switches(driven.drivers, clock, driven.origins)
        reported = ReportedSwitches(testbed.switches, switches.cause)
        links = Links(fabric, reported, self._ports, clock.wall_ns, powers_asked_wall_ns=driven.powers_asked_wall_ns)
        changes, daemonboard, alerts = Changes(testbed.switches), Daemonboard(), Alerts(clock, self._ports, self._ready)
        for document in await records.unbroken([fact.KIND for fact in Changes.TAKES], limit=CHANGES_READ):
            changes(document)
        await alerts.load(records)
        await daemonboard.load(records)
        self._died_wall_ns = daemonboard.died_wall_ns
        wanted = fabric.routed_of({name: frozenset(ones) for name, ones in desired.crossconnects().items()})
        self._ready.expect(wanted)

        alignments = await records.alignments.read(machine.clock_name)
        self._gateway = gateway = Gateway(
            bus=self._rack.bus,
            testbed=testbed.name,
            hosts=tuple(testbed.hosts),
            clock=clock,
            ids=ids,
            sink=sink,
            event_store=EventStore(
                alignments={boot: Alignment.of(fact) for (_, boot), fact in alignments.items()},
                positions=await records.event_positions(),
                flush=self._recorder.flush,
                full=self._recorder.full,
            ),
            clocks_by_udp=not machine.virtual_time,
            reached=self._limits,
        )
        host_switches = HostSwitches(testbed, clock=clock, sink=sink)
        delegations = Delegations(
            gateway,
            in_use,
            store=records.delegations,
            ledger=ledger,
            clock=clock,
            sink=sink,
            on_answer=host_switches.take_answer,
        )
        selections = Selections(
            in_use,
            delegations,
            observed=lambda: {**switches.latest(), **host_switches.crossconnects()},
            origins=switches.origins,
            clock=clock,
            sink=sink,
            contain=gateway.containment.of,
        )
        settings = HostSettings(gateway, in_use, ledger, clock=clock, sink=sink)
        leases = Leases(ledger, store=records.leases, clock=clock, ids=ids, sink=sink)
        await leases.load()
        requests = LeaseRequests(leases, store=records.leases, clock=clock, sink=sink)
        await requests.load()
        lease_ends = LeaseEnds(ledger)
        await lease_ends.load(records)
        await delegations.load()
        if has_host_switches := any(switch.owner is not None for switch in testbed.switches.values()):
            selections.resume(*(await records.unfinished_selections.read()))

        agents = GatewayAgents(gateway)
        transfers = Transfers(
            ledger,
            testbed,
            store=records.transfers,
            agents=agents,
            clock=clock,
            sink=sink,
            announce=sink.without(self._recorder),
        )
        await transfers.load()
        baselines = Baselines(in_use, leases, clock=clock, sink=sink)
        planner = Planner(testbed, fabric, history.expect, host_switches.crossconnects, device_times)
        background_planner = BackgroundPlanner(planner, machine.offload)
        self.reconfigurer = reconfigurer = Reconfigurer(
            in_use=in_use,
            planner=background_planner,
            switches=switches,
            agents=agents,
            hangs=links,
            journal=self._journal,
            ledger=ledger,
            clock=clock,
            ids=ids,
            sink=sink,
            outcomes=outcomes,
            move_counts=move_counts,
            desired=desired,
            transfers=transfers,
            note_baseline=baselines.note,
        )
        await reconfigurer.sets.ends.load(records)
        recovery = JournalRecovery(reconfigurer, journal=self._journal, identity=self._identity, switches=switches)

        restores = Restores(in_use, desired, switches, background_planner)
        drift = Drift(
            testbed.drift,
            desired=desired,
            restores=restores,
            reconfigurer=reconfigurer,
            switches=switches,
            planner=background_planner,
            ledger=ledger,
            clock=clock,
            sink=sink,
        )
        retention = Retention(
            in_use,
            records.old_documents,
            needed=partial(unfinished, self._journal),
            clock=clock,
            emit=self._emit,
        )
        reconfiguration_log = ReconfigurationLog(records, self._recorder.flush)
        earlier = EarlierStates(in_use, reconfiguration_log)
        demands = Demands(in_use, records.demands, clock=clock, offload=machine.offload)
        applies = Applies(
            in_use=in_use,
            reconfigurer=reconfigurer,
            restores=restores,
            earlier=earlier,
            demands=demands,
            ids=ids,
            offload=machine.offload,
        )
        programs = Programs(in_use, self._rack.processes, clock=clock, ids=ids, sink=sink)
        port_rates = PortRates()
        jobs = Jobs(
            in_use,
            self._rack.processes,
            store=records.jobs,
            event_log=self._event_log,
            applies=applies,
            reconfigurer=reconfigurer,
            leases=leases,
            planner=background_planner,
            transfers=transfers,
            settings=settings,
            rates=port_rates,
            health=RackHealth(in_use, carrier=self._ports.carrier, is_there=agents.is_there, cause=switches.cause),
            folder=Path(self._process.data_dir) / "jobs",
            clock=clock,
            ids=ids,
            offload=machine.offload,
            sink=sink,
            announce=sink.without(self._recorder),
        )
        await self._event_log.load()
        await jobs.load()
        job_verifier = JobVerifier(
            records.jobs,
            records,
            events=self._event_log.events,
            gaps=records.gaps.all,
            recorded=self._recorder.flush,
            offload=machine.offload,
        )
        job_efficiency = EfficiencyReader(records.jobs, events=self._event_log.events, offload=machine.offload)
        job_training = TrainingReader(records.jobs, events=self._event_log.events, offload=machine.offload)
        gateway.asks.serve(ClaimTransfer, jobs.claim_transfer)
        gateway.asks.serve(EndTransfers, jobs.end_transfers)
        gateway.asks.serve(JoinJob, jobs.join)
        gateway.asks.serve(ClaimOperation, jobs.claim)
        gateway.asks.serve(EndOperation, jobs.end)
        faults = TwinFaults(in_use=in_use, records=records, set_fault=self._rack.set_fault, ledger=ledger)
        rack = RackStatus(
            in_use=in_use,
            version=self._process.version,
            commit=str(self._process.commit),
            switches=reported,
            links=links,
            ports=self._ports,
            changes=changes,
            alerts=alerts,
            own=daemonboard,
            gateway=gateway,
            delegations=delegations,
            reconfigurer=reconfigurer,
            recorder=self._recorder,
        )

        light_of_jobs = LightOfJobs()
        runs = Runs(
            template=RunTemplate(
                in_use=in_use,
                testbed_text=lambda: self.reloads.text,
                version=self._process.version,
                commit=self._process.commit.id,
                virtual_time=machine.virtual_time,
                inventory=rack.inventory,
                clock=clock,
            ),
            access=RunAccess(
                reconfigurer=reconfigurer,
                leases=leases,
                in_use=in_use,
                history=history,
                jobs=jobs,
                light=light_of_jobs,
                faults=faults,
                host_settings=settings,
                clock=clock,
                sink=sink,
            ),
            is_settled=rack.is_settled,
            records=records,
            recorder=self._recorder,
            ids=ids,
            announce=sink.without(self._recorder),
            offload=machine.offload,
        )
        board = runs.board
        self._topics = topics = RunTopics(
            self._rack.bus, testbed.name, lambda: {status.run: status for status in board.all}
        )
        self.reloads = Reload(
            file=self._testbed_file,
            in_use=in_use,
            text=self._testbed_text,
            parts=(
                *(ledger, move_counts, desired, reported, links, changes),
                *(background_planner, drift, transfers, self.metrics),
            ),
            switches=driven,
            ledger=ledger,
            runs=runs,
            crossconnects=links.state,
            clock=clock,
            emit=self._emit,
            recorded=self._recorder.flush,
        )
        self.service = Service(
            in_use=in_use,
            rack=rack,
            reloads=self.reloads,
            applies=applies,
            runs=runs,
            faults=faults,
            reconfigurer=reconfigurer,
            leases=leases,
            requests=requests,
            settings=settings,
            transfers=transfers,
            programs=programs,
            jobs=jobs,
            job_verifier=job_verifier,
            job_efficiency=job_efficiency,
            job_training=job_training,
            demands=demands,
            delegations=delegations,
            records=records,
            log=reconfiguration_log,
            recorder=self._recorder,
            clock=clock,
        )
        gateway.asks.serve(SwitchPreparedSet, SetSwitchAsks(self.service, reconfigurer).switch)

        sink.subscribe(lease_ends, baselines, transfers, port_rates)
        sink.subscribe(
            history,
            device_times,
            outcomes,
            move_counts,
            desired,
            reported,
            links,
            changes,
            daemonboard,
            alerts,
        )
        sink.subscribe(delegations)  # an agent may claim what no host owns
        if has_host_switches:
            sink.subscribe(host_switches, selections)
        sink.subscribe(reconfigurer, reconfigurer.sets, drift, recovery, runs.recovery, board, topics, light_of_jobs)
        sink.subscribe(jobs)  # after those who know where sets and switches are
        self._tasks: dict[str, Callable[[], Coroutine[None, None, None]]] = {
            "switches/supervisors": driven.run,
            "bus/gateway": gateway.run,
            "leases/expiry": leases.run,
            "leases/requests": requests.run,
            "transfers/ends": transfers.run,
            "leases/baselines": partial(baselines.run, reconfigurer),
            "records/writer": self._recorder.run,
            "records/retention": retention.run,
            "journal/recover": recovery.run,
            "switches/drift": drift.run,
            "sets/keep": reconfigurer.sets.run,
            "jobs": jobs.run,
            "jobs/events": self._event_log.run,
            "hosts/settings": settings.run,
            "runs/faults": faults.run,
            "hosts/leases": delegations.run,
            "hosts/selections": selections.run,
            "bus/runs": topics.run,
            "runs/queue": runs.run,
            "loop/lag": self._lag_watch.run,
            "limits/tell": partial(self._limits.run, sink),
        }
        if self._space is not None:
            watch = SpaceWatch(self._process.data_dir, self._space, machine.offload, self._emit)
            self._tasks["disk/space"] = watch.run
        await runs.open()

    async def run(self) -> None:
        """Until cancelled. Ends with the runs in their safe states and every document written."""
        self._emit(
            DaemonStarted(
                version=self._process.version,
                pid=self._process.pid,
                testbed=self._in_use.testbed.name,
                data_dir=self._process.data_dir,
                died_wall_ns=UNSET if self._died_wall_ns is None else self._died_wall_ns,
            )
        )
        if (damage := self._journal.damage) is not None:
            self._emit(JournalDamaged(why=damage.why, aside=damage.aside, held=[*damage.held]))
        self._catch_up.tell(self._sink)
        try:
            async with asyncio.TaskGroup() as group:
                for name, work in self._tasks.items():
                    group.create_task(work(), name=f"hwd:{name}")
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
            try:
                await asyncio.shield(self._event_log.close())
            except HwdError as error:  # its file has them
                log.warning("the next start writes the last events of jobs to the records: %s", error)
            self._records.close()

    def looked(self) -> bool:
        """Whether each switch that the daemon drives was read, or a first attempt to connect to it failed."""
        return self._driven.looked()

    def refused_client(self, client_id: str, why: str) -> None:
        """The broker refused a client with this id: an agent without its password, or a stranger."""
        self._gateway.refused(client_id, why)

    def _note_records(self, failure: HwdError | None) -> None:
        name = self._records.name
        fact = RecordsWritten(records=name) if failure is None else RecordsRefused(records=name, why=str(failure))
        self._emit(fact)

    async def _close(self) -> None:
        self.reloads.stop()
        try:
            async with asyncio.timeout(CLOSE_WITHIN_S + self._in_use.testbed.transfers.drain_s):
                try:
                    await self.service.close()
                finally:  # after a timeout too: a pending confirm has no other chance before the next start
                    self.reconfigurer.write_ends()
                await self._topics.flush()
        except TimeoutError:
            left = ", ".join(map(str, self.reconfigurer.under_way)) or "nothing"
            log.error("not all was brought back within %g s; the next start goes on with: %s", CLOSE_WITHIN_S, left)
