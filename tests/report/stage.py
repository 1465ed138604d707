"""Runs as the records give them back: timelines built from documents, drawn from one seed; one that was recorded."""

import random
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from hwd.model.host import HostEvent
from hwd.model.instant import Origin
from hwd.model.reconfiguration import ReconfigurationCommanded, ReconfigurationStarted, StartedLink, StartedMove
from hwd.model.recorded_run import Run, RunOutcome
from hwd.report.conditions import RunTimings
from hwd.report.run_report import Ending, RunReport
from hwd.timeline import Timeline, build_timeline
from hwd_drivers.core.structs import from_plain

from ..texts import event_of, pairs_of

START_NS = 1_000_000_000_000
TESTBED = """\
testbed: opus-testbed
switches:
  ocs1: {driver: polatis-tl1, twin: {timing: polatis-opus, seed: 7}}
hosts:
  h0: {twin: {kernel: true, timing: opus-cx6dx-autoneg}}
"""


def make_timeline(
    seed: int = 1,
    *,
    what: str = "ring",
    links: int = 4,
    kept: int = 0,
    hide: frozenset[tuple[str, str]] = frozenset(),
    sweep: Mapping[str, Any] | None = None,
    autoneg: bool | None = None,
) -> Timeline:
    """`hide`: (end, event type) that nobody saw; `kept`: that many links more which were kept; `autoneg`: what a run
    set of all NICs.
    """
    draw = random.Random(seed)
    pairs = [
        (f"h{index % 4}.eth{index // 4}", f"h{(index + 1) % 4}.eth{index // 4 + 2}") for index in range(links + kept)
    ]
    entries = [
        {"link": f"{a}<->{b}", "kept": index >= links, "switches": ["ocs1"]} for index, (a, b) in enumerate(pairs)
    ]
    settings = {} if autoneg is None else {end: {"autoneg": autoneg} for pair in pairs for end in pair}
    events: list[HostEvent] = []

    def event(end: str, kind: str, at_s: float, error_s: float, origin: Origin, source: str, **data: object) -> None:
        if (end, kind) not in hide:
            at_ns, error_ns = START_NS + int(at_s * 1e9), int(error_s * 1e9)
            more: dict[str, Any] = {"seq": len(events), "agent_ns": 0, "origin": origin, "source": source}
            events.append(event_of(end, kind, at_ns, error_ns, data, **more))

    for a, b in pairs[:links]:
        light_s = draw.uniform(0.06, 0.095)
        ups_s = [light_s + draw.gauss(3.0 if autoneg is False else 6.0, 0.25) for _ in range(2)]
        carriers_s = [up_s + draw.uniform(70e-6, 80e-6) for up_s in ups_s]
        rdmas_s = [carrier_s + draw.uniform(0.1, 0.2) for carrier_s in carriers_s]
        for end, peer, up_s, carrier_s, rdma_s in zip((a, b), (b, a), ups_s, carriers_s, rdmas_s, strict=True):
            event(end, "dark", draw.uniform(0.001, 0.01), 0.0025, Origin.FITTED, "module EEPROM", lanes=[None])
            event(end, "light", light_s, 0.0025, Origin.FITTED, "module EEPROM", lanes=[-3.0])
            event(end, "firmware", up_s, 20e-6, Origin.FITTED, "phy", up=True)
            event(end, "carrier", carrier_s, 60e-6, Origin.KERNEL, "netlink", carrier=True)
            event(end, "rdma", rdma_s, 0.0005, Origin.FITTED, "sysfs", active=True)
            ready_s = max(rdmas_s) + draw.uniform(0.002, 0.012)
            ready = {"reconfiguration": f"r{seed}", "peer": peer, "via": "udp"}
            event(end, "ready", ready_s, 30e-6, Origin.KERNEL, "probe", **ready)
    return build_timeline(
        started=ReconfigurationStarted(
            reconfiguration=f"r{seed}",
            run="20270110-a1b2",
            what=what,
            hash="0",
            links=from_plain(entries, list[StartedLink]),
            sweep=dict(sweep or {}),
            settings=settings,
            moves=[StartedMove(switch="ocs1", remove=[], add=pairs_of("1A-2B"))],
        ),
        commanded=[
            ReconfigurationCommanded(
                reconfiguration=f"r{seed}",
                switch="ocs1",
                commanded_ns=START_NS,
                acknowledged_ns=START_NS + int(draw.triangular(0.19, 0.21, 0.2) * 1e9),
                commands=1,
            )
        ],
        events=events,
        sampled={},
        switch_origins={"ocs1": Origin.FITTED},
    )


def make_run(
    id: str = "20270110-a1b2",
    *,
    repeats: int = 3,
    virtual_time: bool = False,
    timelines: tuple[Timeline, ...] | None = None,
    asks: str = "",
) -> RunReport:
    run = Run(
        id=id,
        playbook="reconfiguration-timeline",
        playbook_text=f"playbook: reconfiguration-timeline\nshows: <how long each stage takes>\n{asks}",
        testbed="opus-testbed",
        testbed_text=TESTBED,
        parameters={"repeats": repeats},
        inventory={
            "switches": {"ocs1": {"vendor": "Polatis", "serial": "0042", "firmware": "6.6.1"}},
            "kernel": "6.1.0",
        },
        version="0.1.0",
        commit="f934739",
        virtual_time=virtual_time,
        started_wall_ns=1_800_000_000_000_000_000,
        ended_wall_ns=1_800_000_055_000_000_000,
        outcome=RunOutcome.SUCCEEDED,
    )
    if timelines is None:
        timelines = tuple(make_timeline(seed, what=("ring", "pairs")[seed % 2]) for seed in range(repeats))
    endings = tuple(
        Ending(reconfiguration=one.reconfiguration, outcome="confirmed", why="", seconds=6.4) for one in timelines
    )
    return RunReport(
        run=run, timelines=timelines, endings=endings, lab=RunTimings.of(run), events_lost=0, steps_failed=()
    )


def dwelt(seed: int, dwell_s: float | None, *, slow: bool = False, what: str = "ring") -> Timeline:
    """A reconfiguration after a dwell; after a short one the NICs took twice as long."""
    timeline = make_timeline(seed, what=what, autoneg=None if slow else False)
    return replace(timeline, links=[replace(link, dwell_s=dwell_s) for link in timeline.links])


def negotiating(seed: int, words: str, *, what: str = "pairs") -> Timeline:
    """A reconfiguration of a sweep over auto-negotiation."""
    return make_timeline(seed, what=what, sweep={"negotiates": words}, autoneg=words == "on")
