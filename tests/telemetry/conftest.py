"""Documents as devices, agents and the daemon emit them."""

from collections.abc import Callable

import pytest

from hwd.model.kinds import check
from hwd.model.run import RunState, RunStatus
from hwd.telemetry import Budget, Metrics
from hwd_drivers.core.documents import Document, Json

Tell = Callable[..., None]


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(Budget(switches=2, ends=32, hosts=2, ports=4, lanes=16))


@pytest.fixture
def tell(metrics: Metrics) -> Tell:
    """Give a document to the metrics; its fields are checked against the kinds."""

    def told(kind: str, **data: Json) -> None:
        document = Document(kind=kind, at_ns=0, wall_ns=0, data=data)
        check(document)
        metrics(document)

    return told


@pytest.fixture
def event(tell: Tell) -> Tell:
    def told(host: str, port: str | None, type: str, **data: Json) -> None:
        tell(
            "host.event",
            host=host,
            boot="b",
            seq=1,
            type=type,
            port=port,
            earliest_ns=0,
            best_ns=0,
            latest_ns=0,
            agent_ns=0,
            origin="kernel",
            source="netlink",
            data=data,
        )

    return told


@pytest.fixture
def rack(tell: Tell, event: Tell) -> None:
    """A rack at work: every metric has a value."""
    tell("daemon.started", version="0.1.0", pid=1, testbed="two-rails", data_dir="/data")
    tell("daemon.lag", seconds=0.004)
    tell("limit.reached", limit="http-body", count=7, detail="9000000 bytes")
    tell("bus.up", address="mem:broker")
    tell("switch.up", switch="ocs1", vendor="Polatis", model="6000", serial="1", firmware="6.6", down_s=0.0)
    crossconnects = [
        {"id": "1A-2B", "state": "tuned"},
        {"id": "2A-1B", "state": "tuned"},
        {"id": "3A-4B", "state": "tuning"},
    ]
    tell("switch.read", switch="ocs1", crossconnects=crossconnects, added=[], removed=[], ours=True)
    tell("switch.command", switch="ocs1", verb="ENT-PATCH", outcome="done", seconds=0.2, code="", text="")
    tell("switch.override", switch="ocs1", ends=["5A", "6A"], to="force-blocked", by="ada@desk")
    tell("switch.overrun", switch="ocs1", reconfiguration="r0", lost=["1A-7B"], window_s=0.004)
    tell(
        "reconfiguration.commanded",
        reconfiguration="r0",
        switch="ocs1",
        commanded_ns=4_000_000,
        acknowledged_ns=204_000_000,
        commands=1,
        window_s=0.004,
    )
    tell("switch.power", switch="ocs1", power_dbm={"1A": -1.25, "2A": None})
    sources: Json = {}
    port: Json = {"interface": "enp65s0f0", "present": True, "carrier": True, "carrier_changes": 3, "sources": sources}
    monitors: Json = {
        "rx_power_dbm": [-2.5, None],
        "tx_power_dbm": [1.0, 1.5],
        "bias_ma": [40.0, None],
        "temperature_c": 34.5,
    }
    inventory: Json = {"monitors": {"eth0": monitors}}
    wall: Json = {"synchronised_by": "chrony", "reference": "10.0.0.1", "offset_s": 1e-5, "error_s": 2e-4}
    tell("host.birth", host="h0", boot="b", version="0.1.0", ports={"eth0": port}, inventory=inventory, wall_clock=wall)
    tell("host.up", host="h0", boot="b")
    event("h0", "eth0", "rdma", active=True)
    counts: dict[str, Json] = {"bytes": 1000, "packets": 10, "pause": 2}
    carried = {f"{way}_{key}": count for way in ("rx", "tx") for key, count in counts.items()}
    event("h0", "eth0", "counters", **carried, tcp_retransmissions=5)
    for outcome in ("up", "up", "not-up", "refused"):
        tell(
            "host.selection",
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
    tell("host.lost", host="h0", boot="b", count=2, why="spool full")
    tell("host.garbage", host="h0", topic="hwd/1/lab/h0/event", why="not JSON", count=3)
    tell(
        "clock.aligned",
        host="h0",
        boot="b",
        offset_ns=5_000_000_000,
        drift_ppm=50,
        error_ns=20_000,
        round_trip_ns=1,
        agent_ns=1,
        samples=9,
        via="udp",
    )
    tell("clock.stepped", host="h0", boot="b", by_ns=10**9, error_ns=9, earliest_ns=1, latest_ns=2)
    tell("lease.taken", lease="l1", holder="ada", ports=["ocs1.1"], expires_wall_ns=1)
    tell("reconfiguration.ended", reconfiguration="r1", run=None, outcome="confirmed", why="", seconds=6.3)
    stages: Json = [
        {"name": "firmware", "knowledge": "seen", "seconds": 6.0, "error_s": 0.001, "origin": "twin", "why": ""},
        {"name": "rdma", "knowledge": "unknown", "seconds": None, "error_s": None, "origin": None, "why": "no source"},
    ]
    instants: Json = [{"name": "ready", "knowledge": "seen"}]
    links: Json = [
        {"link": "h0.eth0<->h1.eth0", "kept": False, "instants": instants, "stages": stages, "dwell_s": None}
    ]
    tell(
        "timeline",
        reconfiguration="r1",
        run=None,
        what="pairs",
        commands=[],
        ends=[],
        links=links,
        breaches=[],
        explained=[],
        settings={},
        sweep={},
    )
    status = RunStatus(run="k3v9", playbook="soak", state=RunState.RUNNING, step=2, steps=8, queued_wall_ns=1)
    tell("run.state", **status.to_data())
    tell("run.ended", run="a", outcome="succeeded", why="", safe_state="")
