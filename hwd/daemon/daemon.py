"""The daemon: everything that watches, plans, drives and records one testbed, in one event loop.

daemon = Daemon(testbed=..., machine=..., storage=..., rack=..., ...)
await daemon.open()
await daemon.run()          # until cancelled; then the runs are aborted into their safe states
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial

from msgspec import UNSET

from hwd.daemon.assembly.board import Board
from hwd.daemon.assembly.engine import Engine
from hwd.daemon.assembly.foundation import Foundation
from hwd.daemon.assembly.hosts import Hosts, has_switches
from hwd.daemon.assembly.job_work import JobWork
from hwd.daemon.assembly.leasing import Leasing
from hwd.daemon.assembly.offer import service_of
from hwd.daemon.assembly.past import Past
from hwd.daemon.assembly.run_work import RunWork
from hwd.daemon.disk_space import watch_space
from hwd.daemon.fanout import Fanout
from hwd.daemon.lag import watch_lag
from hwd.daemon.limits import Limits
from hwd.daemon.reload import Reload, TestbedFile
from hwd.daemon.retention import Retention, unfinished
from hwd.daemon.seams import Machine, Process, RackAccess, Storage
from hwd.daemon.set_switch_asks import SetSwitchAsks
from hwd.fabric.fabric import Fabric
from hwd.fabric.in_use import InUse
from hwd.jobs.event_log import EventLog
from hwd.model.daemon import DaemonStarted, DaemonStopped, JournalDamaged, RecordsRefused, RecordsWritten
from hwd.model.testbed import Testbed
from hwd.ports.ledger import Ledger
from hwd.rack.nic_ports import NicPorts
from hwd.rack.rack import Rack
from hwd.rack.ready_links import ReadyLinks
from hwd.reconfigure.journal.identity import JournalIdentity
from hwd.reconfigure.journal.journal import Journal
from hwd.reconfigure.journal.records_catch_up import RecordsCatchUp
from hwd.records.recorder import RecordingSink
from hwd.telemetry import Budget, Metrics
from hwd.web.hub import Hub
from hwd.web.rack_status import RackStatus
from hwd.web.stream import EventStream
from hwd_agents.wire import ClaimOperation, ClaimTransfer, EndOperation, EndTransfers, JoinJob, SwitchPreparedSet
from hwd_drivers.core.documents import Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import HwdError

CLOSE_WITHIN_S = 10.0
"""The time limit for runs and applies to reach their safe states when the daemon stops. Each takes 5 s at most, all at
once."""
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
        on_turn: Callable[[float], None] = lambda lag_s: None,
        testbed_file: TestbedFile | None = None,
    ) -> None:
        self._ports = NicPorts()
        self._ready = ReadyLinks(self._ports)
        self.metrics = Metrics(Budget.of(testbed), self._ready)
        self.hub = Hub()
        self.events = EventStream(self.hub, boot=process.boot)
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
        self._on_turn = on_turn

    async def open(self) -> None:
        """Read records and journal, close crashed runs in the records, and build the parts. Touches no device."""
        await self._records.open()
        await self._identity.load()
        await self._catch_up.read()
        base = self._foundation()
        past = await Past.open(base)
        board = await Board.open(base)
        self._driven, self._died_wall_ns = board.driven, board.daemonboard.died_wall_ns
        wanted = {name: frozenset(ones) for name, ones in past.desired.crossconnects().items()}
        self._ready.expect(base.fabric.routed_of(wanted))
        hosts = await Hosts.open(base, board.switches)
        self._gateway = hosts.gateway
        leasing = await Leasing.open(base)
        await hosts.load(base)
        leases = leasing.leases
        engine = await Engine.open(
            base, self._journal, self._identity, past=past, board=board, hosts=hosts, leases=leases
        )
        self.reconfigurer = engine.reconfigurer
        jobs = await JobWork.open(base, self._event_log, board=board, hosts=hosts, engine=engine, leases=leases)
        rack = RackStatus(
            in_use=base.in_use,
            version=self._process.version,
            commit=str(self._process.commit),
            rack=Rack(switches=board.reported, ports=self._ports, links=board.links, changes=board.changes),
            alerts=board.alerts,
            own=board.daemonboard,
            gateway=hosts.gateway,
            delegations=hosts.delegations,
            reconfigurer=engine.reconfigurer,
            recorder=self._recorder,
        )
        runs = RunWork.of(
            base,
            lambda: self.reloads.text,
            rack=rack,
            hosts=hosts,
            engine=engine,
            jobs=jobs.of_runs,
            history=past.history,
            leases=leases,
        )
        self._topics = runs.topics
        self.reloads = Reload(
            file=self._testbed_file,
            in_use=base.in_use,
            text=self._testbed_text,
            parts=(
                *(base.ledger, past.move_counts, past.desired, board.reported, board.links, board.changes),
                *(engine.planner, engine.drift, engine.transfers, self.metrics),
            ),
            switches=board.driven,
            ledger=base.ledger,
            runs=runs.runs,
            crossconnects=board.links.state,
            clock=base.clock,
            emit=self._emit,
            recorded=self._recorder.flush,
        )
        self.service = service_of(
            base,
            rack,
            self.reloads,
            events=self.events,
            metrics=self.metrics,
            engine=engine,
            hosts=hosts,
            leasing=leasing,
            jobs=jobs,
            runs=runs,
        )
        asks = hosts.gateway.asks
        asks.serve(ClaimTransfer, jobs.asks.claim_transfer)
        asks.serve(EndTransfers, jobs.asks.end_transfers)
        asks.serve(JoinJob, jobs.asks.join)
        asks.serve(ClaimOperation, jobs.asks.claim)
        asks.serve(EndOperation, jobs.asks.end)
        asks.serve(SwitchPreparedSet, SetSwitchAsks(base.in_use, self.service.sets, engine.reconfigurer).switch)

        self._sink.subscribe(leasing.ends, engine.baselines, engine.transfers, jobs.rates)
        self._sink.subscribe(past.history, past.device_times, past.outcomes, past.move_counts, past.desired)
        self._sink.subscribe(board.reported, board.links, board.changes, board.daemonboard, board.alerts)
        self._sink.subscribe(hosts.delegations)  # an agent may claim what no host owns
        if has_switches(base):
            self._sink.subscribe(hosts.switches, hosts.selections)
        self._sink.subscribe(engine.reconfigurer, engine.reconfigurer.sets, engine.drift, engine.recovery)
        self._sink.subscribe(runs.runs.recovery, runs.runs.board, runs.topics, runs.light)
        self._sink.subscribe(jobs.light_changes)  # after those who know where sets and switches are
        retention = Retention(
            base.in_use,
            self._records.old_documents,
            needed=partial(unfinished, self._journal),
            clock=base.clock,
            emit=self._emit,
        )
        self._tasks: dict[str, Callable[[], Coroutine[None, None, None]]] = {
            "switches/supervisors": board.driven.run,
            "bus/gateway": hosts.gateway.run,
            "leases/expiry": leases.run,
            "leases/requests": leasing.requests.run,
            "transfers/ends": engine.transfers.run,
            "leases/baselines": partial(engine.baselines.run, engine.reconfigurer),
            "records/writer": self._recorder.run,
            "records/retention": retention.run,
            "journal/recover": engine.recovery.run,
            "switches/drift": engine.drift.run,
            "sets/keep": engine.reconfigurer.sets.run,
            "jobs": jobs.jobs.run,
            "jobs/events": self._event_log.run,
            "hosts/settings": hosts.settings.run,
            "runs/faults": runs.faults.run,
            "hosts/leases": hosts.delegations.run,
            "hosts/selections": hosts.selections.run,
            "bus/runs": runs.topics.run,
            "runs/queue": runs.runs.run,
            "loop/lag": partial(watch_lag, self._emit, self._on_turn),
            "limits/tell": partial(self._limits.run, self._sink),
        }
        if self._space is not None:
            self._tasks["disk/space"] = partial(
                watch_space, self._process.data_dir, self._space, self._machine.offload, self._emit
            )
        await runs.runs.open()

    def _foundation(self) -> Foundation:
        return Foundation(
            in_use=self._in_use,
            machine=self._machine,
            process=self._process,
            access=self._rack,
            records=self._records,
            recorder=self._recorder,
            sink=self._sink,
            emit=self._emit,
            limits=self._limits,
            ledger=Ledger(lease_required=self._in_use.testbed.leases.required),
            ports=self._ports,
            ready=self._ready,
        )

    async def run(self) -> None:
        """Run the daemon until cancelled. Ends with the runs in their safe states and every document written."""
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
