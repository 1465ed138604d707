"""Metrics for Prometheus, made from documents and nothing else.

metrics = Metrics(Budget.of(testbed))     # a sink
exposition = metrics.render(accept)
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from prometheus_client.core import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from hwd.model.limit import Limit
from hwd.model.run import RunState
from hwd.telemetry.buckets import SERIES, Buckets
from hwd.telemetry.budget import RUNS_SHOWN, Budget
from hwd.telemetry.clocks import Clocks
from hwd.telemetry.exposition import Exposition, wants_openmetrics
from hwd.telemetry.links import Links
from hwd.telemetry.optics import Optics
from hwd.telemetry.port_counters import PortCounters
from hwd.telemetry.reading import mapping, number, rows, text, texts
from hwd.telemetry.series import Series
from hwd.telemetry.switches import Switches
from hwd.timeline.stage import StageName
from hwd_drivers.core.documents import Document

RECONFIGURATION_OUTCOMES = ("confirmed", "rolled-back", "failed")
RECONFIGURATION_STATES = (
    *("planned", "journaled", "driving", "read-back", "driven"),
    *("waiting", "awaiting-confirm", "confirming", "rolling-back"),
)
SELECTION_OUTCOMES = ("up", "not-up", "failed", "unknown")
"""Of `hwd_agents.switches.request.Selected`, but for `refused`: a refused selection changes nothing."""
RUN_OUTCOMES = tuple(state for state in RunState if state.ended)
RUN_STATES = tuple(state for state in RunState if not state.ended)
LIMITS = frozenset(map(str, Limit))
"""Closed sets: a counter of one of them begins at 0, else its first increase would be none to Prometheus."""
_STAGES = frozenset(map(str, StageName))
_NS_IN_S = 1e9


class Metrics(Collector):
    """A `Sink`, and the collector in a registry of its own. There are no more series than the budget allows.

    What is not known has no series: a dark port has no power, a lost host no carrier.
    """

    def __init__(self, budget: Budget) -> None:
        hosts, ports = budget.hosts, budget.ports
        self._interfaces: dict[tuple[str, str], str] = {}
        self._boots: dict[str, str] = {}
        self._leases: dict[str, None] = {}
        self._states: dict[str, str] = {}
        self._runs_now: dict[str, str] = {}
        self._journal: dict[str, bool] = {}
        """The open entries of the journal, and whether each waits for an operator."""
        self._unwritten: set[str] = set()
        self._failing: dict[str, set[str]] = {}
        """By host, the tasks of the daemon that fail."""

        self._build_info = Series("hwd_build_info", "Version of the daemon", "version", limit=1)
        self._reconfigurations = Series(
            "hwd_reconfigurations_total",
            "Reconfigurations that ended",
            "outcome",
            limit=len(RECONFIGURATION_OUTCOMES),
            counter=True,
        )
        self._under_way = Series(
            "hwd_reconfigurations_under_way",
            "Reconfigurations that have not ended",
            "state",
            limit=len(RECONFIGURATION_STATES),
        )
        self._journal_open = Series(
            "hwd_journal_open", "Reconfigurations that were cut off and are not undone yet", limit=1
        )
        self._journal_held = Series(
            "hwd_journal_held",
            "Those of hwd_journal_open that wait for an operator, as the journal was damaged",
            limit=1,
        )
        self._journal_unwritten = Series(
            "hwd_journal_unwritten", "Reconfigurations that have ended, which the journal does not take yet", limit=1
        )
        self._recoveries = Series(
            "hwd_recoveries_total",
            "Reconfigurations that were undone after they were cut off",
            "outcome",
            limit=len(RECONFIGURATION_OUTCOMES),
            counter=True,
        )
        nic = ("host", "device")
        self._carrier = Series("hwd_nic_carrier", "1 while the kernel has carrier", *nic, limit=ports)
        self._carrier_changes = Series(
            "hwd_nic_carrier_changes_total", "Carrier changes that the kernel counted", *nic, limit=ports, counter=True
        )
        self._rdma = Series("hwd_rdma_port_active", "1 while the RDMA port is active", *nic, limit=ports)
        self._link_ready = Series(
            "hwd_link_ready",
            "1 from the first transfer until the carrier falls, 0 while an end has no carrier",
            "link",
            limit=ports,
        )
        self._agent_up = Series("hwd_agent_up", "1 while the agent is there", "host", limit=hosts)
        self._trouble = Series(
            "hwd_host_trouble", "Parts of the daemon's work for this host that fail", "host", limit=hosts
        )
        self._events = Series(
            "hwd_agent_events_total", "Events that an agent reported", "host", limit=hosts, counter=True
        )
        self._lost = Series(
            "hwd_agent_events_lost_total",
            "Events that an agent could not hold or see",
            "host",
            limit=hosts,
            counter=True,
        )
        self._selections = Series(
            "hwd_selections_total",
            "Settings of own switches that jobs of a host asked for",
            *("host", "outcome"),
            limit=hosts * len(SELECTION_OUTCOMES),
            counter=True,
        )
        self._bus = Series("hwd_bus_connected", "1 while there is a broker", limit=1)
        self._garbage = Series(
            "hwd_bus_garbage_total", "Messages that nobody could use", "host", limit=hosts, counter=True
        )
        self._lease_count = Series("hwd_leases", "Leases in force", limit=1)
        self._runs = Series("hwd_runs_total", "Runs that ended", "outcome", limit=len(RUN_OUTCOMES), counter=True)
        self._runs_under_way = Series("hwd_runs_under_way", "Runs that have not ended", "state", limit=len(RUN_STATES))
        self._progress = Series(
            "hwd_run_progress_ratio",
            "Steps behind a run that has begun and not ended, of all its steps",
            *("run", "playbook"),
            limit=RUNS_SHOWN,
        )
        self._lag = Series("hwd_event_loop_lag_seconds", "Longest that a timer of ours waited lately", limit=1)
        self._limits = Series(
            "hwd_limit_reached_total",
            "How often something from outside reached a limit, and was refused",
            "limit",
            limit=len(Limit),
            counter=True,
        )
        self._refused = Series(
            "hwd_series_refused_total",
            "Values that were left out, since their metric has all series that the testbed allows",
            limit=1,
            counter=True,
        )

        self._reconfiguration_seconds = Buckets(
            "hwd_reconfiguration_seconds", "From the start of an apply to its end", limit=SERIES
        )
        self._stage_seconds = Buckets(
            "hwd_stage_seconds", "Stages of links that were reconfigured", "stage", limit=len(StageName) * SERIES
        )
        self._switches = Switches(switches=budget.switches, ends=budget.ends)
        self._port_counters = PortCounters(hosts=hosts, ports=ports)
        self._clocks = Clocks(hosts=hosts)
        self._optics = Optics(ports=ports, lanes=budget.lanes)
        own = (value for value in vars(self).values() if isinstance(value, Series | Buckets))
        self._all = (*own, *self._switches, *self._clocks, *self._port_counters, *self._optics)
        self._links = Links(self._link_ready)
        self._begin()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._rendering = asyncio.Lock()

    def render(self, accept: str = "") -> Exposition:
        """The values of this moment, in the format that an `Accept` header asks for."""
        return Exposition(self._registry, openmetrics=wants_openmetrics(accept), lock=self._rendering)

    def describe(self) -> Iterator[Metric]:
        """All families, without their series: the registry reserves their names."""
        return chain.from_iterable(metric.describe() for metric in self._all)

    def collect(self) -> Iterator[Metric]:
        """All values, read when the first family is requested. A large family comes in several parts."""
        self._optics.settle()
        self._refused.set(sum(metric.refused for metric in self._all))
        yield from chain.from_iterable([metric.collect() for metric in self._all])

    @property
    def limit(self) -> int:
        """Series at most, whatever hosts and switches report."""
        return sum(metric.limit for metric in self._all)

    def __iter__(self) -> Iterator[Series | Buckets]:
        return iter(self._all)

    def __call__(self, document: Document) -> None:
        data = document.data
        if document.kind == "host.event":  # thousands a second
            self._take_event(text(data, "host"), data)
            return
        subject, _, _ = document.kind.partition(".")
        match subject:
            case "switch":
                self._switches.take(document.kind, text(data, "switch"), data)
            case "host" | "clock":
                self._take_host(document.kind, text(data, "host"), data)
            case "lease":
                self._take_lease(document.kind, text(data, "lease"))
            case "timeline":
                self._take_timeline(data, document.wall_ns / _NS_IN_S)
            case "reconfiguration":
                self._take_reconfiguration(document.kind, data, document.wall_ns / _NS_IN_S)
            case "run":
                self._take_run(document.kind, data)
            case _:
                self._take_rest(document.kind, data)

    def _begin(self) -> None:
        for outcome in RECONFIGURATION_OUTCOMES:
            self._reconfigurations.add(0, outcome)
        for outcome in RECONFIGURATION_OUTCOMES[:2]:
            self._recoveries.add(0, outcome)
        for outcome in RUN_OUTCOMES:
            self._runs.add(0, outcome)
        for limit in Limit:
            self._limits.add(0, limit)
        self._lease_count.set(0)
        self._count_journal()
        self._count(self._under_way, RECONFIGURATION_STATES, self._states)
        self._count(self._runs_under_way, RUN_STATES, self._runs_now)

    def _take_host(self, kind: str, host: str, data: Mapping[str, Any]) -> None:
        match kind:
            case "host.up":
                self._agent_up.set(1, host)
            case "host.down":
                self._agent_up.set(0, host)
                self._links.away(host)
                self._port_counters.drop(host)
                self._clocks.away(host)
                self._optics.away(host)
                for series in (self._carrier, self._carrier_changes, self._rdma):
                    series.drop(host)
            case "host.birth":
                self._agent_up.set(1, host)
                self._boots[host] = text(data, "boot")
                self._lost.add(0, host)
                self._garbage.add(0, host)
                self._trouble.set(len(self._failing.get(host, ())), host)
                self._clocks.born(host, data)
                ports = mapping(data, "ports")
                self._take_ports(host, ports)
                interfaces = {port: self._interfaces[host, port] for port in ports}
                self._optics.born(host, interfaces, mapping(data, "inventory"))
            case "host.trouble":
                failing = self._failing.setdefault(host, set())
                (failing.add if text(data, "why") else failing.discard)(text(data, "task"))
                self._trouble.set(len(failing), host)
            case "host.selection" if text(data, "outcome") in SELECTION_OUTCOMES:
                self._selections.add(1, host, text(data, "outcome"))
            case "host.lost":
                self._lost.add(max(0.0, number(data, "count") or 0.0), host)
            case "host.garbage":
                self._garbage.add(number(data, "count") or 1.0, host)
            case "clock.aligned":
                self._clocks.aligned(host, data)
            case "clock.stepped":
                self._clocks.stepped(host)

    def _take_ports(self, host: str, ports: Mapping[str, Any]) -> None:
        for series in (self._carrier, self._carrier_changes, self._rdma):
            series.drop(host)
        self._links.away(host)
        for port in ports:
            note = mapping(ports, port)
            self._interfaces[host, port] = text(note, "interface") or port
            self._take_carrier(host, port, note)
            if (active := number(note, "rdma")) is not None:
                self._rdma.set(active, host, self._interfaces[host, port])

    def _take_carrier(self, host: str, port: str, note: Mapping[str, Any]) -> None:
        device = self._interfaces.get((host, port), port)
        if (carrier := number(note, "carrier")) is not None:
            self._carrier.set(carrier, host, device)
            self._links.carrier(f"{host}.{port}", carrier > 0)
        if (changes := number(note, "carrier_changes")) is not None:
            self._carrier_changes.set(max(0.0, changes), host, device)

    def _take_event(self, host: str, event: Mapping[str, Any]) -> None:
        self._events.add(1, host)
        boot = text(event, "boot")
        if event.get("past") is True or boot != self._boots.get(host, boot):
            return  # an earlier one, whose spool is read to its end: its states are over
        port, data = text(event, "port"), mapping(event, "data")
        device = self._interfaces.get((host, port), port)
        match text(event, "type"):
            case "carrier":
                self._take_carrier(host, port, data)
            case "interface" if data.get("present") is False:
                for series in (self._carrier, self._carrier_changes, self._rdma):
                    series.drop(host, device)
                self._optics.gone(host, device)
                self._links.carrier(f"{host}.{port}", False)
            case "monitors":
                self._optics.take(host, device, data)
            case "dark" | "light":
                self._optics.light(host, device, data.get("lanes"))
            case "rdma" if (active := number(data, "active")) is not None:
                self._rdma.set(active, host, device)
            case "counters":
                self._port_counters.take(host, device, data)
            case "ready":
                self._links.transferred(f"{host}.{port}")

    def _take_timeline(self, data: Mapping[str, Any], wall_s: float) -> None:
        for link in rows(data, "links"):
            ready = [instant for instant in rows(link, "instants") if instant.get("name") == "ready"]
            known = any(text(instant, "knowledge") in ("seen", "never-left") for instant in ready)
            self._links.timed(text(link, "link"), ready=known)
            for stage in rows(link, "stages"):
                name, seconds = text(stage, "name"), number(stage, "seconds")
                if seconds is not None and name in _STAGES:
                    self._stage_seconds.observe(seconds, name, by=_by(data), wall_s=wall_s)

    def _take_reconfiguration(self, kind: str, data: Mapping[str, Any], wall_s: float) -> None:
        id = text(data, "reconfiguration")
        match kind:
            case "reconfiguration.started":
                removed = [
                    f"{text(move, 'switch')}:{one}" for move in rows(data, "moves") for one in texts(move, "remove")
                ]
                links = [
                    (text(link, "link"), link.get("kept") is True, texts(link, "crossconnects"))
                    for link in rows(data, "links")
                ]
                self._links.begin(id, links, removed)
            case "reconfiguration.commanded" if (seconds := number(data, "window_s")) is not None:
                self._switches.unguarded(text(data, "switch"), seconds)
            case "reconfiguration.state":
                self._states[id] = text(data, "state")
                self._count(self._under_way, RECONFIGURATION_STATES, self._states)
            case "reconfiguration.ended":
                self._states.pop(id, None)
                self._count(self._under_way, RECONFIGURATION_STATES, self._states)
                self._links.end(id, text(data, "outcome"))
                self._reconfigurations.add(1, text(data, "outcome"))
                if (seconds := number(data, "seconds")) is not None:
                    self._reconfiguration_seconds.observe(seconds, by=_by(data), wall_s=wall_s)

    def _take_run(self, kind: str, data: Mapping[str, Any]) -> None:
        run, state = text(data, "run"), text(data, "state")
        match kind:
            case "run.state":
                self._runs_now.pop(run, None)
                self._progress.drop(run)
                if state in RUN_STATES:
                    self._runs_now[run] = state
                    self._take_progress(run, data)
                self._count(self._runs_under_way, RUN_STATES, self._runs_now)
            case "run.ended":
                self._runs.add(1, text(data, "outcome"))

    def _take_progress(self, run: str, data: Mapping[str, Any]) -> None:
        step, steps = number(data, "step"), number(data, "steps")
        if step is not None and steps:
            self._progress.set(min(max((step - 1) / steps, 0.0), 1.0), run, text(data, "playbook"))

    def _take_lease(self, kind: str, lease: str) -> None:
        if kind in ("lease.released", "lease.taken-back"):
            self._leases.pop(lease, None)
        else:
            self._leases[lease] = None
        self._lease_count.set(len(self._leases))

    def _count_journal(self) -> None:
        self._journal_open.set(len(self._journal))
        self._journal_held.set(sum(self._journal.values()))
        self._journal_unwritten.set(len(self._unwritten))

    def _take_rest(self, kind: str, data: Mapping[str, Any]) -> None:
        match kind:
            case "daemon.started":
                self._build_info.drop()
                self._build_info.set(1, text(data, "version"))
            case "daemon.lag" if (lag_s := number(data, "seconds")) is not None:
                self._lag.set(lag_s)
            case "limit.reached" if text(data, "limit") in LIMITS:
                self._limits.add(max(0.0, number(data, "count") or 0.0), text(data, "limit"))
            case "daemon.recovered":
                self._journal.pop(text(data, "reconfiguration"), None)
                self._count_journal()
                self._recoveries.add(1, text(data, "outcome"))
            case "journal.given-up":
                self._journal.pop(text(data, "reconfiguration"), None)
                self._count_journal()
            case "journal.open":
                self._journal[text(data, "reconfiguration")] = data.get("held") is True
                self._count_journal()
            case "journal.refused":
                self._unwritten.add(text(data, "reconfiguration"))
                self._count_journal()
            case "journal.written":
                self._unwritten.discard(text(data, "reconfiguration"))
                self._count_journal()
            case "bus.up" | "bus.down":
                self._bus.set(float(kind == "bus.up"))

    def _count(self, series: Series, all: tuple[str, ...], now: Mapping[str, str]) -> None:
        counts = Counter(now.values())
        for state in all:
            series.set(counts[state], state)


def _by(data: Mapping[str, Any]) -> dict[str, str]:
    """The labels of an exemplar: the reconfiguration and the run."""
    return {key: found for key in ("reconfiguration", "run") if (found := text(data, key))}
