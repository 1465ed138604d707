"""Alerts in force, by documents and time."""

from pathlib import Path

import msgspec
import pytest

from hwd.daemon.fanout import Fanout
from hwd.daemon.installed_drivers import load
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
    RecordsRefused,
    RecordsWritten,
)
from hwd.model.host import ClockStepped, HostBirth, HostDown, HostGarbage, HostLost, HostTrouble, HostUp
from hwd.model.job import JobEnded, JobGranted, JobSwitched
from hwd.model.link import Link
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationState, StartedLink
from hwd.model.run import RunState, RunStatus
from hwd.model.run_facts import RunEnded
from hwd.model.status import Alert
from hwd.model.switch import SwitchAdopted, SwitchDrift, SwitchOverrun, SwitchUnknown
from hwd.rack.nic_ports import NicPorts
from hwd.rack.ready_links import ReadyLinks
from hwd.records.records import Records
from hwd.telemetry.alert_rules import RULES
from hwd.telemetry.alerts import Alerts
from hwd.telemetry.past_events import PAST_MOST
from hwd_agents.wire.events import CarrierData, InterfaceData, RdmaData
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices.facts import SwitchCommand, SwitchDown, SwitchRead, SwitchRestarted, SwitchUp

from ..answers import check_golden
from ..texts import ends_of, pairs_of, reconfiguration_started, switch_pairs_of
from .conftest import aligned, birth, host_event

WALL_NS = 1_700_000_000_000_000_000
SAID = Path(__file__).with_name("alerts.txt")
LINK = "h0.eth0<->h1.eth0"
EXAMPLE = Path(__file__).parents[2] / "examples" / "two-hosts.yaml"


class Time:
    """A clock that is set by hand, in seconds."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.wall_zero_ns = WALL_NS

    def monotonic_ns(self) -> int:
        return round(self.now_s * 1e9)

    def wall_ns(self) -> int:
        return self.wall_zero_ns + self.monotonic_ns()

    def kernel_bounds_ns(self, stamp_ns: int) -> tuple[int, int]:
        return stamp_ns, stamp_ns

    def from_kernel_ns(self, stamp_ns: int) -> int:
        return stamp_ns


class Rack:
    """Alerts, and documents at a time that moves on, of which they get those that they take."""

    def __init__(self) -> None:
        self.time = Time()
        ports = NicPorts()
        self.ready = ReadyLinks(ports)
        self.alerts = Alerts(self.time, ports, self.ready)
        self.documents: list[Document] = []
        self._sink = Fanout([self.documents.append])
        self._sink.subscribe(ports, self.ready, self.alerts)

    def tell(self, *facts: Fact, after_s: float = 0.0) -> None:
        self.time.now_s += after_s
        for fact in facts:
            self._sink(Document(at_ns=self.time.monotonic_ns(), wall_ns=self.time.wall_ns(), fact=fact))

    def after(self, seconds: float) -> list[Alert]:
        self.time.now_s += seconds
        return self.alerts.in_force()

    def names(self, after_s: float = 0.0) -> list[str]:
        return [one.name for one in self.after(after_s)]


@pytest.fixture
def rack() -> Rack:
    return Rack()


def disk(free_bytes: int | None) -> DaemonDisk:
    return DaemonDisk(path="/data", free_bytes=free_bytes, total_bytes=None if free_bytes is None else 10**10, why="")


def journal_open(*, held: bool) -> JournalOpen:
    return JournalOpen(reconfiguration="r1", run=None, what="pairs", why="ocs1 is down", held=held)


def run(state: RunState) -> RunStatus:
    return RunStatus(run="k3v9", playbook="soak", state=state, steps=3, queued_wall_ns=0, by="ada")


def ended(outcome: str) -> ReconfigurationEnded:
    return ReconfigurationEnded(reconfiguration="r1", run=None, outcome=outcome, why="not ready", seconds=2.0)


UP = SwitchUp(switch="ocs1", vendor="", model="", serial="", firmware="", down_s=0.0)
RECOVERED = DaemonRecovered(reconfiguration="r1", run=None, outcome="rolled-back", why="")
GIVEN_UP = JournalGivenUp(reconfiguration="r1", run=None, what="pairs", why="", by="ada", left=[])
STARTED_LINK = StartedLink(link=Link.parse(LINK), kept=False, crossconnects=switch_pairs_of("ocs1:1A-2B"))
STARTED = reconfiguration_started(links=[STARTED_LINK])


States = list[tuple[str, tuple[Fact, ...], tuple[Fact, ...]]]
STATES: States = [
    ("BusDisconnected", (BusDown(address="mqtt://b", cause="refused"),), (BusUp(address="mqtt://b"),)),
    ("JournalOpen", (journal_open(held=False),), (RECOVERED,)),
    ("JournalHeld", (journal_open(held=True),), (GIVEN_UP,)),
    (
        "JournalUnwritten",
        (JournalRefused(reconfiguration="r1", outcome="confirmed", why="No space left"),),
        (JournalWritten(reconfiguration="r1", outcome="confirmed"),),
    ),
    (
        "RecordsUnwritten",
        (RecordsRefused(records="records.db", why="No space left on device"),),
        (RecordsWritten(records="records.db"),),
    ),
    ("DiskSpaceLow", (disk(999_000_000),), (disk(1_000_000_000),)),
    ("EventLoopLag", (DaemonLag(seconds=0.3),), (DaemonLag(seconds=0.1),)),
    ("SwitchDown", (SwitchDown(switch="ocs1", cause="refused"),), (UP,)),
    (
        "SwitchDown",
        (SwitchDown(switch="ocs1", cause="refused"),),
        (SwitchUnknown(switch="ocs1", cause="its host is away", host="h0"),),
    ),
    (
        "SwitchDrift",
        (SwitchDrift(switch="ocs1", missing=pairs_of("1A-2B"), stale=pairs_of("1A-7B"), given_up=ends_of("1A")),),
        (SwitchDrift(switch="ocs1", missing=[], stale=[]),),
    ),
    ("AgentDown", (HostDown(host="h0", boot="b", cause="will"),), (HostUp(host="h0", boot="b"),)),
    (
        "HostTrouble",
        (HostTrouble(host="h0", task="clock", why="KeyError"), HostTrouble(host="h0", task="x", why="")),
        (HostTrouble(host="h0", task="clock", why=""),),
    ),
    ("ClockErrorLarge", (aligned(2_000_000),), (aligned(1_000_000),)),
    (
        "RdmaDown",
        (birth(carrier=True, rdma=None), host_event(RdmaData(active=False))),
        (host_event(CarrierData(carrier=False)),),
    ),
    ("RdmaDown", (birth(carrier=True, rdma=False),), (host_event(InterfaceData(present=False)),)),
    (
        "LinkNotReady",
        (birth(carrier=False), birth("h1", carrier=True), STARTED),
        (host_event(CarrierData(carrier=True)),),
    ),
    (
        "ReconfigurationStands",
        (ReconfigurationState(reconfiguration="r1", state="awaiting-confirm"),),
        (ended("confirmed"),),
    ),
    ("RunPaused", (run(RunState.PAUSED),), (run(RunState.RUNNING),)),
]
"""Name of an alert, documents that begin it, and those that end it."""

READ = SwitchRead(switch="ocs1", crossconnects=[], added=pairs_of("1A-2B"), removed=pairs_of("3A-4B"), ours=False)
DENIED = SwitchCommand(switch="ocs1", verb="connect", outcome="denied", seconds=0.1, code="", text="SROF")
EVENTS: dict[str, Fact] = {
    "LimitReached": LimitReached(limit="http-body", count=1, detail="9 MB"),
    "DaemonDied": DaemonStarted(version="1", pid=7, testbed="t", data_dir="/data", died_wall_ns=WALL_NS),
    "ReconfigurationRecovered": RECOVERED,
    "SwitchCommandsFail": DENIED,
    "SwitchRestarted": SwitchRestarted(
        switch="ocs1", sign="at-rest", lost=pairs_of("1A-2B"), uptime_s=None, unheard_s=2.0
    ),
    "SwitchChangedBehindOurBack": READ,
    "SwitchOverrun": SwitchOverrun(switch="ocs1", reconfiguration="r1", lost=pairs_of("1A-7B"), window_s=0.1),
    "EventsLost": HostLost(host="h0", boot="b", count=3, why="full"),
    "ClockStepped": ClockStepped(host="h0", boot="b", by_ns=-(10**9), error_ns=1, earliest_ns=0, latest_ns=1),
    "MessagesGarbled": HostGarbage(host="h0", topic="hwd/x", why="not JSON", count=1),
    "ReconfigurationRolledBack": ended("rolled-back"),
    "RunFailed": RunEnded(run="k3v9", outcome="crashed", why="the daemon ended", safe_state=None),
    "JobStalled": JobGranted(job="k3v9", entry="trains", rank=2, operation="world/0/7", stall_s=41.2),
    "JobNotSwitched": JobSwitched(
        job="k3v9", entry="trains", target="ring", reconfiguration="r1", why="ocs1: denied", seconds=1.0
    ),
    "JobFailed": JobEnded(job="k3v9", entry="trains", outcome="failed", why="rank 0 ended with status 1", seconds=9.0),
}


def test_there_is_a_case_for_each_rule() -> None:
    assert {name for name, _, _ in STATES} | EVENTS.keys() | {"CarrierFlaps"} == RULES.keys()


def test_each_alert_says_what_the_golden_file_says() -> None:
    """To take over what is said now: delete the file and run this twice."""
    text = ""
    for name, facts in (
        *((name, begin) for name, begin, _ in STATES),
        *((name, (fact,)) for name, fact in EVENTS.items()),
    ):
        rack = Rack()
        rack.tell(*facts)
        (alert,) = [one for one in rack.after(RULES[name].for_s) if one.name == name]
        assert alert.severity == RULES[name].severity
        text += f"{alert.severity} {name} {alert.subject}: {alert.summary}\n"
    check_golden(SAID, text)


@pytest.mark.parametrize(("name", "begin", "end"), STATES, ids=[name for name, _, _ in STATES])
def test_state_is_in_force_after_its_hold_time_until_it_is_over(
    rack: Rack, name: str, begin: tuple[Fact, ...], end: tuple[Fact, ...]
) -> None:
    hold_s = RULES[name].for_s
    rack.tell(*begin, after_s=5.0)
    assert name not in rack.names(hold_s - 1.0)
    rack.tell(begin[-1])  # it is told again, and has lasted since the first time
    (found,) = [one for one in rack.after(1.0) if one.name == name]
    assert (found.since_wall_ns, found.last_wall_ns) == (WALL_NS + 5_000_000_000, None)
    rack.tell(*end)
    assert name not in rack.names(hold_s)
    rack.tell(*begin, after_s=1.0)
    assert name not in rack.names(hold_s - 1.0), "the second time begins anew"


@pytest.mark.parametrize("name", EVENTS)
async def test_event_is_in_force_at_once_and_for_its_window_after_the_last(rack: Rack, name: str) -> None:
    fact, within_s = EVENTS[name], RULES[name].within_s
    assert within_s is not None
    rack.tell(fact, after_s=5.0)
    (found,) = rack.after(0.0)
    assert found.name == name
    assert (await again(rack, after_s=within_s - 1.0)).in_force() == [found], "it outlives the daemon with its time"
    assert (await again(rack, after_s=within_s + 1.0)).in_force() == []
    rack.tell(fact, after_s=within_s - 1.0)
    (later,) = rack.after(within_s)
    assert later.since_wall_ns == found.since_wall_ns == WALL_NS + 5_000_000_000
    assert later.last_wall_ns == rack.time.wall_ns() - round(within_s * 1e9)
    assert rack.names(1.0) == []
    rack.tell(fact)
    assert rack.after(0.0)[0].since_wall_ns == rack.time.wall_ns(), "another one, after a quiet time"


@pytest.mark.parametrize(
    "fact",
    [
        msgspec.structs.replace(READ, ours=True),
        msgspec.structs.replace(DENIED, outcome="done"),
        ended("confirmed"),
        RunEnded(run="k3v9", outcome="succeeded", why="", safe_state=None),
        RunEnded(run="k3v9", outcome="aborted", why="by ada", safe_state=None),
        disk(None),
        birth(carrier=False, rdma=False),
        birth(carrier=True, rdma=None),
        HostLost(host="h0", boot="b", count=0, why=""),
        DaemonStarted(version="1", pid=7, testbed="t", data_dir="/data"),
        msgspec.structs.replace(RECOVERED, outcome="crashed"),
        SwitchRestarted(switch="ocs1", sign="uptime", lost=[], uptime_s=1.0, unheard_s=2.0),
        JobGranted(job="k3v9", entry="trains", rank=2, operation="o", stall_s=RULES["JobStalled"].limit),
        JobSwitched(job="k3v9", entry="trains", target="ring", reconfiguration="r1", why="", seconds=1.0),
        JobEnded(job="k3v9", entry="trains", outcome="succeeded", why="", seconds=9.0),
        JobEnded(job="k3w0", entry="trains", outcome="stopped", why="stopped by ada", seconds=9.0),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_what_is_well_or_unknown_is_no_alert(rack: Rack, fact: Fact) -> None:
    rack.tell(fact)
    assert rack.names(1.0) == rack.names(3600.0) == []


def test_held_entry_of_the_journal_that_needs_no_decision_any_more_is_open_until_it_is_finished(rack: Rack) -> None:
    rack.tell(journal_open(held=True))
    assert rack.names(15.0) == ["JournalHeld", "JournalOpen"]
    rack.tell(journal_open(held=False))
    assert rack.names() == ["JournalOpen"]
    rack.tell(ended("failed"))
    assert "JournalOpen" in rack.names(15.0)
    rack.tell(ended("confirmed"))
    assert "JournalOpen" not in rack.names(15.0)


def test_nothing_of_a_host_is_in_force_but_that_its_agent_is_away(rack: Rack) -> None:
    told = birth(carrier=True, rdma=False), birth("h1", carrier=False)
    rack.tell(*told, STARTED, aligned(2_000_000))
    rack.tell(*told, after_s=59.0)
    assert sorted(rack.names(1.0)) == ["LinkNotReady", "RdmaDown"], "a birth that says the same does not begin anew"
    rack.tell(ended("confirmed"))
    assert sorted(rack.names(300.0)) == ["ClockErrorLarge", "LinkNotReady", "RdmaDown"]
    rack.tell(HostDown(host="h0", boot="b", cause="will"), HostDown(host="h1", boot="b", cause="will"))
    assert rack.names() == []
    assert rack.names(60.0) == ["AgentDown", "AgentDown"]


def test_late_events_of_an_earlier_boot_say_nothing_of_the_present(rack: Rack) -> None:
    rack.tell(birth(carrier=True, rdma=True), host_event(RdmaData(active=False), past=True))
    assert rack.names(60.0) == []


def flap(rack: Rack, *counts: int) -> None:
    for count in counts:
        rack.tell(host_event(CarrierData(carrier=bool(count % 2), carrier_changes=count), type="carrier"), after_s=10.0)


def test_carrier_that_changed_more_than_twice_within_five_minutes_flaps(rack: Rack) -> None:
    rack.tell(birth(carrier=True, carrier_changes=7))
    flap(rack, 8, 9)
    assert rack.names() == []
    flap(rack, 10)
    (found,) = rack.after(0.0)
    assert (found.name, found.subject, found.since_wall_ns) == ("CarrierFlaps", "h0.eth0", rack.time.wall_ns())
    assert found.summary == "its carrier changed more than 2 times in 5 minutes"
    flap(rack, 11)
    (later,) = rack.after(0.0)
    assert later.since_wall_ns == found.since_wall_ns, "it has flapped since then"
    assert later.last_wall_ns == rack.time.wall_ns()
    assert rack.names(280.0) == ["CarrierFlaps"]
    assert rack.names(1.0) == []


def test_flaps_that_the_kernel_only_counted_are_flaps(rack: Rack) -> None:
    rack.tell(birth(carrier=True, carrier_changes=7))
    flap(rack, 11)
    assert rack.names() == ["CarrierFlaps"]
    rack.tell(HostBirth(host="h0", boot="b", version="1", ports={}))
    assert rack.names() == [], "the port is gone"
    rack.tell(birth(carrier=True, carrier_changes=3))
    assert rack.names() == [], "a count that began anew says nothing"


def test_carriers_that_a_reconfiguration_moves_do_not_flap(rack: Rack) -> None:
    rack.tell(birth(carrier=True, carrier_changes=7), ReconfigurationState(reconfiguration="r1", state="driving"))
    flap(rack, 8, 9, 10)
    assert rack.names() == []
    rack.tell(ended("confirmed"))
    assert rack.names(270.0) == []
    flap(rack, 11, 12, 13)
    assert rack.names() == []
    assert rack.names(1.0) == ["CarrierFlaps"], "five minutes after the last one ended"


def test_worst_is_the_first(rack: Rack) -> None:
    rack.tell(ended("rolled-back"), DENIED)
    rack.tell(SwitchDown(switch="ocs2", cause=""), SwitchDown(switch="ocs1", cause=""), after_s=1.0)
    named = [(one.name, one.subject) for one in rack.after(30.0)]
    assert named == [
        ("SwitchDown", "ocs1"),
        ("SwitchDown", "ocs2"),
        ("SwitchCommandsFail", "ocs1"),
        ("ReconfigurationRolledBack", "r1"),
    ]


def test_events_that_count_no_more_are_not_remembered(rack: Rack) -> None:
    for number in range(PAST_MOST):
        rack.tell(RunEnded(run=f"k{number}", outcome="failed", why="", safe_state=None))
    assert len(rack.after(600.0)) == PAST_MOST
    rack.tell(RunEnded(run="last", outcome="failed", why="", safe_state=None), after_s=1.0)
    assert [one.subject for one in rack.after(0.0)] == ["last"]


def read(*, added: tuple[str, ...] = (), removed: tuple[str, ...] = (), ours: bool = True) -> SwitchRead:
    return SwitchRead(switch="ocs1", crossconnects=[], added=pairs_of(*added), removed=pairs_of(*removed), ours=ours)


LOST_TWO = SwitchRestarted(switch="ocs1", sign="at-rest", lost=pairs_of("1A-2B", "3A-4B"), uptime_s=None, unheard_s=2.0)
WAY_BACK = read(added=("3A-4B",), removed=("1A-2B",), ours=False)
ADOPTED = SwitchAdopted(switch="ocs1", crossconnects=pairs_of("1A-2B"), free=[], by="drift")
AGAIN = {
    "RunFailed": (
        (run(RunState.RUNNING), EVENTS["RunFailed"]),
        (run(RunState.RUNNING), RunEnded(run="k3v9", outcome="succeeded", why="", safe_state=None)),
    ),
    "JobFailed": (
        (EVENTS["JobFailed"],),
        (JobEnded(job="k3w0", entry="trains", outcome="succeeded", why="", seconds=9.0),),
    ),
    "JobNotSwitched": (
        (EVENTS["JobNotSwitched"],),
        (JobSwitched(job="k3v9", entry="trains", target="ring", reconfiguration="r2", why="", seconds=1.0),),
    ),
    "JobStalled": (
        (EVENTS["JobStalled"],),
        (JobEnded(job="k3v9", entry="trains", outcome="stopped", why="by ada", seconds=9.0),),
    ),
    "ReconfigurationRolledBack": (
        (msgspec.structs.replace(ended("rolled-back"), what="ring"),),
        (msgspec.structs.replace(ended("confirmed"), reconfiguration="r2", what="ring"),),
    ),
    "SwitchCommandsFail": ((DENIED,), (msgspec.structs.replace(DENIED, outcome="done"),)),
    "SwitchRestarted": ((LOST_TWO,), (read(added=("1A-2B",)), read(added=("3A-7B",)))),
    "SwitchOverrun": ((EVENTS["SwitchOverrun"],), (read(added=("1A-7B",)),)),
    "SwitchChangedBehindOurBack": ((READ,), (read(removed=("1A-2B",)), read(added=("3A-4B",)))),
    "changed back by them": ((READ,), (WAY_BACK,)),
    "adopted": ((READ,), (ADOPTED,)),
}


@pytest.mark.parametrize("name", AGAIN)
def test_event_that_is_mended_is_no_alert_any_more(rack: Rack, name: str) -> None:
    broken, mended = AGAIN[name]
    rack.tell(*broken)
    assert len(rack.names()) == 1
    rack.tell(*mended, after_s=1.0)
    assert rack.names() == []


@pytest.mark.parametrize(
    "facts",
    [
        (LOST_TWO, read(added=("1A-2B",))),
        (LOST_TWO, read(added=("5A-6B",), removed=("7A-8B",))),
        (READ, read(removed=("1A-2B",))),
        (READ, read(added=("3A-4B",))),
        (DENIED, msgspec.structs.replace(DENIED, verb="disconnect", outcome="done")),
        (ended("rolled-back"), ended("confirmed")),
        (EVENTS["JobFailed"], JobEnded(job="a", entry="other", outcome="succeeded", why="", seconds=9.0)),
        (EVENTS["SwitchRestarted"], msgspec.structs.replace(read(added=("1A-2B",)), switch="ocs2")),
    ],
    ids=range(8),
)
def test_event_that_is_mended_in_part_or_elsewhere_stays(rack: Rack, facts: tuple[Fact, Fact]) -> None:
    rack.tell(facts[0])
    rack.tell(facts[1], after_s=1.0)
    assert len(rack.names()) == 1


# --- a new process of the daemon


async def again(rack: Rack, *, after_s: float) -> Alerts:
    """The alerts of a daemon that starts on the records of this one."""
    records = Records("sqlite://", InlineOffload())
    await records.open()
    await records.add_documents(rack.documents)
    time = Time()
    time.wall_zero_ns = rack.time.wall_ns() + round(after_s * 1e9)
    ports = NicPorts()
    alerts = Alerts(time, ports, ReadyLinks(ports))
    await alerts.load(records)
    records.close()
    return alerts


async def test_what_was_mended_before_the_daemon_ended_stays_so(rack: Rack) -> None:
    rack.tell(LOST_TWO, read(added=("1A-2B", "3A-4B")), DENIED)
    assert [one.name for one in (await again(rack, after_s=1.0)).in_force()] == ["SwitchCommandsFail"]


async def test_carrier_that_flapped_before_the_daemon_ended_is_still_said_to(rack: Rack) -> None:
    rack.tell(birth(carrier=True, carrier_changes=7))
    flap(rack, 7, 8, 9, 10, 11)
    assert rack.names() == ["CarrierFlaps"]
    assert [one.name for one in (await again(rack, after_s=100.0)).in_force()] == ["CarrierFlaps"]
    assert (await again(rack, after_s=300.0)).in_force() == []


def test_link_that_was_wanted_before_the_daemon_started_is_missed_when_it_is_dark(rack: Rack) -> None:
    fabric = Fabric(load(EXAMPLE).require())
    pairs = frozenset(map(Crossconnect.parse, ("1A-3B", "3A-1B")))
    rack.ready.expect(fabric.routed_of({"ocs1": pairs}))
    rack.tell(birth(carrier=False), birth("h1", carrier=True))
    (found,) = rack.after(60.0)
    assert (found.name, found.subject) == ("LinkNotReady", LINK)
