"""The series budget: a big testbed stays within the formula of docs/reference/metrics.md, and so does garbage."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hwd.config.testbed.testbed import load_testbed
from hwd.model.daemon import BusUp, DaemonLag, DaemonStarted, LimitReached
from hwd.model.host import HostBirth, HostGarbage
from hwd.model.instant import Instant, InstantName, Knowledge
from hwd.model.job import JobGranted, JobMeasured, JobStarted
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.reconfiguration import ReconfigurationCommanded, ReconfigurationEnded
from hwd.model.run_facts import RunEnded
from hwd.model.stage import Stage, StageName
from hwd.model.timeline import LinkTimeline, Timeline
from hwd.model.transfer import TransferClaimed
from hwd.telemetry import Budget, Metrics
from hwd.telemetry.budget import JOBS_SHOWN
from hwd.telemetry.switches import COMMAND_VERBS
from hwd_agents.wire import Inventory, WallClock
from hwd_agents.wire.events import MonitorData, RdmaData
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, PortOverride, PortSide
from hwd_drivers.devices import registry
from hwd_drivers.devices.facts import SwitchCommand, SwitchOverride, SwitchPower, SwitchRead, SwitchUp

from ..texts import by_end, ends_of
from .conftest import RackMetrics, aligned, host_event, port_state

PAGE = Path(__file__).parents[2] / "docs/reference/metrics.md"
SWITCHES, SIZE, HOSTS, PORTS, LANES = 16, 192, 192, 8, 4
WALL = WallClock(synchronised_by="chrony", error_s=0.001)
VERBS, OUTCOMES = tuple(f"VERB-{number}" for number in range(3)), ("done", "denied", "lost", "timeout", "garbled")


def stated(budget: Budget) -> float:
    """By the formula of the page."""
    (formula,) = re.findall(r"^series <= (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    terms = re.findall(r"(\d+)(?: x ([\w ]+?))?(?: \+|$)", formula)
    sizes = {
        "switches": budget.switches,
        "fibre ends": budget.ends,
        "hosts": budget.hosts,
        "NIC ports": budget.ports,
        "lanes": budget.lanes,
        "": 1,
    }
    assert {unit for _, unit in terms} == set(sizes)
    return sum(int(number) * sizes[unit] for number, unit in terms)


def timeline(*links: LinkTimeline) -> Timeline:
    return Timeline(reconfiguration="r", run=None, what="", commands=[], ends=[], links=[*links], breaches=[])


def ready_link(link: Link, *stages: StageName) -> LinkTimeline:
    seen = tuple(Stage(name=name, knowledge=Knowledge.SEEN, seconds=1.0) for name in stages)
    ready = Instant.never_left(InstantName.READY, "")
    return LinkTimeline(link=link, kept=False, instants=(ready,), stages=seen, dwell_s=None)


def samples(metrics: Metrics) -> int:
    return sum(not line.startswith(b"#") for line in bytes(metrics.render()).split(b"\n")[:-1])


def told(fact: Fact) -> Document:
    return Document(at_ns=0, wall_ns=0, fact=fact)


def everything(switches: int, size: int, hosts: int, ports: int) -> Iterator[Fact]:
    """Facts that make all series of a testbed of this size."""
    states = [
        CrossconnectReading(crossconnect=Crossconnect.parse(f"{number}A-{number}B"), state=state)
        for number, state in enumerate(CrossconnectState)
    ]
    for number in range(switches):
        switch = f"ocs{number}"
        yield SwitchUp(switch=switch, vendor="", model="", serial="", firmware="", down_s=0.0)
        yield SwitchRead(switch=switch, crossconnects=states, added=[], removed=[], ours=True)
        powers: dict[str, float | None] = {f"{port}{side}": -1.0 for port in range(size) for side in "AB"}
        yield SwitchPower(switch=switch, power_dbm=by_end(powers))
        yield SwitchOverride(switch=switch, ends=ends_of("1A"), to=PortOverride.FORCE_BLOCKED, by="")
        yield ReconfigurationCommanded(
            reconfiguration="r", switch=switch, commanded_ns=1, acknowledged_ns=2, commands=1, window_s=0.01
        )
        for verb in VERBS:
            for outcome in OUTCOMES:
                yield SwitchCommand(switch=switch, verb=verb, outcome=outcome, seconds=0.2, code="", text="")
    for number in range(hosts):
        host = f"h{number}"
        notes = {f"eth{port}": port_state(interface=f"eth{port}") for port in range(ports)}
        module = MonitorData(
            rx_power_dbm=[-1.0] * LANES, tx_power_dbm=[1.0] * LANES, bias_ma=[40.0] * LANES, temperature_c=35.0
        )
        yield HostBirth(
            host=host,
            boot="b",
            version="",
            ports=notes,
            inventory=Inventory(monitors=dict.fromkeys(notes, module)),
            wall_clock=WALL,
        )
        flight: dict[str, Any] = {"transfer": "t", "host": host, "process": "p", "phase": "-", "ports": ["eth0"]}
        yield TransferClaimed(**flight, within_s=1.0)
        yield JobGranted(job="j", entry="e", rank=0, operation="o", stall_s=0.1)
        yield HostGarbage(host=host, topic="", why="", count=1)
        yield aligned(1, host=host)
        for port in range(ports):
            rdma = host_event(RdmaData(active=True), "rdma", host=host)
            yield replace(rdma, port=f"eth{port}")
    for number in range(2 * JOBS_SHOWN):
        job: dict[str, Any] = {"job": f"j{number}", "entry": "e"}
        yield JobStarted(**job, hosts=[], plane="p", lease="l", prepared_set="", by="")
        yield JobMeasured(**job, operations=1, left_out=0, gamma=1.0, delta=1.0, theta=1.0, eta=1.0, why="")
    yield timeline(
        *(
            ready_link(Link.parse(f"h{number}.eth{port}<->h{number + 1}.eth{port}"), *StageName)
            for number in range(0, hosts, 2)
            for port in range(ports)
        )
    )
    yield ReconfigurationEnded(reconfiguration="r", run=None, outcome="confirmed", why="", seconds=1.0)
    yield DaemonStarted(version="1", pid=1, testbed="big", data_dir="")
    yield DaemonLag(seconds=0.1)
    yield BusUp(address="")


def test_a_big_testbed_has_all_its_series_and_stays_within_the_formula() -> None:
    budget = Budget(
        switches=SWITCHES, ends=SWITCHES * SIZE * 2, hosts=HOSTS, ports=HOSTS * PORTS, lanes=HOSTS * PORTS * LANES
    )
    metrics = RackMetrics(budget)
    for fact in everything(SWITCHES, SIZE, HOSTS, PORTS):
        metrics(told(fact))
    there = samples(metrics)
    assert metrics.limit == stated(budget)
    assert 10_000 < there <= metrics.limit
    text = bytes(metrics.render()).decode()
    assert text.count("hwd_job_efficiency_ratio{") == 4 * JOBS_SHOWN
    assert f"hwd_series_refused_total {4 * JOBS_SHOWN}.0" in text
    assert text.count("hwd_port_power_dbm{") == budget.ends
    assert text.count("hwd_nic_carrier{") == text.count("hwd_rdma_port_active{") == budget.ports
    assert text.count("hwd_nic_rx_power_dbm{") == text.count("hwd_nic_laser_bias_amperes{") == budget.lanes
    assert text.count("hwd_link_ready{") == budget.ports // 2
    assert text.count("hwd_switch_commands_total{") == SWITCHES * (len(VERBS) + len(COMMAND_VERBS)) * len(OUTCOMES)


def test_of_a_testbed_file_it_counts_what_is_in_it() -> None:
    example = Path(__file__).parents[2] / "examples/opus-testbed.yaml"
    testbed = load_testbed(example, {name: registry.find(name) for name in registry.names()}).require()
    assert Budget.of(testbed) == Budget(switches=1, ends=64, hosts=4, ports=16, lanes=64)


NAMES = st.text(st.characters(), max_size=12)


@settings(max_examples=10)
@given(st.lists(st.tuples(NAMES, NAMES, NAMES), min_size=20, max_size=60, unique=True))
def test_no_names_from_outside_go_beyond_the_budget_or_break_the_rendering(names: list[tuple[str, str, str]]) -> None:
    metrics = RackMetrics(Budget(switches=1, ends=2, hosts=1, ports=2, lanes=8))
    for one, two, three in names:
        metrics(told(SwitchUp(switch=one, vendor="", model="", serial="", firmware="", down_s=0.0)))
        metrics(told(SwitchCommand(switch=one, verb=two, outcome=three, seconds=1.0, code="", text="")))
        crossconnects = [CrossconnectReading(crossconnect=Crossconnect.parse("1A-2B"), state=CrossconnectState.TUNED)]
        metrics(told(SwitchRead(switch=one, crossconnects=crossconnects, added=[], removed=[], ours=True)))
        metrics(told(SwitchPower(switch=one, power_dbm={PortSide(port=two): 1.0, PortSide(port=three): 1.0})))
        metrics(told(HostBirth(host=one, boot="", version="", ports={two: port_state(interface=three)})))
        metrics(told(LimitReached(limit=two, count=1, detail=three)))
        metrics(told(HostGarbage(host=two, topic="", why="", count=1)))
        metrics(told(RunEnded(run=one, outcome=two, why="", safe_state="")))
        metrics(told(ReconfigurationEnded(reconfiguration=one, run=None, outcome=three, why="", seconds=1.0)))
        link = Link(a=NicPortId(host=one, port=""), b=NicPortId(host=two, port=""))
        metrics(told(timeline(ready_link(link, StageName.READY))))
    assert samples(metrics) <= metrics.limit
    text = bytes(metrics.render()).decode()
    assert "hwd_series_refused_total 0.0" not in text
    sample = r'\w+(\{(\w+="([^"\\\n]|\\[n"\\])*",?)*\})? -?(\d+\.\d+|\d+(\.\d+)?e[+-]\d+)'
    for line in text.split("\n")[:-1]:
        assert line.startswith("# ") or re.fullmatch(sample, line), line
