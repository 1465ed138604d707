"""The alerts in force, from documents and nothing else: those of alerts.yml that the daemon can decide by itself.

alerts = Alerts(clock, ports, ready)      # a sink, after these
alerts.in_force()           # the worst first
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from msgspec import UNSET

from hwd.model.daemon import (
    CRASHED,
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
    RecordsRefused,
    RecordsWritten,
    TestbedReloaded,
)
from hwd.model.host import (
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
from hwd.model.job import JobEnded, JobFact, JobGranted, JobSwitched
from hwd.model.nic_port import NicPortId
from hwd.model.plural import plural
from hwd.model.reconfiguration import (
    ReconfigurationEnded,
    ReconfigurationFact,
    ReconfigurationStarted,
    ReconfigurationState,
)
from hwd.model.run import RunState, RunStatus
from hwd.model.run_facts import RunEnded
from hwd.model.status import Alert
from hwd.model.switch import SwitchAdopted, SwitchDrift, SwitchOverrun, SwitchUnknown
from hwd.model.timeline import Timeline
from hwd.ports.claim import utc
from hwd.rack.nic_ports import NicPorts
from hwd.rack.ready_links import ReadyLinks
from hwd.records.records import Records, StoredDocument
from hwd.telemetry.alert_rules import RULES, WORST_FIRST, alert_of
from hwd.telemetry.carrier_flaps import WITHIN_NS as FLAPS_WITHIN_NS
from hwd.telemetry.carrier_flaps import CarrierFlaps
from hwd.telemetry.past_events import Key, PastEvents, Times
from hwd.telemetry.switch_mends import SwitchMends
from hwd_agents.wire.events import CarrierData, InterfaceData, RdmaData
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.devices.facts import SwitchCommand, SwitchDown, SwitchFact, SwitchRead, SwitchRestarted, SwitchUp

DAEMON = "the daemon"
_OF_PORTS: Final = (CarrierData, InterfaceData, RdmaData)
EVENTS: Final = (
    *(DaemonStarted, DaemonRecovered, LimitReached, SwitchRestarted, SwitchRead, SwitchCommand, SwitchOverrun),
    *(SwitchAdopted, HostEvent, HostLost, HostGarbage, ClockStepped, ReconfigurationEnded, RunEnded),
    *(JobGranted, JobSwitched, JobEnded),
)
"""Facts that alerts about events are made from, or mended by."""
READ_MOST: Final = 1000
"""Documents of each kind that a start reads; what is older than the newest of them is not known again."""
LONGEST_S: Final = max(rule.within_s or 0.0 for rule in RULES.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Condition:
    """A state that lasts, and when it began."""

    began: Times
    summary: str


class Alerts:
    """A `Sink`. `load` takes the events of the last minutes that earlier processes of the daemon recorded.

    An alert about a state is in force when that has lasted for its hold time, an alert about events for some minutes
    after the last of them. Where Prometheus adds up (reconfigurations under way, paused runs), here each has its own
    time: several short ones in sequence are none that stands.
    """

    TAKES: ClassVar = (
        *(BusUp, BusDown, DaemonDisk, DaemonLag, DaemonRecovered, DaemonStarted, LimitReached, TestbedReloaded),
        *(RecordsRefused, RecordsWritten),
        *(JournalGivenUp, JournalOpen, JournalRefused, JournalWritten),
        *(
            SwitchUp,
            SwitchDown,
            SwitchUnknown,
            SwitchRestarted,
            SwitchRead,
            SwitchCommand,
            SwitchOverrun,
            SwitchDrift,
            SwitchAdopted,
        ),
        *(HostBirth, HostUp, HostDown, HostEvent, HostLost, HostGarbage, HostTrouble, ClockAligned, ClockStepped),
        *(ReconfigurationStarted, ReconfigurationState, ReconfigurationEnded, Timeline),
        *(RunStatus, RunEnded, JobGranted, JobSwitched, JobEnded),
    )

    def __init__(self, clock: Clock, ports: NicPorts, ready: ReadyLinks) -> None:
        self._clock = clock
        self._ports = ports
        self._ready = ready
        self._now: Times = (0, 0)
        """The times of the document at hand."""
        self._states: dict[Key, _Condition] = {}
        self._events = PastEvents()
        self._mends = SwitchMends()
        self._known_ports: dict[str, tuple[str, ...]] = {}
        self._flaps = CarrierFlaps()
        self._failing: dict[str, dict[str, str]] = {}
        self._playbooks: dict[str, str] = {}
        """By run under way."""
        self._under_way: set[str] = set()
        self._ended_ns: int | None = None
        """When a reconfiguration ended last."""

    def in_force(self) -> list[Alert]:
        now_ns = self._clock.monotonic_ns()
        found = [
            alert_of(key, one.summary, since_wall_ns=one.began[1])
            for key, one in self._states.items()
            if now_ns - one.began[0] >= RULES[key[0]].for_s * 1e9
        ]
        found += self._events.in_force(now_ns)
        if not self._is_changed_lately(now_ns):
            found += self._flaps.in_force(now_ns)
        return sorted(found, key=lambda one: (WORST_FIRST[one.severity], one.since_wall_ns, one.name, one.subject))

    async def load(self, records: Records) -> None:
        """Take the recorded events that count still, the newest `READ_MOST` of each kind.

        Their ages are of the wall clock: one that was set back keeps an alert for its whole time, at most.
        """
        now_ns, now_wall_ns = self._clock.monotonic_ns(), self._clock.wall_ns()
        found: list[StoredDocument] = []
        for fact in EVENTS:
            newest = await records.newest([fact.KIND], limit=READ_MOST)
            found += [one for one in newest if now_wall_ns - one.document.wall_ns <= LONGEST_S * 1e9]
        for stored in sorted(found, key=lambda one: one.id):
            document = stored.document
            age_ns = max(0, now_wall_ns - document.wall_ns)
            self._now = now_ns - age_ns, document.wall_ns
            match document.fact:
                case HostEvent(host=host, port=str(port), data=CarrierData(carrier_changes=changes), past=False):
                    self._flaps.count(host, port, changes, self._now)
                case HostEvent():
                    pass  # what else is known of ports comes with the birth of their agents
                case _:
                    self(replace(document, at_ns=self._now[0]))

    def __call__(self, document: Document) -> None:
        self._now = document.at_ns, document.wall_ns
        for link in self._ready.changed:
            words = "is wanted, and an end of it has no carrier"
            self._hold("LinkNotReady", link, words, self._ready.is_ready(link) is False)
        match document.fact:
            case HostEvent(host=host, port=str(port), data=data, past=past):
                if not past and isinstance(data, _OF_PORTS) and port in self._known_ports.get(host, ()):
                    if isinstance(data, CarrierData):
                        self._flaps.count(host, port, data.carrier_changes, self._now)
                    self._judge_rdma(host, port)
            case HostEvent():
                return
            case SwitchFact() as fact:
                self._take_switch(fact)
            case HostFact() as fact:
                self._take_host(fact)
            case ReconfigurationFact() as fact:
                self._take_reconfiguration(fact)
            case RunStatus() as status:
                self._take_run(status)
            case RunEnded(run=run, outcome=outcome, why=why):
                playbook = self._playbooks.pop(run, "")
                if outcome in ("failed", "crashed"):
                    self._note("RunFailed", run, f"{outcome}: {why}", what=playbook)
                elif outcome == "succeeded":
                    self._events.succeed("RunFailed", playbook)
            case JobFact() as fact:
                self._take_job(fact)
            case fact:
                self._take_daemon(fact)

    # --- by subject

    def _take_daemon(self, fact: Fact) -> None:
        match fact:
            case TestbedReloaded(former_switches=former):
                for key in [key for key in self._states if key[0].startswith("Switch") and key[1] in former]:
                    del self._states[key]
                self._events.forget("Switch", frozenset(former))
                self._mends.forget(frozenset(former))
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
            case DaemonStarted(died_wall_ns=int(died_wall_ns)):
                self._note("DaemonDied", DAEMON, f"did not end in order: it was last heard at {utc(died_wall_ns)}")
            case DaemonRecovered(reconfiguration=id, outcome=outcome):
                self._ended_ns = self._now[0]  # its way back moved carriers
                self._close(id)
                if outcome != CRASHED:  # it ended with its daemon and moved nothing
                    self._note("ReconfigurationRecovered", id, f"was cut off, and is {outcome}")
            case JournalGivenUp(reconfiguration=id):
                self._ended_ns = self._now[0]
                self._close(id)
            case RecordsRefused(records=name, why=why):
                self._hold(
                    "RecordsUnwritten", name, f"cannot be written, and what happens waits in memory: {why}", True
                )
            case RecordsWritten(records=name):
                self._hold("RecordsUnwritten", name, "", False)
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
            case SwitchRestarted(lost=lost) if lost:
                took = f"has restarted and lost {plural(len(lost), 'crossconnect')}"
                self._note("SwitchRestarted", switch, f"{took}; `hwd status` shows which are still missing")
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
        for name in self._mends.take(fact):
            self._events.mend(name, switch)

    def _take_host(self, fact: HostFact) -> None:
        host = fact.host
        match fact:
            case HostUp():
                self._hold("AgentDown", host, "", False)
            case HostBirth(ports=ports):
                self._hold("AgentDown", host, "", False)
                self._keep_ports(host, ports)
                self._flaps.keep(host, ports)
                for name, port in ports.items():
                    self._flaps.count(host, name, port.carrier_changes, self._now)
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

    def _take_reconfiguration(self, fact: ReconfigurationFact) -> None:
        id = fact.reconfiguration
        match fact:
            case ReconfigurationState(state=state):
                self._under_way.add(id)
                self._hold("ReconfigurationStands", id, f"is under way: {state}", True)
            case ReconfigurationEnded(outcome=outcome, why=why, what=what):
                self._under_way.discard(id)
                self._ended_ns = self._now[0]
                self._hold("ReconfigurationStands", id, "", False)
                if outcome != "failed":  # a switch of a prepared set that a crash cut off ends so
                    self._close(id)
                tried = "" if what is UNSET else what
                if outcome == "rolled-back":
                    self._note("ReconfigurationRolledBack", id, f"went back: {why}", what=tried)
                elif outcome == "confirmed":
                    self._events.succeed("ReconfigurationRolledBack", tried)

    def _take_run(self, status: RunStatus) -> None:
        run, by = status.run, status.by
        self._hold("RunPaused", run, f"is paused{f' by {by}' if by else ''}", status.state is RunState.PAUSED)
        if status.state is RunState.RUNNING:
            self._playbooks[run] = status.playbook

    def _take_job(self, fact: JobFact) -> None:
        match fact:
            case JobGranted(rank=rank, operation=operation, stall_s=stall_s):
                if stall_s > RULES["JobStalled"].limit:
                    words = f"rank {rank} waited for its control plane for {stall_s:.0f} s, before {operation}"
                    self._note("JobStalled", fact.job, words)
            case JobSwitched(target=target, why=why) if why:
                self._note("JobNotSwitched", fact.job, f"its light was not brought to {target}: {why}")
            case JobSwitched():
                self._events.mend("JobNotSwitched", fact.job)
            case JobEnded(entry=entry, outcome=outcome, why=why):
                self._events.mend("JobStalled", fact.job)
                self._events.mend("JobNotSwitched", fact.job)
                if outcome == "failed":
                    self._note("JobFailed", fact.job, f"failed: {why}", what=entry)
                elif outcome == "succeeded":
                    self._events.succeed("JobFailed", entry)

    # --- conditions

    def _close(self, id: str) -> None:
        """A reconfiguration that was open in the journal is so no more."""
        self._hold("JournalOpen", id, "", False)
        self._hold("JournalHeld", id, "", False)

    def _hold(self, name: str, subject: str, summary: str, holds: bool) -> None:
        """A state lasts, or is over."""
        key = name, subject
        if not holds:
            self._states.pop(key, None)
        elif (before := self._states.get(key)) is not None:
            self._states[key] = replace(before, summary=summary)
        else:
            self._states[key] = _Condition(began=self._now, summary=summary)

    def _note(self, name: str, subject: str, summary: str, *, what: str = "") -> None:
        """An event came; `what`: what had been tried, which may succeed when it is tried again."""
        self._events.note(name, subject, summary, self._now, what=what)

    def _keep_ports(self, host: str, names: Collection[str]) -> None:
        """Forget its other ports."""
        for name in set(self._known_ports.get(host, ())).difference(names):
            self._hold("RdmaDown", f"{host}.{name}", "", False)
        self._known_ports[host] = (*names,)

    def _is_changed_lately(self, now_ns: int) -> bool:
        """Whether reconfigurations may have made carriers come and go."""
        return bool(self._under_way) or (self._ended_ns is not None and now_ns - self._ended_ns <= FLAPS_WITHIN_NS)

    def _judge_rdma(self, host: str, name: str) -> None:
        port = self._ports.get(NicPortId(host=host, port=name))
        down = port is not None and port.carrier is True and port.rdma is False
        self._hold("RdmaDown", f"{host}.{name}", "has a carrier, and its RDMA port is not active", down)
