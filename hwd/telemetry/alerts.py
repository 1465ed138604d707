"""The alerts in force, from documents and nothing else: those of alerts.yml that the daemon can decide by itself.

alerts = Alerts(clock)      # a sink
alerts.in_force()           # the worst first
"""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from msgspec import UNSET, UnsetType

from hwd.model.answers.alerts import Alert
from hwd.model.documents.daemon import (
    BusDown,
    BusUp,
    DaemonDisk,
    DaemonLag,
    DaemonRecovered,
    JournalGivenUp,
    JournalOpen,
    JournalRefused,
    JournalWritten,
    LimitReached,
    TestbedReloaded,
)
from hwd.model.documents.hosts import (
    ClockAligned,
    ClockStepped,
    HostBirth,
    HostDown,
    HostEvent,
    HostFact,
    HostGarbage,
    HostLost,
    HostTrouble,
    HostUp,
)
from hwd.model.documents.jobs import JobEnded, JobFact, JobGranted, JobSwitched
from hwd.model.documents.reconfigurations import (
    ReconfigurationEnded,
    ReconfigurationFact,
    ReconfigurationStarted,
    ReconfigurationState,
)
from hwd.model.documents.runs import RunEnded
from hwd.model.documents.switches import SwitchDrift, SwitchOverrun, SwitchUnknown
from hwd.model.plural import plural
from hwd.model.run import RunState, RunStatus
from hwd.model.timeline import Timeline
from hwd.telemetry.alert_rules import RULES, WORST_FIRST
from hwd.telemetry.links import Links
from hwd_agents.wire.events import CarrierData, InterfaceData, RdmaData, ReadyData
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.devices.facts import SwitchCommand, SwitchDown, SwitchFact, SwitchRead, SwitchRestarted, SwitchUp

FLAPS = "CarrierFlaps"
FLAPS_MORE_THAN = int(RULES[FLAPS].limit)
PAST_MOST = 256
"""Past events that are remembered; beyond it those that count no more are deleted."""
DAEMON = "the daemon"

Key = tuple[str, str]
"""An alert and its subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Condition:
    """A state that lasts, or the last of some events, and when the first of them came; on the daemon's clock."""

    began_ns: int
    began_wall_ns: int
    last_ns: int
    summary: str


@dataclass(slots=True)
class _Port:
    carrier: bool | None = None
    rdma: bool | None = None


class Alerts:
    """A `Sink`. It begins empty: of events before the daemon started only Prometheus knows.

    An alert about a state is in force when that has lasted for its hold time, an alert about events for some minutes
    after the last of them. Where Prometheus adds up (reconfigurations under way, paused runs), here each has its own
    time: several short ones in sequence are none that stands.
    """

    TAKES: ClassVar = (
        *(BusUp, BusDown, DaemonDisk, DaemonLag, DaemonRecovered, LimitReached, TestbedReloaded),
        *(JournalGivenUp, JournalOpen, JournalRefused, JournalWritten),
        *(SwitchUp, SwitchDown, SwitchUnknown, SwitchRestarted, SwitchRead, SwitchCommand, SwitchOverrun, SwitchDrift),
        *(HostBirth, HostUp, HostDown, HostEvent, HostLost, HostGarbage, HostTrouble, ClockAligned, ClockStepped),
        *(ReconfigurationStarted, ReconfigurationState, ReconfigurationEnded, Timeline),
        *(RunStatus, RunEnded, JobGranted, JobSwitched, JobEnded),
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._now: tuple[int, int] = (0, 0)
        """The times of the document at hand: the daemon's clock, and unix time."""
        self._states: dict[Key, _Condition] = {}
        self._events: dict[Key, _Condition] = {}
        self._ports: dict[str, dict[str, _Port]] = {}
        self._changes: dict[str, dict[str, int]] = {}
        """By host and port: how many changes of the carrier the kernel has counted."""
        self._flaps: dict[Key, deque[tuple[int, int]]] = {}
        """By host and port: the times of the last changes."""
        self._flapping_since: dict[Key, int] = {}
        """By host and port: when there were too many."""
        self._failing: dict[str, dict[str, str]] = {}
        self._under_way: set[str] = set()
        self._ended_ns: int | None = None
        """When a reconfiguration ended last."""
        self._dark = _Dark()
        self._links = Links(self._dark)

    def in_force(self) -> list[Alert]:
        now_ns = self._clock.monotonic_ns()
        found = [
            _alert(key, one) for key, one in self._states.items() if now_ns - one.began_ns >= RULES[key[0]].for_s * 1e9
        ]
        found += [_alert(key, one) for key, one in self._events.items() if self._counts(key, one, now_ns)]
        found += self._flapping(now_ns)
        return sorted(found, key=lambda one: (WORST_FIRST[one.severity], one.since_wall_ns, one.name, one.subject))

    def __call__(self, document: Document) -> None:
        self._now = document.at_ns, document.wall_ns
        match document.fact:
            case HostEvent() as event:
                if isinstance(event.data, CarrierData | InterfaceData | RdmaData | ReadyData) and not event.past:
                    self._take_event(event)
            case SwitchFact() as fact:
                self._take_switch(fact)
            case HostFact() as fact:
                self._take_host(fact)
            case ReconfigurationFact() as fact:
                self._take_reconfiguration(fact)
            case RunStatus(run=run, state=state, by=by):
                self._hold("RunPaused", run, f"is paused{f' by {by}' if by else ''}", state is RunState.PAUSED)
            case RunEnded(run=run, outcome=outcome, why=why):
                if outcome in ("failed", "crashed"):
                    self._note("RunFailed", run, f"{outcome}: {why}")
            case JobFact() as fact:
                self._take_job(fact)
            case fact:
                self._take_daemon(fact)

    # --- by subject

    def _take_daemon(self, fact: Fact) -> None:
        match fact:
            case TestbedReloaded(former_switches=former):
                for found in (self._states, self._events):
                    for key in [key for key in found if key[0].startswith("Switch") and key[1] in former]:
                        del found[key]
            case BusUp(address=address):
                self._hold("BusDisconnected", address, "", False)
            case BusDown(address=address, cause=cause):
                self._hold("BusDisconnected", address, f"the daemon has no broker: {cause}", True)
            case DaemonLag(seconds=seconds):
                late = f"timers are late by up to {seconds * 1e3:.0f} ms"
                self._hold("EventLoopLag", DAEMON, late, seconds > RULES["EventLoopLag"].limit)
            case DaemonDisk(path=path, free_bytes=free_bytes):
                little = free_bytes is not None and free_bytes < RULES["DiskSpaceLow"].limit
                left = f"{(free_bytes or 0) / 1e6:.0f} MB are left for records and journal"
                self._hold("DiskSpaceLow", path, left, little)
            case LimitReached(limit=limit, detail=detail):
                self._note("LimitReached", limit, f"what came in was refused: {detail}")
            case JournalOpen(reconfiguration=id, what=what, why=why, held=held):
                self._hold("JournalOpen", id, f"{what} was cut off and is not undone: {why}", True)
                self._hold("JournalHeld", id, f"{what} waits for a decision: {why}", held)
            case DaemonRecovered(reconfiguration=id) | JournalGivenUp(reconfiguration=id):
                self._ended_ns = self._now[0]  # its way back moved carriers
                self._close(id)
            case JournalRefused(reconfiguration=id, outcome=outcome, why=why):
                self._hold("JournalUnwritten", id, f"the journal does not take that it is {outcome}: {why}", True)
            case JournalWritten(reconfiguration=id):
                self._hold("JournalUnwritten", id, "", False)

    def _take_switch(self, fact: SwitchFact) -> None:
        switch = fact.switch
        match fact:
            case SwitchUp() | SwitchUnknown():
                self._hold("SwitchDown", switch, "", False)
            case SwitchDown(cause=cause):
                self._hold("SwitchDown", switch, f"has no session: {cause}", True)
                self._hold("SwitchDrift", switch, "", False)  # what it carries is not known
            case SwitchRestarted(lost=lost):
                self._note("SwitchRestarted", switch, _restarted(len(lost)))
            case SwitchRead(ours=False, added=added, removed=removed):
                pairs = " ".join([*(f"+{one}" for one in added), *(f"-{one}" for one in removed)])
                self._note("SwitchChangedBehindOurBack", switch, f"somebody else changed {pairs}")
            case SwitchDrift(missing=missing, stale=stale, given_up=given_up):
                words = [f"{one} is missing" for one in missing] + [f"{one} is stale" for one in stale]
                more = f"; the drift policy has given up at {', '.join(given_up)}" if given_up else ""
                summary = f"differs from the desired state: {', '.join(words)}{more}"
                self._hold("SwitchDrift", switch, summary, bool(words))
            case SwitchOverrun(lost=lost, reconfiguration=id):
                gone = f"{', '.join(lost)} of another client was lost to reconfiguration {id}"
                self._note("SwitchOverrun", switch, gone)
            case SwitchCommand(verb=verb, outcome=outcome, text=text) if outcome != "done":
                self._note("SwitchCommandsFail", switch, f"{verb} {outcome}{f': {text}' if text else ''}")

    def _take_host(self, fact: HostFact) -> None:
        host = fact.host
        self._take_links(fact)
        match fact:
            case HostUp():
                self._hold("AgentDown", host, "", False)
            case HostBirth(ports=ports):
                self._hold("AgentDown", host, "", False)
                self._keep_ports(host, ports)
                for name in [name for name in self._changes.get(host, {}) if name not in ports]:
                    del self._changes[host][name]
                    self._flaps.pop((host, name), None)
                for name, port in ports.items():
                    self._ports.setdefault(host, {})[name] = _Port(port.carrier, port.rdma)
                    self._count(host, name, port.carrier_changes)
                    self._judge_rdma(host, name)
            case HostDown(cause=cause):
                self._hold("AgentDown", host, f"its agent is away: {cause}", True)
                self._hold("ClockErrorLarge", host, "", False)
                self._keep_ports(host, ())
            case HostTrouble(task=task, why=why):
                failing = self._failing.setdefault(host, {})
                failing.pop(task, None)
                if why:
                    failing[task] = why
                words = "; ".join(f"{task} fails: {why}" for task, why in failing.items())
                self._hold("HostTrouble", host, words, bool(failing))
            case HostLost(count=count, why=why) if count:
                self._note(
                    "EventsLost", host, f"{plural(count, 'event')} {'was' if count == 1 else 'were'} lost: {why}"
                )
            case HostGarbage(topic=topic, why=why, count=count) if count:
                self._note("MessagesGarbled", host, f"a message on {topic} could not be used: {why}")
            case ClockAligned(error_ns=error_ns):
                large = error_ns / 1e9 > RULES["ClockErrorLarge"].limit
                self._hold("ClockErrorLarge", host, f"its clock is known to {error_ns / 1e6:.1f} ms", large)
            case ClockStepped(by_ns=by_ns):
                self._note("ClockStepped", host, f"its clock was stepped by {by_ns / 1e9:+.3f} s")

    def _take_event(self, event: HostEvent) -> None:
        self._take_links(event)
        host, name = event.host, event.port or ""
        if (port := self._ports.get(host, {}).get(name)) is None:
            return
        match event.data:
            case CarrierData(carrier=carrier, carrier_changes=changes):
                port.carrier = carrier
                self._count(host, name, changes)
            case InterfaceData(present=False):
                port.carrier = port.rdma = None
            case RdmaData(active=active):
                port.rdma = active
        self._judge_rdma(host, name)

    def _take_reconfiguration(self, fact: ReconfigurationFact) -> None:
        id = fact.reconfiguration
        self._take_links(fact)
        match fact:
            case ReconfigurationState(state=state):
                self._under_way.add(id)
                self._hold("ReconfigurationStands", id, f"is under way: {state}", True)
            case ReconfigurationEnded(outcome=outcome, why=why):
                self._under_way.discard(id)
                self._ended_ns = self._now[0]
                self._hold("ReconfigurationStands", id, "", False)
                if outcome != "failed":  # a switch of a prepared set that a crash cut off ends so
                    self._close(id)
                if outcome == "rolled-back":
                    self._note("ReconfigurationRolledBack", id, f"went back: {why}")

    def _take_job(self, fact: JobFact) -> None:
        match fact:
            case JobGranted(rank=rank, operation=operation, stall_s=stall_s):
                if stall_s > RULES["JobStalled"].limit:
                    words = f"rank {rank} waited for its control plane for {stall_s:.0f} s, before {operation}"
                    self._note("JobStalled", fact.job, words)
            case JobSwitched(target=target, why=why) if why:
                self._note("JobNotSwitched", fact.job, f"its light was not brought to {target}: {why}")
            case JobEnded(outcome="failed", why=why):
                self._note("JobFailed", fact.job, f"failed: {why}")

    # --- conditions

    def _close(self, id: str) -> None:
        """A reconfiguration that was open in the journal is so no more."""
        self._hold("JournalOpen", id, "", False)
        self._hold("JournalHeld", id, "", False)

    def _take_links(self, fact: Fact) -> None:
        self._links.take(fact)
        for link in self._dark.changed():
            dark = self._dark.value(link) == 0
            self._hold("LinkNotReady", link, "is wanted, and an end of it has no carrier", dark)

    def _hold(self, name: str, subject: str, summary: str, holds: bool) -> None:
        """A state lasts, or is over."""
        key = name, subject
        if not holds:
            self._states.pop(key, None)
        elif (before := self._states.get(key)) is not None:
            self._states[key] = replace(before, summary=summary)
        else:
            at_ns, wall_ns = self._now
            self._states[key] = _Condition(began_ns=at_ns, began_wall_ns=wall_ns, last_ns=at_ns, summary=summary)

    def _note(self, name: str, subject: str, summary: str) -> None:
        """An event came; one that came while the last counted goes on with it."""
        key, (at_ns, wall_ns) = (name, subject), self._now
        before = self._events.get(key)
        if before is not None and self._counts(key, before, at_ns):
            self._events[key] = replace(before, last_ns=at_ns, summary=summary)
            return
        if len(self._events) >= PAST_MOST:
            self._events = {key: one for key, one in self._events.items() if self._counts(key, one, at_ns)}
        self._events[key] = _Condition(began_ns=at_ns, began_wall_ns=wall_ns, last_ns=at_ns, summary=summary)

    def _counts(self, key: Key, one: _Condition, now_ns: int) -> bool:
        return now_ns - one.last_ns <= (RULES[key[0]].within_s or 0.0) * 1e9

    def _keep_ports(self, host: str, names: Collection[str]) -> None:
        """Forget its other ports."""
        for name in [name for name in self._ports.get(host, {}) if name not in names]:
            del self._ports[host][name]
            self._hold("RdmaDown", f"{host}.{name}", "", False)

    def _judge_rdma(self, host: str, name: str) -> None:
        port = self._ports[host][name]
        words = "has a carrier, and its RDMA port is not active"
        self._hold("RdmaDown", f"{host}.{name}", words, port.carrier is True and port.rdma is False)

    def _count(self, host: str, name: str, changes: int | UnsetType | None) -> None:
        """Take the kernel's count of carrier changes; where it begins anew nothing is known of the time before."""
        if changes is UNSET or changes is None:
            return
        counts = self._changes.setdefault(host, {})
        more, counts[name] = changes - counts.get(name, changes), changes
        if more > 0:
            last = self._flaps.setdefault((host, name), deque(maxlen=FLAPS_MORE_THAN + 1))
            if not self._flaps_now(last, self._now[0]):
                self._flapping_since.pop((host, name), None)
            last.extend([self._now] * min(more, FLAPS_MORE_THAN + 1))
            if self._flaps_now(last, self._now[0]):
                self._flapping_since.setdefault((host, name), self._now[1])

    def _flaps_now(self, times: Sequence[tuple[int, int]], now_ns: int) -> bool:
        within_ns = (RULES[FLAPS].within_s or 0.0) * 1e9
        return len(times) > FLAPS_MORE_THAN and now_ns - times[0][0] <= within_ns

    def _flapping(self, now_ns: int) -> list[Alert]:
        """Ports whose carriers came and went by themselves; none while reconfigurations may have done that."""
        within_ns = (RULES[FLAPS].within_s or 0.0) * 1e9
        if self._under_way or (self._ended_ns is not None and now_ns - self._ended_ns <= within_ns):
            return []
        return [
            Alert(
                name=FLAPS,
                severity=RULES[FLAPS].severity,
                subject=f"{host}.{name}",
                since_wall_ns=self._flapping_since[host, name],
                summary=f"its carrier changed more than {FLAPS_MORE_THAN} times in {within_ns / 60e9:.0f} minutes",
            )
            for (host, name), times in self._flaps.items()
            if self._flaps_now(times, now_ns)
        ]


class _Dark:
    """The gauge of `Links`: 0 is dark. What one document drops and sets again has not changed in between."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._changed: dict[str, None] = {}

    def changed(self) -> list[str]:
        """The links that were set or dropped since the last call."""
        changed, self._changed = [*self._changed], {}
        return changed

    def set(self, value: float, link: str, /) -> None:
        self._values[link] = value
        self._changed[link] = None

    def drop(self, link: str, /) -> None:
        self._values.pop(link, None)
        self._changed[link] = None

    def value(self, link: str, /) -> float | None:
        return self._values.get(link)


def _restarted(lost: int) -> str:
    """What a restart took. What of it is still missing changes after that: `hwd status` has it."""
    if not lost:
        return "has restarted and lost nothing"
    return f"has restarted and lost {plural(lost, 'crossconnect')}; `hwd status` shows which are still missing"


def _alert(key: Key, one: _Condition) -> Alert:
    name, subject = key
    return Alert(
        name=name,
        severity=RULES[name].severity,
        subject=subject,
        since_wall_ns=one.began_wall_ns,
        summary=one.summary,
    )
