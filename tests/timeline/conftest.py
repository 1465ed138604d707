"""A story teller: documents of one reconfiguration of the link h0.eth0<->h1.eth0, in milliseconds after the command."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from hwd.model.host import HostEvent
from hwd.model.instant import Instant, InstantName, Knowledge, Origin
from hwd.model.reconfiguration import ReconfigurationCommanded, ReconfigurationStarted, StartedLink, StartedMove
from hwd.model.run_facts import RunHost
from hwd.timeline import Sample, Stage, StageName, Timeline, build_timeline
from hwd.timeline.host_action import HostAction
from hwd_agents.wire import Observation
from hwd_drivers.core.structs import from_plain

START_NS = 1_000_000_000_000
MS = 1_000_000

LINK = "h0.eth0<->h1.eth0"
WATCHED = {"light": True, "firmware": True, "carrier": True, "rdma": True, "ready": False}


@dataclass
class Story:
    """What happened; `tell()` makes the timeline of it."""

    links: list[dict[str, Any]] = field(
        default_factory=lambda: [{"link": LINK, "kept": False, "crossconnects": ["ocs1:1A-2B", "ocs1:2A-1B"]}]
    )
    moves: list[dict[str, Any]] = field(
        default_factory=lambda: [{"switch": "ocs1", "remove": [], "add": ["1A-2B", "2A-1B"]}]
    )
    commanded: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    settled: dict[str, dict[str, Any]] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    actions: list[HostAction] = field(default_factory=list)
    sweep: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def command(self, switch: str, at_ms: float, answered_ms: float | None) -> None:
        self.commanded.append(
            {
                "reconfiguration": "r1",
                "switch": switch,
                "commanded_ns": START_NS + round(at_ms * MS),
                "acknowledged_ns": None if answered_ms is None else START_NS + round(answered_ms * MS),
                "commands": 1,
            }
        )

    def event(
        self,
        end: str,
        kind: str,
        at_ms: float,
        *,
        error_ms: float = 0.1,
        source: str = "source",
        origin: str = "measured",
        **data: Any,
    ) -> None:
        host, _, port = end.partition(".")
        if kind in ("dark", "light"):
            data.setdefault("lanes", [-2.0 if kind == "light" else None])
        self.events.append(
            {
                "host": host,
                "boot": "b",
                "seq": len(self.events) + 1,
                "type": kind,
                "port": port or None,
                "earliest_ns": START_NS + round((at_ms - error_ms) * MS),
                "latest_ns": START_NS + round((at_ms + error_ms) * MS),
                "best_ns": START_NS + round(at_ms * MS),
                "agent_ns": 0,
                "origin": origin,
                "source": source,
                "data": data,
            }
        )

    def act(self, port: str, *, from_ms: float, to_ms: float) -> None:
        fact = RunHost(
            run="k3v9",
            host=port.partition(".")[0],
            port=port,
            action="autoneg",
            seconds=(to_ms - from_ms) / 1000,
            before=None,
            after=None,
        )
        self.actions.append(HostAction.of(fact, at_ns=START_NS + round(to_ms * MS)))

    def usual(self, end: str, late_ms: float = 0) -> None:
        """A NIC as the Opus testbed has it."""
        peer = "h1.eth0" if end == "h0.eth0" else "h0.eth0"
        self.event(end, "dark", 5 + late_ms, source="module")
        self.event(end, "carrier", 6 + late_ms, source="netlink", carrier=False)
        self.event(end, "light", 100 + late_ms, source="module")
        self.event(end, "firmware", 6100 + late_ms, source="phy", up=True)
        self.event(end, "carrier", 6101 + late_ms, source="netlink", carrier=True)
        self.event(end, "rdma", 6102 + late_ms, source="sysfs", active=True)
        self.event(end, "ready", 6250 + late_ms, source="probe", reconfiguration="r1", peer=peer, via="udp")

    def settle(self, *hosts: str, kinds: dict[str, bool] = WATCHED) -> None:
        for host in hosts:
            watches = {
                kind: {
                    "seen": True,
                    "why_not": "",
                    "at_begin": True,
                    "now": True,
                    "lost": 0 if never else 1,
                    "looks": 500,
                    "longest_gap_ns": 2 * MS,
                }
                for kind, never in kinds.items()
            }
            self.settled[f"{host}.eth0"] = watches

    def without(self, end: str, *kinds: str) -> None:
        host, _, port = end.partition(".")
        self.events = [
            event
            for event in self.events
            if not (event["host"] == host and event["port"] == port and event["type"] in kinds)
        ]

    def tell(self) -> Timeline:
        return build_timeline(
            started=ReconfigurationStarted(
                reconfiguration="r1",
                run=None,
                hash="0",
                what="pairs",
                links=from_plain(self.links, list[StartedLink]),
                moves=from_plain(self.moves, list[StartedMove]),
                sweep=self.sweep,
                settings=self.settings,
            ),
            commanded=from_plain(self.commanded, list[ReconfigurationCommanded]),
            events=from_plain(self.events, list[HostEvent]),
            sampled=from_plain(self.settled, dict[str, dict[str, Observation]]),
            switch_origins=self.origins,
            actions=self.actions,
            dwells_s={LINK: 12.5},
        )


def sample(
    seconds: float | None,
    reconfiguration: int = 0,
    *,
    stage: StageName = StageName.FIRMWARE,
    error_s: float = 0.0,
    origin: Origin = Origin.TWIN,
    group: str = "ring",
    virtual: bool = False,
    link: int = 0,
    dwell_s: float | None = None,
) -> Sample:
    """What one link took in one reconfiguration; None: it was not seen."""
    limits = None
    if seconds is not None:
        earliest_ns, latest_ns = round((seconds - error_s) * 1e9), round((seconds + error_s) * 1e9)
        limits = (
            Instant.seen(InstantName.COMMANDED, earliest_ns=0, latest_ns=0),
            Instant.seen(InstantName.LIGHT, earliest_ns=earliest_ns, latest_ns=latest_ns),
        )
    knowledge = Knowledge.UNKNOWN if seconds is None else Knowledge.SEEN
    return Sample(
        group=(group,),
        stage=Stage(name=stage, knowledge=knowledge, seconds=seconds, error_s=error_s, origin=origin),
        virtual_time=virtual,
        reconfiguration=f"r{reconfiguration}",
        link=f"l{link}",
        limits=limits,
        dwell_s=dwell_s,
    )


@pytest.fixture
def story() -> Story:
    """The usual one: 200 ms control, 100 ms light, 6 s firmware, h1 one millisecond behind h0."""
    usual = Story()
    usual.command("ocs1", 0, 200)
    usual.usual("h0.eth0")
    usual.usual("h1.eth0", late_ms=1)
    usual.settle("h0", "h1")
    return usual
