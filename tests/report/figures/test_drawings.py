"""Waterfall and distributions as SVG."""

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hwd.model.documents.hosts import HostEvent
from hwd.model.documents.reconfigurations import (
    ReconfigurationCommanded,
    ReconfigurationStarted,
    StartedLink,
    StartedMove,
)
from hwd.model.instant import Origin
from hwd.model.kinds import read_fact
from hwd.report import cdf, waterfall
from hwd.report.conditions import Conditions
from hwd.report.figures.drawing import tick_labels, ticks
from hwd.report.figures.waterfall import ROWS_MAX
from hwd.report.papers import figures
from hwd.timeline import StageName, Timeline, build_timeline, samples

MakeTimeline = Callable[..., Timeline]
GOLDEN = Path(__file__).with_name("waterfall.svg")
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return ["".join(part.itertext()) for part in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_waterfall_is_drawn_as_it_was_agreed(make_timeline: MakeTimeline) -> None:
    hidden = frozenset({("h1.eth0", "ready"), ("h2.eth0", "firmware")})
    svg = waterfall(make_timeline(links=6, kept=1, hide=hidden), virtual_time=False)
    assert svg == GOLDEN.read_text()


def test_waterfall_says_every_turnaround_and_what_is_unknown(make_timeline: MakeTimeline) -> None:
    timeline = make_timeline(links=2, hide=frozenset({("h1.eth0", "ready")}))
    told = texts(waterfall(timeline, virtual_time=True))
    assert any(word.endswith("unknown") for word in told), "the second link has no turnaround"
    assert any("virtual time" in word for word in told)
    assert "fitted: drawn from a model of a paper's own figure" in " ".join(told)


def test_unknown_is_hatched_and_known_is_not(make_timeline: MakeTimeline) -> None:
    hatched = 'fill="url(#waterfall-hatch)"'
    assert hatched not in waterfall(make_timeline(), virtual_time=False)
    blind = make_timeline(links=1, hide=frozenset({("h0.eth0", "firmware")}))
    svg = waterfall(blind, virtual_time=False)
    assert hatched in svg
    assert "firmware unknown: h0.eth0" in svg


def test_waterfall_is_described_for_those_who_do_not_see_it(make_timeline: MakeTimeline) -> None:
    svg = ElementTree.fromstring(waterfall(make_timeline(links=2, kept=1), virtual_time=False))
    description = svg.findtext(f"{SVG}desc") or ""
    assert "h0.eth0<->h1.eth2: optical" in description
    assert description.endswith("kept.")
    assert svg.get("role") == "img"


def test_many_links_are_cut_and_counted(make_timeline: MakeTimeline) -> None:
    timeline = make_timeline()
    link = timeline.links[0]
    many = Timeline(
        reconfiguration="r", run=None, what="x", commands=[], ends=[], links=[link] * (ROWS_MAX + 5), breaches=[]
    )
    assert any("5 more links not drawn" in word for word in texts(waterfall(many, virtual_time=False)))


KINDS = st.sampled_from(["dark", "light", "firmware", "carrier", "rdma", "ready"])
STATES = {"carrier": "carrier", "firmware": "up", "rdma": "active"}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["h0", "h1"]), KINDS, st.booleans(), st.integers(-(10**6), 10**11), st.integers(0, 10**9)
        ),
        max_size=14,
    ),
    st.sampled_from([None, 0, 10**6, 10**10]),
    st.booleans(),
)
def test_no_story_breaks_the_drawing(
    seen: list[tuple[str, str, bool, int, int]], answered_ns: int | None, commanded: bool
) -> None:
    events = [
        HostEvent(
            host=host,
            boot="b",
            seq=seq,
            type=kind,
            port="eth0",
            earliest_ns=at - error,
            latest_ns=at + error,
            best_ns=at,
            agent_ns=0,
            origin="twin",
            source="s<&>",
            data={STATES.get(kind, "x"): up, "lanes": [], "reconfiguration": "r", "peer": "p"},
        )
        for seq, (host, kind, up, at, error) in enumerate(seen)
    ]
    command = ReconfigurationCommanded(
        reconfiguration="r", switch="ocs1", commanded_ns=0, acknowledged_ns=answered_ns, commands=1
    )
    timeline = build_timeline(
        started=ReconfigurationStarted(
            reconfiguration="r",
            run=None,
            hash="0",
            what="<&>\"'",
            links=[StartedLink(link="h0.eth0<->h1.eth0", kept=False)],
            moves=[StartedMove(switch="ocs1", remove=[], add=["1A-2B"])],
        ),
        commanded=[command] if commanded else [],
        events=events,
        sampled={},
        switch_origins={"ocs1": Origin.TWIN},
    )
    svg = waterfall(timeline, virtual_time=True)
    root = ElementTree.fromstring(svg)
    width = float(root.get("width", "0"))
    for bar in root.iter(f"{SVG}rect"):
        assert 0 <= float(bar.get("x", "0")) <= width
        assert 0 <= float(bar.get("width", "0")) <= width
    ElementTree.fromstring(cdf(samples([timeline], virtual_time=True)))
    assert read_fact("timeline", msgspec.json.encode(timeline)) == timeline


def test_cdf_has_a_curve_for_each_group_and_stage_with_values(make_timeline: MakeTimeline) -> None:
    taken = samples([make_timeline(1), make_timeline(2, what="pairs")], virtual_time=False)
    svg = ElementTree.fromstring(
        cdf(taken, papers=figures(Conditions(timings=frozenset({"polatis-opus", "opus-cx6dx-autoneg"}))))
    )
    assert len(list(svg.iter(f"{SVG}polyline"))) == 2 * len(StageName)
    told = "".join(svg.itertext())
    assert "ring, real time" in told
    assert "opus 5.1: about 6 s" in told


def test_cdf_rises_from_none_to_all(make_timeline: MakeTimeline) -> None:
    svg = ElementTree.fromstring(cdf(samples([make_timeline(links=8)], virtual_time=False)))
    for curve in svg.iter(f"{SVG}polyline"):
        points = [tuple(map(float, point.split(","))) for point in (curve.get("points") or "").split()]
        assert points == sorted(points, key=lambda point: (point[0], -point[1]))
        assert points[0][1] - points[-1][1] == pytest.approx(118)


def test_cdf_names_stages_that_nobody_saw(make_timeline: MakeTimeline) -> None:
    blind = make_timeline(links=1, hide=frozenset({("h0.eth0", "firmware")}))
    assert "never seen: firmware, carrier" in cdf(samples([blind], virtual_time=False))


@given(st.floats(-1e3, 1e3), st.floats(1e-7, 1e3), st.integers(3, 8))
@example(1.0, 401.0, 3)
def test_ticks_are_few_round_and_inside(low: float, span: float, most: int) -> None:
    values = ticks(low, low + span, most)
    assert 1 <= len(values) <= most
    assert all(low - span * 1e-6 <= value <= low + span * (1 + 1e-6) for value in values)
    labels, unit = tick_labels(values)
    assert unit in ("µs", "ms", "s")
    assert not any(re.search(r"e[+-]", label) for label in labels if span > 1e-3 and abs(low) < 100)
