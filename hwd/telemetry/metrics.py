"""Metrics for Prometheus, made from documents and nothing else.

metrics = Metrics(Budget.of(testbed), ready)     # a sink, after `ready`
exposition = metrics.render(accept)
"""

import asyncio
from collections.abc import Iterator
from itertools import chain

from msgspec import UNSET
from prometheus_client.core import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from hwd.fabric.fabric import Fabric
from hwd.model.daemon import (
    BusDown,
    BusUp,
    DaemonDisk,
    DaemonLag,
    DaemonRecovered,
    DaemonStarted,
    JournalGivenUp,
    JournalOpen,
    JournalRefused,
    JournalWritten,
    LimitReached,
    RecordsDropped,
    RecordsRefused,
    RecordsWritten,
    TestbedReloaded,
)
from hwd.model.host import HostEvent, HostFact
from hwd.model.interlock import InterlockName
from hwd.model.job import JobEnded, JobFact, JobGranted, JobMeasured, JobResumed, JobStarted, JobState, JobSwitched
from hwd.model.lease import LeaseBaseline, LeaseFact, LeaseReleased, LeaseRequestFact, LeaseTakenBack
from hwd.model.limit import Limit
from hwd.model.plan_summary import InterlockRefused
from hwd.model.reconfiguration import (
    ReconfigurationCommanded,
    ReconfigurationEnded,
    ReconfigurationFact,
    ReconfigurationState,
)
from hwd.model.run import RunState, RunStatus
from hwd.model.run_facts import RunEnded
from hwd.model.stage import StageName
from hwd.model.timeline import Timeline
from hwd.model.transfer import TransferClaimed, TransferCut, TransferEnded, TransferFact, TransferRefused
from hwd.rack.ready_links import ReadyLinks
from hwd.telemetry.buckets import SERIES, Buckets
from hwd.telemetry.budget import JOBS_SHOWN, RUNS_SHOWN, Budget
from hwd.telemetry.exposition import Exposition, wants_openmetrics
from hwd.telemetry.hosts import Hosts
from hwd.telemetry.series import Series
from hwd.telemetry.switches import Switches
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.devices.facts import SwitchFact

RECONFIGURATION_OUTCOMES = ("confirmed", "rolled-back", "failed")
RECONFIGURATION_STATES = (
    *("planned", "journaled", "driving", "read-back", "driven"),
    *("waiting", "awaiting-confirm", "confirming", "rolling-back"),
)
JOB_OUTCOMES = tuple(state for state in JobState if state.ended)
EFFICIENCIES = ("gamma", "delta", "theta", "eta")
TOPO_WRITES = ("applied", "not-ready")
RUN_OUTCOMES = tuple(state for state in RunState if state.ended)
RUN_STATES = tuple(state for state in RunState if not state.ended)
"""Closed sets: a counter of one of them begins at 0, else its first increase would be none to Prometheus."""
_NS_IN_S = 1e9


class Metrics(Collector):
    """A `Sink`, and the collector in a registry of its own. There are no more series than the budget allows.

    What is not known has no series: a dark port has no power, a lost host no carrier.
    """

    def __init__(self, budget: Budget, ready: ReadyLinks) -> None:
        self._ready = ready
        self._leases: dict[str, None] = {}
        self._states: dict[str, str] = {}
        self._runs_now: dict[str, str] = {}
        self._jobs_now: set[str] = set()
        self._journal: dict[str, bool] = {}
        """The open entries of the journal, and whether each waits for an operator."""
        self._unwritten: set[str] = set()

        self._build_info = Series("hwd_build_info", "Version of the daemon", "version")
        self._reconfigurations = Series(
            "hwd_reconfigurations_total", "Reconfigurations that ended", "outcome", values=RECONFIGURATION_OUTCOMES
        )
        self._under_way = Series(
            "hwd_reconfigurations_under_way",
            "Reconfigurations that have not ended",
            "state",
            values=RECONFIGURATION_STATES,
        )
        self._journal_open = Series("hwd_journal_open", "Reconfigurations that were cut off and are not undone yet")
        self._journal_held = Series(
            "hwd_journal_held", "Those of hwd_journal_open that wait for an operator, as the journal was damaged"
        )
        self._journal_unwritten = Series(
            "hwd_journal_unwritten", "Reconfigurations that have ended, which the journal does not take yet"
        )
        self._records_unwritten = Series(
            "hwd_records_unwritten", "1 while the records cannot be written, and documents wait in memory"
        )
        self._died = Series(
            "hwd_daemon_died_total", "1 where the process of the daemon before this one did not end in order, else 0"
        )
        self._recoveries = Series(
            "hwd_recoveries_total",
            "Reconfigurations that were undone after they were cut off",
            "outcome",
            limit=len(RECONFIGURATION_OUTCOMES),
            values=RECONFIGURATION_OUTCOMES[:2],
        )
        self._interlock_refusals = Series(
            "hwd_interlock_refusals_total",
            "Plans, and applies of them, that an interlock refused",
            "interlock",
            values=[*InterlockName],
        )
        self._transfers = Series(
            "hwd_transfers_in_flight", "Transfers that processes of a host are sending now", "host", limit=budget.hosts
        )
        self._transfers_refused = Series(
            "hwd_transfers_refused_total", "Transfers that were not let onto their ports", "host", limit=budget.hosts
        )
        self._transfers_cut = Series(
            "hwd_transfers_cut_total",
            "Transfers whose light a reconfiguration took, most by a way back",
            "host",
            limit=budget.hosts,
        )
        self._link_ready = Series(
            "hwd_link_ready",
            "1 from the first transfer until the carrier falls, 0 while an end has no carrier",
            "link",
            limit=budget.ports,
        )
        self._bus = Series("hwd_bus_connected", "1 while there is a broker")
        self._lease_count = Series("hwd_leases", "Leases in force")
        self._runs = Series("hwd_runs_total", "Runs that ended", "outcome", values=RUN_OUTCOMES)
        self._runs_under_way = Series("hwd_runs_under_way", "Runs that have not ended", "state", values=RUN_STATES)
        self._progress = Series(
            "hwd_run_progress_ratio",
            "Steps behind a run that has begun and not ended, of all its steps",
            *("run", "playbook"),
            limit=RUNS_SHOWN,
        )
        self._jobs = Series("hwd_jobs_total", "Jobs that ended", "outcome", values=JOB_OUTCOMES)
        self._jobs_under_way = Series("hwd_jobs_under_way", "Jobs that have not ended")
        self._job_efficiency = Series(
            "hwd_job_efficiency_ratio",
            "Efficiency of a job over the operations of the last minute: eta = gamma x delta x theta",
            *("job_id", "factor"),  # Prometheus puts a label `job` of its own onto what it scrapes
            limit=JOBS_SHOWN * len(EFFICIENCIES),
        )
        self._topo_writes = Series(
            "hwd_topo_writes_total",
            "Targets that control planes of jobs brought the light to, or could not",
            "outcome",
            values=TOPO_WRITES,
        )
        self._lag = Series("hwd_event_loop_lag_seconds", "Longest that a timer of ours waited lately")
        self._free = Series("hwd_data_free_bytes", "What the daemon may still write for records and journal")
        self._dropped = Series(
            "hwd_records_dropped_total",
            "Documents outside of runs that were deleted by the retention of the testbed",
            "group",
            values=("documents", "history"),
        )
        self._limits = Series(
            "hwd_limit_reached_total",
            "How often something from outside reached a limit, and was refused",
            "limit",
            values=[*Limit],
        )
        self._refused = Series(
            "hwd_series_refused_total",
            "Values that were left out, since their metric has all series that the testbed allows",
        )

        self._reconfiguration_seconds = Buckets(
            "hwd_reconfiguration_seconds", "From the start of an apply to its end", limit=SERIES
        )
        self._stage_seconds = Buckets(
            "hwd_stage_seconds", "Stages of links that were reconfigured", "stage", limit=len(StageName) * SERIES
        )
        self._job_stall_seconds = Buckets(
            "hwd_job_stall_seconds",
            "For how long a rank waited for its control plane before an operation",
            limit=SERIES,
        )
        self._switches = Switches(switches=budget.switches, ends=budget.ends)
        self._hosts = Hosts(hosts=budget.hosts, ports=budget.ports, lanes=budget.lanes)
        own = (value for value in vars(self).values() if isinstance(value, Series | Buckets))
        self._all = (*own, *self._switches, *self._hosts)
        for series in (self._jobs_under_way, self._records_unwritten, self._died, self._lease_count):
            series.add(0)
        self._count_journal()
        self._job_stall_seconds.begin()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._rendering = asyncio.Lock()

    def use_testbed(self, fabric: Fabric) -> None:
        """Go on with as many series as the testbed of this fabric may have."""
        for metric, sized in zip(self._all, Metrics(Budget.of(fabric.testbed), self._ready), strict=True):
            metric.limit = sized.limit

    def render(self, accept: str = "") -> Exposition:
        """The values of this moment, in the format that an `Accept` header asks for."""
        return Exposition(self._registry, openmetrics=wants_openmetrics(accept), lock=self._rendering)

    def describe(self) -> Iterator[Metric]:
        """All families, without their series: the registry reserves their names."""
        return chain.from_iterable(metric.describe() for metric in self._all)

    def collect(self) -> Iterator[Metric]:
        """All values, read when the first family is requested. A large family comes in several parts."""
        self._hosts.settle()
        self._refused.set(sum(metric.refused for metric in self._all))
        yield from chain.from_iterable([metric.collect() for metric in self._all])

    @property
    def limit(self) -> int:
        """Series at most, whatever hosts and switches report."""
        return sum(metric.limit for metric in self._all)

    def __iter__(self) -> Iterator[Series | Buckets]:
        return iter(self._all)

    def __call__(self, document: Document) -> None:
        for link in self._ready.changed:
            if (ready := self._ready.is_ready(link)) is None:
                self._link_ready.drop(link)
            else:
                self._link_ready.set(ready, link)
        match document.fact:
            case HostEvent() as event:  # thousands a second
                self._hosts.take_event(event)
            case SwitchFact() as fact:
                self._switches.take(fact)
            case HostFact() as fact:
                self._hosts.take(fact)
            case TransferFact() as fact:
                self._take_transfer(fact)
            case LeaseRequestFact() | LeaseBaseline():
                return  # it is in force when it is taken
            case LeaseFact() as fact:
                self._take_lease(fact)
            case ReconfigurationFact() as fact:
                self._take_reconfiguration(fact, document.wall_ns / _NS_IN_S)
            case JobFact() as fact:
                self._take_job(fact)
            case RunStatus() as status:
                self._take_run(status)
            case RunEnded(outcome=outcome):
                self._runs.add(1, outcome)
            case fact:
                self._take_daemon(fact)

    def _take_reconfiguration(self, fact: ReconfigurationFact, wall_s: float) -> None:
        id = fact.reconfiguration
        match fact:
            case ReconfigurationCommanded(switch=switch, window_s=window_s) if window_s is not None:
                self._switches.unguarded(switch, window_s)
            case ReconfigurationState(state=state):
                _move(self._under_way, self._states, id, state)
            case ReconfigurationEnded(outcome=outcome, seconds=seconds):
                _move(self._under_way, self._states, id, None)
                self._reconfigurations.add(1, outcome)
                self._reconfiguration_seconds.observe(seconds, by=_by(fact), wall_s=wall_s)
            case Timeline():
                self._take_timeline(fact, wall_s)

    def _take_timeline(self, timeline: Timeline, wall_s: float) -> None:
        for link in timeline.links:
            for stage in link.stages:
                if stage.seconds is not None:
                    self._stage_seconds.observe(stage.seconds, stage.name, by=_by(timeline), wall_s=wall_s)

    def _take_run(self, status: RunStatus) -> None:
        run = status.run
        _move(self._runs_under_way, self._runs_now, run, None if status.state.ended else status.state)
        self._progress.drop(run)
        if not status.state.ended and status.step is not None and status.steps:
            self._progress.set(min(max((status.step - 1) / status.steps, 0.0), 1.0), run, status.playbook)

    def _take_job(self, fact: JobFact) -> None:
        match fact:
            case JobStarted() | JobResumed():
                self._jobs_now.add(fact.job)
            case JobGranted(stall_s=stall_s):
                self._job_stall_seconds.observe(stall_s)
            case JobSwitched(why=why):
                self._topo_writes.add(1, TOPO_WRITES[bool(why)])
            case JobMeasured() if fact.job in self._jobs_now:
                known = {name: value for name in EFFICIENCIES if (value := getattr(fact, name)) is not None}
                self._job_efficiency.replace(known, fact.job)
            case JobEnded(outcome=outcome):
                self._jobs_now.discard(fact.job)
                self._job_efficiency.drop(fact.job)
                self._jobs.add(1, outcome)
        self._jobs_under_way.set(len(self._jobs_now))

    def _take_lease(self, fact: LeaseFact) -> None:
        if isinstance(fact, LeaseReleased | LeaseTakenBack):
            self._leases.pop(fact.lease, None)
        else:
            self._leases[fact.lease] = None
        self._lease_count.set(len(self._leases))

    def _take_transfer(self, fact: TransferFact) -> None:
        host = fact.host
        match fact:
            case TransferClaimed():
                self._transfers.add(1, host)
                self._transfers_refused.add(0, host)
                self._transfers_cut.add(0, host)
            case TransferEnded():
                self._transfers.add(-1, host)
            case TransferRefused():
                self._transfers_refused.add(1, host)
            case TransferCut():
                self._transfers_cut.add(1, host)

    def _count_journal(self) -> None:
        self._journal_open.set(len(self._journal))
        self._journal_held.set(sum(self._journal.values()))
        self._journal_unwritten.set(len(self._unwritten))

    def _take_daemon(self, fact: Fact) -> None:
        match fact:
            case DaemonStarted(version=version, died_wall_ns=died_wall_ns):
                self._died.add(float(died_wall_ns is not UNSET))
                self._build_info.drop()
                self._build_info.set(1, version)
            case TestbedReloaded(former_switches=former):
                for switch in former:
                    self._switches.forget(switch)
            case DaemonLag(seconds=seconds):
                self._lag.set(seconds)
            case DaemonDisk(free_bytes=int(free_bytes)):
                self._free.set(free_bytes)
            case DaemonDisk():
                self._free.drop()
            case InterlockRefused(interlock=interlock):
                self._interlock_refusals.add(1, interlock)
            case RecordsDropped(documents=of_documents, history=of_history):
                self._dropped.add(of_documents, "documents")
                self._dropped.add(of_history, "history")
            case RecordsRefused():
                self._records_unwritten.set(1)
            case RecordsWritten():
                self._records_unwritten.set(0)
            case LimitReached(limit=limit, count=count):
                self._limits.add(count, limit)
            case DaemonRecovered(reconfiguration=id, outcome=outcome):
                self._journal.pop(id, None)
                self._count_journal()
                self._recoveries.add(1, outcome)
            case JournalGivenUp(reconfiguration=id):
                self._journal.pop(id, None)
                self._count_journal()
            case JournalOpen(reconfiguration=id, held=held):
                self._journal[id] = held
                self._count_journal()
            case JournalRefused(reconfiguration=id):
                self._unwritten.add(id)
                self._count_journal()
            case JournalWritten(reconfiguration=id):
                self._unwritten.discard(id)
                self._count_journal()
            case BusUp():
                self._bus.set(1)
            case BusDown():
                self._bus.set(0)


def _move(series: Series, states: dict[str, str], id: str, state: str | None) -> None:
    """One thing is in another state now, or in none: count the things in both states anew."""
    before = states.pop(id, None)
    if state is not None:
        states[id] = state
    for changed in dict.fromkeys((before, state)):
        if changed is not None:
            series.set(sum(each == changed for each in states.values()), changed)


def _by(fact: ReconfigurationEnded | Timeline) -> dict[str, str]:
    """The labels of an exemplar: the reconfiguration and the run."""
    named = {"reconfiguration": fact.reconfiguration, "run": fact.run}
    return {key: found for key, found in named.items() if found}
