"""Metrics from documents."""

import re
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from hwd.model.documents.daemon import (
    BusUp,
    DaemonRecovered,
    JournalGivenUp,
    JournalOpen,
    JournalRefused,
    JournalWritten,
)
from hwd.model.documents.hosts import HostBirth, HostDown, HostEvent, HostTrouble
from hwd.model.documents.jobs import JobEnded, JobMeasured, JobResumed, JobSwitched
from hwd.model.documents.leases import LeaseReleased, LeaseRenewed
from hwd.model.documents.reconfigurations import ReconfigurationEnded, ReconfigurationState
from hwd.model.documents.switches import SwitchDrift
from hwd.model.fault import Clear
from hwd.model.instant import Instant, InstantName
from hwd.model.kinds import KINDS
from hwd.model.run import RunState, RunStatus
from hwd.model.timeline import LinkTimeline, Timeline
from hwd.reconfigure.apply.reconfiguration import Outcome, State
from hwd.telemetry import Budget, Metrics
from hwd.telemetry.metrics import RECONFIGURATION_OUTCOMES, RECONFIGURATION_STATES
from hwd.telemetry.optics import Optics
from hwd_agents.wire import Inventory, WallClock
from hwd_agents.wire.events import CarrierData, InterfaceData, LightData, MonitorData, RdmaData, ReadyData
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.values import PortOverride
from hwd_drivers.devices.facts import (
    SwitchDown,
    SwitchOverride,
    SwitchPower,
    SwitchRead,
    SwitchRestarted,
    SwitchUp,
)

from .conftest import COUNTERS, Tell, TellEvent, port_state

GOLDEN = Path(__file__).with_name("metric_names.txt")
SMALL = Budget(switches=2, ends=32, hosts=2, ports=4, lanes=16)


def series(name: str, **labels: str) -> str:
    """As it stands in the text format before its value."""
    escaped = {key: text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') for key, text in labels.items()}
    inner = ",".join(f'{key}="{escaped[key]}"' for key in sorted(escaped))
    return f"{name}{{{inner}}}" if inner else name


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """None where there is no such series."""
    before = series(name, **labels) + " "
    lines = bytes(metrics.render()).decode().split("\n")
    found = [float(line.removeprefix(before)) for line in lines if line.startswith(before)]
    assert len(found) < 2
    return found[0] if found else None


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


def test_rack_at_work_is_told_in_base_units(metrics: Metrics, rack: None) -> None:
    assert value(metrics, "hwd_build_info", version="0.1.0") == 1
    assert value(metrics, "hwd_switch_up", switch="ocs1") == 1
    assert value(metrics, "hwd_crossconnects", switch="ocs1", state="tuned") == 2
    assert value(metrics, "hwd_switch_commands_total", switch="ocs1", verb="ENT-PATCH", outcome="done") == 1
    assert value(metrics, "hwd_switch_command_seconds_sum", switch="ocs1") == 0.2
    assert value(metrics, "hwd_port_power_dbm", switch="ocs1", port="1A") == -1.25
    assert value(metrics, "hwd_nic_carrier", host="h0", device="enp65s0f0") == 1
    assert value(metrics, "hwd_nic_carrier_changes_total", host="h0", device="enp65s0f0") == 3
    assert value(metrics, "hwd_rdma_port_active", host="h0", device="enp65s0f0") == 1
    assert value(metrics, "hwd_selections_total", host="h0", outcome="up") == 2
    assert value(metrics, "hwd_selections_total", host="h0", outcome="not-up") == 1
    assert value(metrics, "hwd_agent_events_lost_total", host="h0") == 2
    assert value(metrics, "hwd_bus_garbage_total", host="h0") == 3
    assert value(metrics, "hwd_clock_offset_seconds", host="h0") == 5
    assert value(metrics, "hwd_clock_error_seconds", host="h0") == 20e-6
    assert value(metrics, "hwd_clock_drift_ratio", host="h0") == pytest.approx(50e-6)
    assert value(metrics, "hwd_clock_steps_total", host="h0") == 1
    assert value(metrics, "hwd_clock_udp", host="h0") == 1
    assert value(metrics, "hwd_wall_clock_synchronised", host="h0") == 1
    assert value(metrics, "hwd_wall_clock_error_seconds", host="h0") == 2e-4
    assert value(metrics, "hwd_stage_seconds_sum", stage="firmware") == 6.0
    assert value(metrics, "hwd_link_ready", link="h0.eth0<->h1.eth0") == 1
    assert value(metrics, "hwd_leases") == 1
    assert value(metrics, "hwd_jobs_under_way") == 1
    assert value(metrics, "hwd_job_stall_seconds_sum") == 0.25
    assert value(metrics, "hwd_job_efficiency_ratio", job_id="j1", factor="eta") == 0.33
    assert value(metrics, "hwd_topo_writes_total", outcome="applied") == 1
    assert value(metrics, "hwd_topo_writes_total", outcome="not-ready") == 0
    assert value(metrics, "hwd_runs_total", outcome="succeeded") == 1
    assert value(metrics, "hwd_event_loop_lag_seconds") == 0.004
    assert value(metrics, "hwd_data_free_bytes") == 4e9
    assert value(metrics, "hwd_records_dropped_total", group="documents") == 5
    assert value(metrics, "hwd_records_dropped_total", group="history") == 2
    assert value(metrics, "hwd_limit_reached_total", limit="http-body") == 7
    assert value(metrics, "hwd_limit_reached_total", limit="mqtt-packet") == 0


def test_overruns_the_window_and_ends_that_are_held_dark_are_told(metrics: Metrics, rack: None, tell: Tell) -> None:
    assert value(metrics, "hwd_switch_overruns_total", switch="ocs1") == 1
    assert value(metrics, "hwd_switch_unguarded_seconds_sum", switch="ocs1") == 0.004
    assert value(metrics, "hwd_switch_unguarded_seconds_count", switch="ocs1") == 1
    assert value(metrics, "hwd_switch_blocked_ends", switch="ocs1") == 2
    tell(SwitchOverride(switch="ocs1", ends=["5A"], to=PortOverride.NORMAL, by="ada@desk"))
    assert value(metrics, "hwd_switch_blocked_ends", switch="ocs1") == 1
    tell(SwitchDown(switch="ocs1", cause="lost"))
    assert value(metrics, "hwd_switch_blocked_ends", switch="ocs1") is None
    assert value(metrics, "hwd_switch_overruns_total", switch="ocs1") == 1
    tell(SwitchUp(switch="ocs1", vendor="Polatis", model="6000", serial="1", firmware="6.6", down_s=1.0))
    assert value(metrics, "hwd_switch_blocked_ends", switch="ocs1") == 0, "a board shows a healthy rack too"


def test_an_overrun_is_an_increase_from_the_start(metrics: Metrics, tell: Tell) -> None:
    tell(SwitchUp(switch="ocs2", vendor="", model="", serial="", firmware="", down_s=0.0))
    assert value(metrics, "hwd_switch_overruns_total", switch="ocs2") == 0


def test_dark_port_has_no_power(metrics: Metrics, rack: None, tell: Tell) -> None:
    assert value(metrics, "hwd_port_power_dbm", switch="ocs1", port="2A") is None
    tell(SwitchPower(switch="ocs1", power_dbm={"1A": None}))
    assert value(metrics, "hwd_port_power_dbm", switch="ocs1", port="1A") is None
    assert b"-Inf" not in bytes(metrics.render())


def test_unknown_stage_is_not_observed_as_zero(metrics: Metrics, rack: None) -> None:
    assert value(metrics, "hwd_stage_seconds_count", stage="rdma") is None


def test_lost_switch_says_only_that_it_is_lost(metrics: Metrics, rack: None, tell: Tell) -> None:
    tell(SwitchDown(switch="ocs1", cause="reset"))
    assert value(metrics, "hwd_switch_up", switch="ocs1") == 0
    assert value(metrics, "hwd_crossconnects", switch="ocs1", state="tuned") is None
    assert value(metrics, "hwd_port_power_dbm", switch="ocs1", port="1A") is None
    assert value(metrics, "hwd_switch_commands_total", switch="ocs1", verb="ENT-PATCH", outcome="done") == 1


def test_lost_agent_leaves_no_carrier_behind(metrics: Metrics, rack: None, tell: Tell) -> None:
    tell(HostDown(host="h0", boot="b", cause="will"))
    assert value(metrics, "hwd_agent_up", host="h0") == 0
    for name in ("hwd_nic_carrier", "hwd_rdma_port_active"):
        assert value(metrics, name, host="h0", device="enp65s0f0") is None
    assert value(metrics, "hwd_clock_error_seconds", host="h0") is None


def test_events_of_an_earlier_boot_change_nothing_of_the_present_one(
    metrics: Metrics, rack: None, tell: Tell, event: TellEvent
) -> None:
    tell(HostBirth(host="h0", boot="c", version="0.1.0", ports={"eth0": port_state(rdma=True)}))
    event("h0", "eth0", "carrier", CarrierData(carrier=False, carrier_changes=9), past=True)
    assert value(metrics, "hwd_nic_carrier", host="h0", device="enp65s0f0") == 1
    assert value(metrics, "hwd_rdma_port_active", host="h0", device="enp65s0f0") == 1


def test_a_port_that_a_new_birth_message_does_not_name_is_removed(metrics: Metrics, rack: None, tell: Tell) -> None:
    tell(HostBirth(host="h0", boot="c", version="0.1.0", ports={}))
    assert value(metrics, "hwd_nic_carrier", host="h0", device="enp65s0f0") is None


def test_crossconnect_state_that_is_gone_has_no_series(metrics: Metrics, rack: None, tell: Tell) -> None:
    tell(SwitchRead(switch="ocs1", crossconnects=[], added=[], removed=[], ours=True))
    assert value(metrics, "hwd_crossconnects", switch="ocs1", state="tuning") is None


def test_fallen_carrier_takes_the_readiness_of_its_link(metrics: Metrics, rack: None, event: TellEvent) -> None:
    event("h1", "eth0", "carrier", CarrierData(carrier=False, carrier_changes=4))
    assert value(metrics, "hwd_link_ready", link="h0.eth0<->h1.eth0") == 0


NEVER_LEFT = Instant.never_left(InstantName.READY, "")
UNKNOWN = Instant.unknown(InstantName.READY, "no source")


def link_timeline(link: str, *instants: Instant) -> LinkTimeline:
    return LinkTimeline(link=link, kept=False, instants=instants, stages=(), dwell_s=None)


def timeline(*links: LinkTimeline) -> Timeline:
    return Timeline(reconfiguration="r2", run=None, what="x", commands=[], ends=[], links=[*links], breaches=[])


def test_new_link_of_a_port_replaces_its_old_one(metrics: Metrics, rack: None, tell: Tell) -> None:
    tell(timeline(link_timeline("h0.eth0<->h2.eth0", UNKNOWN)))
    assert value(metrics, "hwd_link_ready", link="h0.eth0<->h1.eth0") is None
    assert value(metrics, "hwd_link_ready", link="h0.eth0<->h2.eth0") is None


@pytest.mark.parametrize(
    ("instants", "ready"),
    [((), None), ((NEVER_LEFT,), 1), ((UNKNOWN,), None), ((NEVER_LEFT, NEVER_LEFT), 1), ((NEVER_LEFT, UNKNOWN), None)],
)
def test_a_link_is_ready_where_its_timeline_says_so_and_nothing_else(
    instants: tuple[Instant, ...], ready: float | None, metrics: Metrics, tell: Tell
) -> None:
    """Also where a timeline names `ready` of a link not at all or twice: the other links are taken all the same."""
    tell(timeline(link_timeline("h4.eth0<->h5.eth0", *instants), link_timeline("h6.eth0<->h7.eth0", NEVER_LEFT)))
    assert value(metrics, "hwd_link_ready", link="h4.eth0<->h5.eth0") == ready
    assert value(metrics, "hwd_link_ready", link="h6.eth0<->h7.eth0") == 1


def test_closed_sets_are_those_of_the_reconfigurer() -> None:
    """Telemetry may not import it: both stand on the same layer."""
    assert tuple(Outcome) == RECONFIGURATION_OUTCOMES
    assert tuple(state for state in State if state is not State.ENDED) == RECONFIGURATION_STATES


def test_outcomes_begin_at_zero_so_that_the_first_is_an_increase() -> None:
    metrics = Metrics(SMALL)
    assert value(metrics, "hwd_runs_total", outcome="failed") == 0
    assert value(metrics, "hwd_reconfigurations_total", outcome="rolled-back") == 0
    assert value(metrics, "hwd_journal_open") == 0
    assert value(metrics, "hwd_job_stall_seconds_count") == 0


def test_efficiency_of_a_job_has_the_factors_that_are_known_and_goes_with_the_job(
    metrics: Metrics, rack: None, tell: Tell
) -> None:
    def shown() -> dict[str, float | None]:
        names = ("gamma", "delta", "theta", "eta")
        return {name: value(metrics, "hwd_job_efficiency_ratio", job_id="j1", factor=name) for name in names}

    assert shown() == {"gamma": 0.66, "delta": 1, "theta": 0.5, "eta": 0.33}
    measured = JobMeasured(
        job="j1", entry="e", operations=7, left_out=1, gamma=0.7, delta=0.9, theta=None, eta=None, why="no rate"
    )
    tell(measured)
    assert shown() == {"gamma": 0.7, "delta": 0.9, "theta": None, "eta": None}
    tell(JobEnded(job="j1", entry="e", outcome="succeeded", why="", seconds=2.0))
    tell(measured)  # it had been on its way
    assert set(shown().values()) == {None}


def test_job_that_has_ended_is_counted_by_its_outcome_and_is_not_under_way(
    metrics: Metrics, rack: None, tell: Tell
) -> None:
    tell(JobSwitched(job="j1", entry="e", target="ring", reconfiguration="r2", why="no light", seconds=0.5))
    tell(JobEnded(job="j1", entry="e", outcome="failed", why="no light", seconds=2.0))
    tell(JobResumed(job="j2", entry="e", events=3))
    assert value(metrics, "hwd_jobs_under_way") == 1
    assert value(metrics, "hwd_jobs_total", outcome="failed") == 1
    assert value(metrics, "hwd_jobs_total", outcome="succeeded") == 0
    assert value(metrics, "hwd_topo_writes_total", outcome="not-ready") == 1


def test_commands_of_a_switch_begin_at_zero(metrics: Metrics, rack: None) -> None:
    assert value(metrics, "hwd_switch_commands_total", switch="ocs1", verb="change", outcome="denied") == 0
    assert value(metrics, "hwd_switch_foreign_changes_total", switch="ocs1") == 0


def test_change_that_we_had_not_asked_for_is_counted(metrics: Metrics, rack: None, tell: Tell) -> None:
    tell(SwitchRead(switch="ocs1", crossconnects=[], added=[], removed=["1A-2B"], ours=False))
    assert value(metrics, "hwd_switch_foreign_changes_total", switch="ocs1") == 1


def test_restart_is_counted_and_is_no_change_of_somebody_else(metrics: Metrics, rack: None, tell: Tell) -> None:
    assert value(metrics, "hwd_switch_restarts_total", switch="ocs1") == 0
    tell(SwitchRestarted(switch="ocs1", sign="at-rest", lost=["1A-2B"], uptime_s=None, unheard_s=4.0))
    tell(SwitchRead(switch="ocs1", crossconnects=[], added=[], removed=["1A-2B"], ours=True))
    assert value(metrics, "hwd_switch_restarts_total", switch="ocs1") == 1
    assert value(metrics, "hwd_switch_foreign_changes_total", switch="ocs1") == 0


def test_events_lost_of_a_host_begin_at_zero(metrics: Metrics, tell: Tell) -> None:
    tell(HostBirth(host="h0", boot="b", version="0.1.0", ports={}))
    assert value(metrics, "hwd_agent_events_lost_total", host="h0") == 0


def test_reconfiguration_under_way_is_counted_by_its_state_until_it_ends(metrics: Metrics, tell: Tell) -> None:
    for state in ("journaled", "driving", "waiting"):
        tell(ReconfigurationState(reconfiguration="r1", state=state))
    assert value(metrics, "hwd_reconfigurations_under_way", state="waiting") == 1
    assert value(metrics, "hwd_reconfigurations_under_way", state="driving") == 0
    tell(ReconfigurationEnded(reconfiguration="r1", run=None, outcome="confirmed", why="", seconds=1.0))
    assert value(metrics, "hwd_reconfigurations_under_way", state="waiting") == 0


def test_what_the_journal_holds_open_is_told_until_it_is_undone(metrics: Metrics, tell: Tell) -> None:
    for why in ("ocs1: lost", "ocs1: refused"):
        tell(JournalOpen(reconfiguration="r1", run=None, what="ring", why=why, held=False))
    assert value(metrics, "hwd_journal_open") == 1
    tell(DaemonRecovered(reconfiguration="r1", run=None, outcome="rolled-back", why=""))
    assert value(metrics, "hwd_journal_open") == 0
    assert value(metrics, "hwd_job_stall_seconds_count") == 0
    assert value(metrics, "hwd_recoveries_total", outcome="rolled-back") == 1


def test_what_a_damaged_journal_leaves_to_an_operator_is_held_until_it_is_given_up(
    metrics: Metrics, tell: Tell
) -> None:
    tell(JournalOpen(reconfiguration="damage-7", run=None, what="ring", why="it is empty, or gone", held=True))
    assert (value(metrics, "hwd_journal_open"), value(metrics, "hwd_journal_held")) == (1, 1)
    tell(JournalGivenUp(reconfiguration="damage-7", run=None, what="ring", why="", by="ada", left=[]))
    assert (value(metrics, "hwd_journal_open"), value(metrics, "hwd_journal_held")) == (0, 0)


def test_work_for_a_host_that_fails_is_counted_until_it_works_again(metrics: Metrics, tell: Tell) -> None:
    for task in ("events", "clock", "events"):
        tell(HostTrouble(host="h0", task=task, why="KeyError: 'a'"))
    assert value(metrics, "hwd_host_trouble", host="h0") == 2
    for task in ("events", "clock"):
        tell(HostTrouble(host="h0", task=task, why=""))
    assert value(metrics, "hwd_host_trouble", host="h0") == 0


def test_an_end_that_the_journal_does_not_take_is_counted_until_it_does(metrics: Metrics, tell: Tell) -> None:
    tell(JournalRefused(reconfiguration="r1", outcome="confirmed", why="Input/output error"))
    assert value(metrics, "hwd_journal_unwritten") == 1
    tell(JournalWritten(reconfiguration="r1", outcome="confirmed"))
    assert value(metrics, "hwd_journal_unwritten") == 0


def test_what_was_given_up_is_not_open_any_more_and_no_recovery(metrics: Metrics, tell: Tell) -> None:
    tell(JournalOpen(reconfiguration="r1", run=None, what="ring", why="ocs1: refused", held=False))
    tell(JournalGivenUp(reconfiguration="r1", run=None, what="ring", why="ocs1: refused", by="ada", left=[]))
    assert value(metrics, "hwd_journal_open") == 0
    assert value(metrics, "hwd_job_stall_seconds_count") == 0
    assert value(metrics, "hwd_recoveries_total", outcome="rolled-back") == 0


def test_run_is_shown_while_it_goes_on(metrics: Metrics, tell: Tell) -> None:
    status = RunStatus(run="k3v9", playbook="soak", state=RunState.RUNNING, step=3, steps=8, queued_wall_ns=1)
    tell(status)
    assert value(metrics, "hwd_run_progress_ratio", run="k3v9", playbook="soak") == 0.25
    assert value(metrics, "hwd_runs_under_way", state="running") == 1
    tell(replace(status, state=RunState.PAUSED))
    assert value(metrics, "hwd_runs_under_way", state="paused") == 1
    assert value(metrics, "hwd_runs_under_way", state="running") == 0
    tell(replace(status, state=RunState.SUCCEEDED))
    assert value(metrics, "hwd_run_progress_ratio", run="k3v9", playbook="soak") is None
    assert value(metrics, "hwd_runs_under_way", state="paused") == 0


def test_released_lease_is_not_counted_and_a_renewed_one_once(metrics: Metrics, rack: None, tell: Tell) -> None:
    tell(LeaseRenewed(lease="l1", holder="ada", ports=[], expires_wall_ns=2))
    assert value(metrics, "hwd_leases") == 1
    assert value(metrics, "hwd_jobs_under_way") == 1
    assert value(metrics, "hwd_job_stall_seconds_sum") == 0.25
    assert value(metrics, "hwd_topo_writes_total", outcome="applied") == 1
    assert value(metrics, "hwd_topo_writes_total", outcome="not-ready") == 0
    tell(LeaseReleased(lease="l1", holder="ada", ports=[], why="expired"))
    assert value(metrics, "hwd_leases") == 0


def test_two_daemons_in_one_process_share_nothing() -> None:
    one, other = Metrics(SMALL), Metrics(SMALL)
    one(Document(at_ns=0, wall_ns=0, fact=BusUp(address="x")))
    assert value(other, "hwd_bus_connected") is None


NAMES = st.text(st.characters(), max_size=300)
NUMBERS = st.floats(-1e300, 1e300)
"""A sum of some is finite too."""
MAYBE = st.none() | st.booleans()
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: NAMES,
    int: st.integers(0, 2**64),
    float: NUMBERS,
    bool: st.booleans(),
    NoneType: st.none(),
    UnsetType: st.just(UNSET),
    Any: st.none(),
}
EVENT_DATA = (CarrierData, InterfaceData, LightData, MonitorData, RdmaData, ReadyData)
NESTED: dict[tuple[Any, str], st.SearchStrategy[Any]] = {
    (HostBirth, "ports"): st.dictionaries(
        NAMES,
        st.builds(port_state, interface=NAMES, carrier=MAYBE, carrier_changes=st.none() | PLAIN[int], rdma=MAYBE),
        max_size=3,
    ),
    (HostBirth, "inventory"): st.just(UNSET) | st.just(Inventory()),
    (HostBirth, "wall_clock"): st.none() | st.builds(WallClock, synchronised_by=NAMES, error_s=NUMBERS),
    (HostEvent, "data"): st.deferred(
        lambda: st.one_of([st.dictionaries(NAMES, MAYBE, max_size=3), *(structs(data) for data in EVENT_DATA)])
    ),
    (LinkTimeline, "instants"): st.lists(st.sampled_from([NEVER_LEFT, UNKNOWN]), max_size=2).map(tuple),
    (Timeline, "commands"): st.just([]),
    (Timeline, "ends"): st.just([]),
}
"""By struct and field: JSON inside a document."""


def structs(type: Any) -> st.SearchStrategy[Any]:
    """Structs of a type with any values in their fields."""
    if type is Clear:  # the only one whose fields bar each other
        return st.one_of(st.builds(Clear), *(st.builds(Clear, **{name: NAMES}) for name in ("switch", "port", "host")))
    fields = {
        one.name: NESTED[type, one.name] if (type, one.name) in NESTED else values(one.type)
        for one in msgspec.structs.fields(type)
    }
    return st.builds(type, **fields)


def values(type: Any) -> st.SearchStrategy[Any]:
    """Values of the type of a field."""
    origin, inner = get_origin(type), get_args(type)
    if type in PLAIN:
        return PLAIN[type]
    if origin is None:
        return structs(type) if issubclass(type, msgspec.Struct) else st.sampled_from(type)
    if origin in (Union, UnionType):
        return st.one_of([values(one) for one in inner])
    if origin is Annotated:
        return values(inner[0])
    if origin is Literal:
        return st.sampled_from(inner)
    if origin is dict:
        return st.dictionaries(values(inner[0]), values(inner[1]), max_size=3)
    assert origin in (list, tuple)
    return st.lists(values(inner[0]), max_size=3)


@given(st.lists(st.sampled_from(sorted(KINDS.values(), key=lambda fact: fact.KIND)).flatmap(structs), max_size=5))
def test_nothing_from_outside_breaks_the_rendering(facts: list[Fact]) -> None:
    metrics = Metrics(SMALL)
    for fact in facts:
        metrics(Document(at_ns=0, wall_ns=0, fact=fact))
    sample = r'\w+(\{(\w+="([^"\\\n]|\\[n"\\])*",?)*\})? -?(\d+\.\d+|\d+(\.\d+)?e[+-]\d+)'
    for line in bytes(metrics.render()).decode().split("\n")[:-1]:
        assert line.startswith("# ") or re.fullmatch(sample, line), line


@given(st.text(st.characters(), max_size=250))
def test_label_value_is_as_the_document_has_it_in_utf_8_and_at_most_200_characters(name: str) -> None:
    metrics = Metrics(SMALL)
    metrics(Document(at_ns=0, wall_ns=0, fact=SwitchDown(switch=name, cause="")))
    expected = name[:200].encode("utf-8", "replace").decode()
    assert value(metrics, "hwd_switch_up", switch=expected) == 0


def test_what_ports_carried_is_counted_by_direction_and_goes_with_their_agent(
    metrics: Metrics, rack: None, event: TellEvent, tell: Tell
) -> None:
    of_port = {"host": "h0", "device": "enp65s0f0"}
    assert value(metrics, "hwd_nic_bytes_total", **of_port, direction="received") == 1000
    more = replace(COUNTERS, rx_bytes=1500, tx_bytes=2500, rx_pause=None, tcp_retransmissions=None)
    event("h0", "eth0", "counters", more)
    assert value(metrics, "hwd_nic_bytes_total", **of_port, direction="received") == 1500
    assert value(metrics, "hwd_nic_bytes_total", **of_port, direction="sent") == 2500
    assert value(metrics, "hwd_nic_pause_frames_total", **of_port, direction="received") == 2
    assert value(metrics, "hwd_host_tcp_retransmissions_total", host="h0") == 5
    tell(HostDown(host="h0", boot="b", cause="will"))
    assert value(metrics, "hwd_nic_bytes_total", **of_port, direction="sent") is None
    assert value(metrics, "hwd_host_tcp_retransmissions_total", host="h0") is None


ONE_LANE = MonitorData(rx_power_dbm=[-4.0], tx_power_dbm=[2.0], bias_ma=[50.0], temperature_c=None)
OF_PORT = {"host": "h0", "device": "enp65s0f0"}


def test_light_and_lasers_of_a_module_are_told_by_lane_in_base_units(metrics: Metrics, rack: None) -> None:
    assert value(metrics, "hwd_nic_rx_power_dbm", **OF_PORT, lane="1") == -2.5
    assert value(metrics, "hwd_nic_rx_power_dbm", **OF_PORT, lane="2") is None, "dark"
    assert value(metrics, "hwd_nic_tx_power_dbm", **OF_PORT, lane="2") == 1.5
    assert value(metrics, "hwd_nic_laser_bias_amperes", **OF_PORT, lane="1") == 0.04
    assert value(metrics, "hwd_nic_laser_bias_amperes", **OF_PORT, lane="2") is None, "not measured"
    assert value(metrics, "hwd_nic_module_temperature_celsius", **OF_PORT) == 34.5


def test_powers_follow_what_a_module_and_its_light_tell(metrics: Metrics, rack: None, event: TellEvent) -> None:
    event("h0", "eth0", "light", LightData(lanes=[-3.0, -3.5]))
    assert value(metrics, "hwd_nic_rx_power_dbm", **OF_PORT, lane="2") == -3.5
    event("h0", "eth0", "dark", LightData(lanes=[None, None]))
    assert value(metrics, "hwd_nic_rx_power_dbm", **OF_PORT, lane="1") is None
    event("h0", "eth0", "monitors", ONE_LANE)
    assert value(metrics, "hwd_nic_rx_power_dbm", **OF_PORT, lane="1") == -4.0
    assert value(metrics, "hwd_nic_tx_power_dbm", **OF_PORT, lane="2") is None, "a module of one lane is in it now"
    assert value(metrics, "hwd_nic_laser_bias_amperes", **OF_PORT, lane="1") == 0.05
    assert value(metrics, "hwd_nic_module_temperature_celsius", **OF_PORT) is None


def test_of_light_and_what_else_is_told_between_two_scrapes_the_last_is_shown(
    metrics: Metrics, rack: None, tell: Tell, event: TellEvent
) -> None:
    event("h0", "eth0", "light", LightData(lanes=[-3.0]))
    event("h0", "eth0", "light", LightData(lanes=[-3.25]))
    assert value(metrics, "hwd_nic_rx_power_dbm", **OF_PORT, lane="1") == -3.25
    event("h0", "eth0", "light", LightData(lanes=[-3.0]))
    event("h0", "eth0", "monitors", ONE_LANE)
    assert value(metrics, "hwd_nic_rx_power_dbm", **OF_PORT, lane="1") == -4.0
    event("h0", "eth0", "light", LightData(lanes=[-3.0]))
    event("h0", "eth0", "interface", InterfaceData(present=False))
    assert value(metrics, "hwd_nic_rx_power_dbm", **OF_PORT, lane="1") is None
    event("h0", "eth0", "light", LightData(lanes=[-3.0]))
    tell(HostDown(host="h0", boot="b", cause="will"))
    assert value(metrics, "hwd_nic_rx_power_dbm", **OF_PORT, lane="1") is None


def test_light_of_ports_that_somebody_makes_up_is_not_kept_beyond_the_limit_of_the_series() -> None:
    optics = Optics(ports=2, lanes=4)
    rx = next(iter(optics))
    for number in range(1000):
        optics.light("h0", f"made-up-{number}", [-1.0])
        assert number < 2 or rx.refused >= number - 2 - 4
    optics.settle()
    assert (len(rx), rx.refused) == (4, 996)


@pytest.mark.parametrize("what", ["down", "born without", "interface gone"])
def test_what_is_not_known_any_more_has_no_series(
    metrics: Metrics, rack: None, tell: Tell, event: TellEvent, what: str
) -> None:
    match what:
        case "down":
            tell(HostDown(host="h0", boot="b", cause="will"))
        case "born without":
            inventory = Inventory(monitors={"eth0": None})
            tell(HostBirth(host="h0", boot="b", version="0.1.0", ports={"eth0": port_state()}, inventory=inventory))
        case _:
            event("h0", "eth0", "interface", InterfaceData(present=False))
    assert b"hwd_nic_tx_power_dbm{" not in bytes(metrics.render())
    assert b"hwd_nic_module_temperature_celsius{" not in bytes(metrics.render())


def test_drift_of_a_switch_is_what_is_missing_and_what_is_stale_and_unknown_while_it_is_down(
    metrics: Metrics, rack: None, tell: Tell
) -> None:
    assert value(metrics, "hwd_switch_drift", switch="ocs1") == 0
    tell(SwitchDrift(switch="ocs1", missing=["1A-2B", "3A-4B"], stale=["1A-7B"]))
    assert value(metrics, "hwd_switch_drift", switch="ocs1") == 3
    tell(SwitchDown(switch="ocs1", cause="lost"))
    assert value(metrics, "hwd_switch_drift", switch="ocs1") is None
