"""Metrics from documents."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from hwd.model.daemon import BusUp, DaemonRecovered, JournalGivenUp, JournalOpen, JournalRefused, JournalWritten
from hwd.model.host import HostBirth, HostDown, HostEvent, HostTrouble
from hwd.model.instant import Instant, InstantName
from hwd.model.job import JobEnded, JobMeasured, JobResumed, JobSwitched
from hwd.model.lease import LeaseReleased, LeaseRenewed
from hwd.model.link import Link
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationState
from hwd.model.run import RunState, RunStatus
from hwd.model.switch import SwitchDrift
from hwd.model.timeline import LinkTimeline, Timeline
from hwd.reconfigure.apply.reconfiguration import Outcome, State
from hwd.telemetry import Budget, Metrics
from hwd.telemetry.metrics import RECONFIGURATION_OUTCOMES, RECONFIGURATION_STATES
from hwd.telemetry.optics import Optics
from hwd_agents.wire import Inventory
from hwd_agents.wire.events import CarrierData, InterfaceData, LightData, MonitorData
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.values import PortOverride
from hwd_drivers.devices.facts import SwitchDown, SwitchOverride, SwitchPower, SwitchRead, SwitchRestarted, SwitchUp

from ..answers import check_golden
from ..texts import by_end, ends_of, pairs_of
from .conftest import COUNTERS, RackMetrics, birth, host_event, port_state, rack_at_work

GOLDEN = Path(__file__).with_name("metric_names.txt")
STORIES = Path(__file__).with_name("metric_stories.txt")
SMALL = Budget(switches=2, ends=32, hosts=2, ports=4, lanes=16)


def families(metrics: Metrics) -> list[tuple[str, str, list[str]]]:
    """Name, type and names of labels."""
    text = bytes(metrics.render()).decode()
    found = []
    for name, type in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE):
        lines = re.findall(rf"^{name}(?:_bucket|_sum|_count)?(?:{{(.*)}})? \S+$", text, re.MULTILINE)
        labels = {label for line in lines for label in re.findall(r'(\w+)="', line)} - {"le"}
        found.append((name, type, sorted(labels)))
    return sorted(found)


def test_names_types_and_labels_are_those_that_others_rely_on(metrics: Metrics, rack: None) -> None:
    text = "".join(f"{name} {type} {','.join(labels)}".rstrip() + "\n" for name, type, labels in families(metrics))
    assert text == GOLDEN.read_text()


def lines(metrics: Metrics) -> dict[str, str]:
    """Values by series, without the buckets of histograms."""
    text = bytes(metrics.render()).decode()
    samples = [
        line.rpartition(" ") for line in text.splitlines() if not line.startswith("#") and "_bucket{" not in line
    ]
    return {series: value for series, _, value in samples}


def changes(metrics: Metrics, *facts: Fact) -> Iterator[str]:
    """The series that facts change, or take away."""
    before = lines(metrics)
    for fact in facts:
        metrics(Document(at_ns=0, wall_ns=0, fact=fact))
    after = lines(metrics)
    for series in sorted(before.keys() | after.keys()):
        if (value := after.get(series, "gone")) != before.get(series, "gone"):
            yield f"  {series} {value}\n"


NEVER_LEFT = Instant.never_left(InstantName.READY, "")
UNKNOWN = Instant.unknown(InstantName.READY, "no source")


def link_timeline(link: str, *instants: Instant) -> LinkTimeline:
    return LinkTimeline(link=Link.parse(link), kept=False, instants=instants, stages=(), dwell_s=None)


def timeline(*links: LinkTimeline) -> Timeline:
    return Timeline(reconfiguration="r2", run=None, what="x", commands=[], ends=[], links=[*links], breaches=[])


MODULE = MonitorData(rx_power_dbm=[-4.0], tx_power_dbm=[2.0], bias_ma=[50.0], temperature_c=None)
LESS = replace(COUNTERS, rx_bytes=1500, tx_bytes=2500, rx_pause=None, tcp_retransmissions=None)
JOB: dict[str, Any] = {"job": "j1", "entry": "e"}
MEASURED = JobMeasured(**JOB, operations=7, left_out=1, gamma=0.7, delta=0.9, theta=None, eta=None, why="no rate")
JOB_ENDED = JobEnded(**JOB, outcome="succeeded", why="", seconds=2.0)
RUN = RunStatus(run="k3v9", playbook="soak", state=RunState.RUNNING, step=3, steps=8, queued_wall_ns=1)
ENTRY: dict[str, Any] = {"reconfiguration": "r1", "run": None}
GIVEN_UP = JournalGivenUp(**ENTRY, what="ring", why="", by="ada", left=[])
EMPTY = SwitchRead(switch="ocs1", crossconnects=[], added=[], removed=[], ours=True)
SWITCH_DOWN = SwitchDown(switch="ocs1", cause="lost")
HOST_DOWN = HostDown(host="h0", boot="b", cause="will")
NO_INTERFACE = host_event(InterfaceData(present=False), "interface")


def light(*lanes: float | None) -> HostEvent:
    return host_event(LightData(lanes=[*lanes]), "light")


def moves(*states: str) -> list[Fact]:
    return [ReconfigurationState(reconfiguration="r1", state=state) for state in states]


READY: tuple[tuple[Instant, ...], ...] = (
    (),
    (NEVER_LEFT,),
    (UNKNOWN,),
    (NEVER_LEFT, NEVER_LEFT),
    (NEVER_LEFT, UNKNOWN),
    (NEVER_LEFT,),
)
LINKS = [link_timeline(f"h{2 * n}.eth0<->h{2 * n + 1}.eth0", *instants) for n, instants in enumerate(READY)]
AT_WORK: dict[str, list[list[Fact]]] = {
    "Ends that are held dark are counted: unknown while the switch is down, and none when it is up again": [
        [SwitchOverride(switch="ocs1", ends=ends_of("5A"), to=PortOverride.NORMAL, by="ada@desk")],
        [SWITCH_DOWN],
        [SwitchUp(switch="ocs1", vendor="Polatis", model="6000", serial="1", firmware="6.6", down_s=1.0)],
    ],
    "A dark port has no power": [[SwitchPower(switch="ocs1", power_dbm=by_end({"1A": None}))]],
    "A lost agent leaves no carrier behind": [[HOST_DOWN]],
    "Events of an earlier boot change nothing of the present one": [
        [HostBirth(host="h0", boot="c", version="0.1.0", ports={"eth0": port_state(rdma=True)})],
        [host_event(CarrierData(carrier=False, carrier_changes=9), "carrier", past=True)],
    ],
    "A port that a new birth message does not name is removed": [
        [HostBirth(host="h0", boot="c", version="0.1.0", ports={})]
    ],
    "A crossconnect state that is gone has no series": [[EMPTY]],
    "A fallen carrier takes the readiness of its link": [
        [birth("h1", carrier=True), timeline(link_timeline("h0.eth0<->h1.eth0", NEVER_LEFT))],
        [host_event(CarrierData(carrier=False, carrier_changes=4), "carrier", host="h1")],
    ],
    "A new link of a port replaces its old one": [[timeline(link_timeline("h0.eth0<->h2.eth0", UNKNOWN))]],
    "The efficiency of a job has the factors that are known, and goes with the job": [
        [MEASURED],
        [JOB_ENDED],
        [MEASURED],  # it had been on its way
    ],
    "A job that has ended is counted by its outcome, and is not under way": [
        [JobSwitched(**JOB, target="ring", reconfiguration="r2", why="no light", seconds=0.5)],
        [replace(JOB_ENDED, outcome="failed")],
        [JobResumed(job="j2", entry="e", events=3)],
    ],
    "A change that we had not asked for is counted": [[replace(EMPTY, removed=["1A-2B"], ours=False)]],
    "A restart is counted, and is no change of somebody else": [
        [SwitchRestarted(switch="ocs1", sign="at-rest", lost=pairs_of("1A-2B"), uptime_s=None, unheard_s=4.0)],
        [replace(EMPTY, removed=["1A-2B"])],
    ],
    "A renewed lease is counted once, and a released one not at all": [
        [LeaseRenewed(lease="l1", holder="ada", ports=[], expires_wall_ns=2)],
        [LeaseReleased(lease="l1", holder="ada", ports=[], why="expired")],
    ],
    "What ports carried is counted by direction, and goes with their agent": [
        [host_event(LESS, "counters")],
        [HOST_DOWN],
    ],
    "Powers follow what a module and its light tell: a module of one lane is in it at the end": [
        [light(-3.0, -3.5)],
        [light(None, None)],
        [host_event(MODULE, "monitors")],
    ],
    "Of light and what else is told between two scrapes, the last is shown": [
        [light(-3.0), light(-3.25)],
        [light(-3.0), host_event(MODULE, "monitors")],
        [light(-3.0), NO_INTERFACE],
        [light(-3.0), HOST_DOWN],
    ],
    "A port that is born without a module has no light": [
        [replace(birth(), inventory=Inventory(monitors={"eth0": None}))]
    ],
    "Drift is what is missing and what is stale, and unknown while the switch is down": [
        [SwitchDrift(switch="ocs1", missing=pairs_of("1A-2B", "3A-4B"), stale=pairs_of("1A-7B"))],
        [SWITCH_DOWN],
    ],
}
FROM_THE_START: dict[str, list[list[Fact]]] = {
    "A rack at work": [[*rack_at_work()]],
    "What a switch may do is an increase from the start": [
        [SwitchUp(switch="ocs2", vendor="", model="", serial="", firmware="", down_s=0.0)]
    ],
    "What a host may lose is an increase from the start": [[birth()]],
    "A reconfiguration under way is counted by its state until it ends": [
        moves("journaled", "driving", "waiting"),
        [ReconfigurationEnded(**ENTRY, outcome="confirmed", why="", seconds=1.0)],
    ],
    "What the journal holds open is told until it is undone": [
        [JournalOpen(**ENTRY, what="ring", why=why, held=False) for why in ("ocs1: lost", "ocs1: refused")],
        [DaemonRecovered(**ENTRY, outcome="rolled-back", why="")],
    ],
    "What is held for an operator is told until it is given up, which is no recovery": [
        [JournalOpen(**ENTRY, what="ring", why="it is empty, or gone", held=True)],
        [GIVEN_UP],
    ],
    "Work for a host that fails is counted until it works again": [
        [HostTrouble(host="h0", task=task, why="KeyError: 'a'") for task in ("events", "clock", "events")],
        [HostTrouble(host="h0", task=task, why="") for task in ("events", "clock")],
    ],
    "An end that the journal does not take is counted until it does": [
        [JournalRefused(reconfiguration="r1", outcome="confirmed", why="Input/output error")],
        [JournalWritten(reconfiguration="r1", outcome="confirmed")],
    ],
    "A run is shown while it goes on": [
        [RUN],
        [replace(RUN, state=RunState.PAUSED)],
        [replace(RUN, state=RunState.SUCCEEDED)],
    ],
    "A link is ready where its timeline says so once or more and nothing else; the others are taken all the same": [
        [timeline(*LINKS)]
    ],
}


def test_each_story_changes_the_series_that_the_golden_file_says() -> None:
    """To take over what is said now: delete the file and run this twice."""
    metrics = RackMetrics(SMALL)
    text = "Before the first document\n" + "".join(f"  {series} {value}\n" for series, value in lines(metrics).items())
    for stories, before in ((FROM_THE_START, ()), (AT_WORK, (*rack_at_work(),))):
        for story, steps in stories.items():
            metrics = RackMetrics(SMALL)
            for _ in changes(metrics, *before):
                pass
            text += f"\n{story}\n"
            text += "  then\n".join("".join(changes(metrics, *facts)) for facts in steps)
    check_golden(STORIES, text)


def test_closed_sets_are_those_of_the_reconfigurer() -> None:
    """Telemetry may not import it: both stand on the same layer."""
    assert tuple(Outcome) == RECONFIGURATION_OUTCOMES
    assert tuple(state for state in State if state is not State.ENDED) == RECONFIGURATION_STATES


def test_two_daemons_in_one_process_share_nothing() -> None:
    one, other = RackMetrics(SMALL), RackMetrics(SMALL)
    one(Document(at_ns=0, wall_ns=0, fact=BusUp(address="x")))
    assert "hwd_bus_connected" in lines(one)
    assert "hwd_bus_connected" not in lines(other)


def test_light_of_ports_that_somebody_makes_up_is_not_kept_beyond_the_limit_of_the_series() -> None:
    optics = Optics(ports=2, lanes=4)
    rx = next(iter(optics))
    for number in range(1000):
        optics.light("h0", f"made-up-{number}", [-1.0])
        assert number < 2 or rx.refused >= number - 2 - 4
    optics.settle()
    assert (len(rx), rx.refused) == (4, 996)
