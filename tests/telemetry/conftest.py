"""Documents as devices, agents and the daemon emit them."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import pytest
from typing_extensions import override

from hwd.model.daemon import BusUp, DaemonDisk, DaemonLag, DaemonStarted, LimitReached, RecordsDropped
from hwd.model.host import (
    ClockAligned,
    ClockStepped,
    HostBirth,
    HostEvent,
    HostGarbage,
    HostLost,
    HostPort,
    HostSelection,
    HostUp,
)
from hwd.model.job import JobGranted, JobMeasured, JobStarted, JobSwitched
from hwd.model.lease import LeaseTaken
from hwd.model.reconfiguration import ReconfigurationCommanded, ReconfigurationEnded
from hwd.model.run import RunState, RunStatus
from hwd.model.run_facts import RunEnded
from hwd.model.switch import SwitchOverrun
from hwd.model.timeline import LinkTimeline
from hwd.rack.nic_ports import NicPorts
from hwd.rack.ready_links import ReadyLinks
from hwd.telemetry import Budget, Metrics
from hwd_agents.wire import Inventory, WallClock
from hwd_agents.wire.events import CounterData, MonitorData, RdmaData
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.structs import from_plain
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, PortOverride
from hwd_drivers.devices.facts import SwitchCommand, SwitchOverride, SwitchPower, SwitchRead, SwitchUp

from ..texts import by_end, ends_of, host_port, pairs_of, timeline_of

Tell = Callable[[Fact], None]
AT_ONCE: Final[dict[str, Any]] = {"earliest_ns": 0, "best_ns": 0, "latest_ns": 0, "agent_ns": 0}


COUNTERS: Final = CounterData(
    rx_bytes=1000,
    tx_bytes=1000,
    rx_packets=10,
    tx_packets=10,
    rx_errors=0,
    tx_errors=0,
    rx_dropped=0,
    tx_dropped=0,
    rx_pause=2,
    tx_pause=2,
    tcp_retransmissions=5,
)


def port_state(**changes: Any) -> HostPort:
    """A port of a birth message, as it is in documents."""
    return host_port(**{"interface": "enp65s0f0", "carrier_changes": 3, **changes})


def host_event(
    data: msgspec.Struct | dict[str, Any], type: str = "", *, host: str = "h0", past: bool = False
) -> HostEvent:
    """An event of an agent at eth0 of its host."""
    where: dict[str, Any] = {"host": host, "boot": "b", "seq": 1, "type": type, "port": "eth0"}
    return HostEvent(**where, **AT_ONCE, origin="kernel", source="netlink", past=past, data=data)


def aligned(error_ns: int, *, host: str = "h0") -> ClockAligned:
    rest: dict[str, Any] = {
        "offset_ns": 5_000_000_000,
        "drift_ppm": 50,
        "agent_ns": 1,
        "samples": 9,
        "round_trip_ns": 1,
    }
    return ClockAligned(host=host, boot="b", error_ns=error_ns, via="udp", **rest)


def birth(host: str = "h0", **port: Any) -> HostBirth:
    return HostBirth(host=host, boot="b", version="1", ports={"eth0": port_state(**port)})


class RackMetrics(Metrics):
    """Metrics with what they read, told in the order of the daemon."""

    def __init__(self, budget: Budget) -> None:
        self.ports = NicPorts()
        self.links = ReadyLinks(self.ports)
        super().__init__(budget, self.links)

    @override
    def __call__(self, document: Document) -> None:
        self.ports(document)
        self.links(document)
        super().__call__(document)


@pytest.fixture
def metrics() -> RackMetrics:
    return RackMetrics(Budget(switches=2, ends=32, hosts=2, ports=4, lanes=16))


@pytest.fixture
def tell(metrics: Metrics) -> Tell:
    """Give a document to the metrics."""

    def told(fact: Fact) -> None:
        metrics(Document(at_ns=0, wall_ns=0, fact=fact))

    return told


def rack_at_work() -> Iterator[Fact]:
    """Every metric has a value."""
    yield DaemonStarted(version="0.1.0", pid=1, testbed="two-rails", data_dir="/data")
    yield DaemonLag(seconds=0.004)
    yield DaemonDisk(path="/data", free_bytes=4_000_000_000, total_bytes=9_000_000_000, why="")
    yield RecordsDropped(documents=5, history=2, documents_days=90, history_days=365)
    yield LimitReached(limit="http-body", count=7, detail="9000000 bytes")
    yield BusUp(address="mem:broker")
    yield SwitchUp(switch="ocs1", vendor="Polatis", model="6000", serial="1", firmware="6.6", down_s=0.0)
    crossconnects = [
        CrossconnectReading(crossconnect=Crossconnect.parse("1A-2B"), state=CrossconnectState.TUNED),
        CrossconnectReading(crossconnect=Crossconnect.parse("2A-1B"), state=CrossconnectState.TUNED),
        CrossconnectReading(crossconnect=Crossconnect.parse("3A-4B"), state=CrossconnectState.TUNING),
    ]
    yield SwitchRead(switch="ocs1", crossconnects=crossconnects, added=[], removed=[], ours=True)
    yield SwitchCommand(switch="ocs1", verb="ENT-PATCH", outcome="done", seconds=0.2, code="", text="")
    yield SwitchOverride(switch="ocs1", ends=ends_of("5A", "6A"), to=PortOverride.FORCE_BLOCKED, by="ada@desk")
    yield SwitchOverrun(switch="ocs1", reconfiguration="r0", lost=pairs_of("1A-7B"), window_s=0.004)
    yield ReconfigurationCommanded(
        reconfiguration="r0",
        switch="ocs1",
        commanded_ns=4_000_000,
        acknowledged_ns=204_000_000,
        commands=1,
        window_s=0.004,
    )
    yield SwitchPower(switch="ocs1", power_dbm=by_end({"1A": -1.25, "2A": None}))
    monitors = MonitorData(rx_power_dbm=[-2.5, None], tx_power_dbm=[1.0, 1.5], bias_ma=[40.0, None], temperature_c=34.5)
    inventory = Inventory(monitors={"eth0": monitors})
    wall = WallClock(synchronised_by="chrony", reference="10.0.0.1", offset_s=1e-5, error_s=2e-4)
    yield HostBirth(
        host="h0", boot="b", version="0.1.0", ports={"eth0": port_state()}, inventory=inventory, wall_clock=wall
    )
    yield HostUp(host="h0", boot="b")
    yield host_event(RdmaData(active=True), "rdma")
    yield host_event(COUNTERS, "counters")
    for outcome in ("up", "up", "not-up", "refused"):
        yield HostSelection(
            host="h0",
            boot="b",
            selection="h0-b-1",
            outcome=outcome,
            why="",
            seconds=0.02,
            requested_ns=1,
            answered_ns=2,
            error_ns=1,
            switches={},
            ports={},
        )
    yield HostLost(host="h0", boot="b", count=2, why="spool full")
    yield HostGarbage(host="h0", topic="hwd/1/lab/h0/event", why="not JSON", count=3)
    yield aligned(20_000)
    yield ClockStepped(host="h0", boot="b", by_ns=10**9, error_ns=9, earliest_ns=1, latest_ns=2)
    yield JobStarted(job="j1", entry="e", hosts=["h0"], plane="p", lease="l1", prepared_set="", by="ada")
    yield JobGranted(job="j1", entry="e", rank=0, operation="all-reduce 0 of world", stall_s=0.25)
    factors = {"gamma": 0.66, "delta": 1.0, "theta": 0.5, "eta": 0.33}
    yield JobMeasured(job="j1", entry="e", operations=7, left_out=0, why="", **factors)
    yield JobSwitched(job="j1", entry="e", target="ring", reconfiguration="r1", why="", seconds=0.5)
    yield LeaseTaken(lease="l1", holder="ada", ports=["ocs1.1"], expires_wall_ns=1)
    yield ReconfigurationEnded(reconfiguration="r1", run=None, outcome="confirmed", why="", seconds=6.3)
    stages = [
        {"name": "firmware", "knowledge": "seen", "seconds": 6.0, "error_s": 0.001, "origin": "twin", "why": ""},
        {"name": "rdma", "knowledge": "unknown", "seconds": None, "error_s": None, "origin": None, "why": "no source"},
    ]
    instants = [{"name": "ready", "knowledge": "never-left", "why": ""}]
    links: list[dict[str, Any]] = [
        {"link": "h0.eth0<->h1.eth0", "kept": False, "instants": instants, "stages": stages, "dwell_s": None}
    ]
    links_told = from_plain(links, list[LinkTimeline])
    yield timeline_of(what="pairs", links=links_told, explained=[], settings={}, sweep={})
    status = RunStatus(run="k3v9", playbook="soak", state=RunState.RUNNING, step=2, steps=8, queued_wall_ns=1)
    yield status
    yield RunEnded(run="a", outcome="succeeded", why="", safe_state="")


@pytest.fixture
def rack(tell: Tell) -> None:
    for fact in rack_at_work():
        tell(fact)
