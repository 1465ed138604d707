"""The waterfall: its data are those of the timeline, at each width."""

from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hwd.model.documents.hosts import HostEvent
from hwd.model.documents.reconfigurations import (
    ReconfigurationCommanded,
    ReconfigurationStarted,
    StartedLink,
    StartedMove,
)
from hwd.model.instant import InstantName, Knowledge, Origin
from hwd.model.kinds import read_fact
from hwd.report.figures.cdf import cdf_figure
from hwd.report.figures.render import specification
from hwd.report.figures.waterfall import ROWS_MAX, waterfall, waterfall_figure
from hwd.report.quantity import duration
from hwd.timeline import LinkTimeline, StageName, Timeline, build_timeline, samples

from ..stage import make_timeline
from .charts import marks_of, texts_of


def after_command_s(link: LinkTimeline, name: InstantName) -> float:
    return (link.instant(name).at_ns - link.instant(InstantName.COMMANDED).at_ns) / 1e9


def named(timeline: Timeline, width: float = 1160) -> dict[str, list[dict[str, Any]]]:
    """The rows of each panel."""
    figure = waterfall_figure(timeline, virtual_time=False)
    return {layer["name"]: found for layer, found in marks_of(figure, width) if "name" in layer}


def test_bars_of_the_whole_way_end_at_the_instants_of_the_timeline() -> None:
    timeline = make_timeline(links=3)
    for link in timeline.links:
        of_link = [row for row in named(timeline)["whole"] if row["link"] == str(link.link).replace("<->", " ↔ ")]
        ends = {row["stage"].split()[0]: row["end"] for row in of_link}
        for name, stage in ((InstantName.LIGHT, "optical"), (InstantName.FIRMWARE, "firmware")):
            assert ends[stage] == pytest.approx(after_command_s(link, name))
        assert max(ends.values()) == pytest.approx(after_command_s(link, InstantName.READY), rel=5e-3)


def test_the_switch_and_the_host_have_scales_of_their_own() -> None:
    timeline = make_timeline(links=1)
    (link,) = timeline.links
    panels = named(timeline)
    assert set(panels) == {"whole", "switch", "host"}
    light_ms = after_command_s(link, InstantName.LIGHT) * 1e3
    assert [row["end"] for row in panels["switch"] if row["stage"].startswith("optical")] == [pytest.approx(light_ms)]
    rdma_s = after_command_s(link, InstantName.RDMA) - after_command_s(link, InstantName.FIRMWARE)
    assert [row["end"] for row in panels["host"] if row["stage"].startswith("rdma")] == [pytest.approx(rdma_s * 1e3)]


def test_a_narrow_figure_has_the_whole_way_only_and_all_sums() -> None:
    timeline = make_timeline(links=4)
    narrow = marks_of(waterfall_figure(timeline, virtual_time=False), 336)
    assert {layer["name"] for layer, _ in narrow if "name" in layer} == {"whole"}
    (sums,) = [found for layer, found in narrow if layer["mark"].get("style") == "total"]
    assert [row["says"] for row in sums] == [
        duration(link.stage(StageName.TURNAROUND).seconds) for link in timeline.links
    ]


def test_it_says_every_turnaround_and_what_is_unknown() -> None:
    timeline = make_timeline(links=2, hide=frozenset({("h1.eth0", "ready")}))
    words = texts_of(waterfall(timeline, virtual_time=True))
    assert "unknown" in words, "the second link has no turnaround"
    assert any("virtual time" in word for word in words)
    assert "fitted: drawn from a model of a paper's own figure" in " ".join(words)


def test_unknown_is_outlined_and_known_is_not() -> None:
    known = marks_of(waterfall_figure(make_timeline(), virtual_time=False), style="unknown")
    assert [found for _, found in known] == [[], [], []]
    blind = make_timeline(links=1, hide=frozenset({("h0.eth0", "firmware")}))
    (whole, *_) = marks_of(waterfall_figure(blind, virtual_time=False), style="unknown")
    assert [row["words"].split(";")[0] for row in whole[1]] == [
        "firmware unknown: h0.eth0: the agent of h0 did not say what it watched"
    ]


ENDS = [f"h{host}.eth{port}" for host in range(4) for port in range(4)]


@pytest.mark.parametrize(
    ("unseen", "ticks"),
    [
        ((), set()),
        (("firmware",), {"carrier"}),
        (("light",), {"firmware"}),
        (("light", "firmware", "carrier", "rdma"), {"ready"}),
        (("firmware", "carrier", "rdma"), {"ready"}),
        (("firmware", "carrier", "rdma", "ready"), set()),
        (("dark", "light", "firmware", "carrier", "rdma", "ready"), set()),
        (("rdma",), set()),
        (("ready",), set()),
    ],
    ids=lambda words: "+".join(words) or "none",
)
def test_axis_spans_all_that_was_seen_and_what_was_seen_after_an_unknown_stage_is_a_tick(
    unseen: tuple[str, ...], ticks: set[str]
) -> None:
    timeline = make_timeline(links=2, hide=frozenset((end, kind) for end in ENDS for kind in unseen))
    seen_s = [
        (instant.latest_ns - link.instant(InstantName.COMMANDED).at_ns) / 1e9
        for link in timeline.links
        for instant in link.instants
        if instant.knowledge is Knowledge.SEEN
    ]
    figure = waterfall_figure(timeline, virtual_time=False)
    for width in (1160.0, 336.0):
        layers = marks_of(figure, width)
        (whole,) = [layer for layer, _ in layers if layer.get("name") == "whole"]
        factor = 1e3 if whole["encoding"]["x"]["title"].endswith(", ms") else 1.0
        assert whole["encoding"]["x"]["scale"]["domain"][1] > max(seen_s) * factor
        found = [rows for layer, rows in layers if layer["mark"]["type"] == "tick" and "opacity" in layer["mark"]]
        assert {row["stage"].split()[0] for rows in found for row in rows} == ticks
        words = {row["words"].split(" unknown: ")[0] for layer, rows in layers for row in rows if "says" not in row
                 and layer["mark"].get("style") == "unknown"}  # fmt: skip
        assert words == ({unseen[0] if unseen[0] != "dark" else "light"} if unseen and unseen != ("rdma",) else set())


def test_ready_is_drawn_from_the_carrier_where_rdma_is_unknown() -> None:
    timeline = make_timeline(links=1, hide=frozenset((end, "rdma") for end in ENDS))
    (link,) = timeline.links
    (ready,) = [row for row in named(timeline)["host"] if row["stage"].startswith("ready")]
    assert ready["end"] - ready["start"] == pytest.approx((link.stage(StageName.READY).seconds or 0) * 1e3)
    assert ready["words"].startswith("rdma unknown: ")


def test_whiskers_end_at_the_bounds_of_their_instant() -> None:
    timeline = make_timeline(links=1)
    (link,) = timeline.links
    light = link.instant(InstantName.LIGHT)
    late = replace(light, earliest_ns=light.at_ns - 20_000_000, latest_ns=light.at_ns)
    links = [replace(link, instants=tuple(late if one is light else one for one in link.instants))]
    figure = waterfall_figure(replace(timeline, links=links), virtual_time=False)
    whiskers = [row for layer, rows in marks_of(figure) if layer["mark"].get("style") == "whisker" for row in rows]
    sent_ns = link.instant(InstantName.COMMANDED).at_ns
    [(least, most)] = [(row["least"], row["most"]) for row in whiskers if row["most"] < 200]
    assert (least, most) == pytest.approx(((late.earliest_ns - sent_ns) / 1e6, (late.latest_ns - sent_ns) / 1e6))


def test_it_is_described_for_those_who_do_not_see_it() -> None:
    svg = ElementTree.fromstring(waterfall(make_timeline(links=2, kept=1), virtual_time=False))
    description = next(part.text or "" for part in svg if part.tag.endswith("}desc"))
    assert "h0.eth0<->h1.eth2: optical" in description
    assert description.endswith("kept.")
    assert svg.get("role") == "img"


def test_many_links_are_cut_and_counted() -> None:
    link = make_timeline().links[0]
    links = [msgspec.structs.replace(link, link=f"h{number}.eth0<->h{number}.eth1") for number in range(ROWS_MAX + 5)]
    many = Timeline(reconfiguration="r", run=None, what="x", commands=[], ends=[], links=links, breaches=[])
    assert any("5 more links not drawn" in word for word in texts_of(waterfall(many, virtual_time=False)))


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
def test_no_story_breaks_the_figure(
    seen: list[tuple[str, str, bool, int, int]], answered_ns: int | None, commanded: bool
) -> None:
    whose = {"boot": "b", "port": "eth0", "agent_ns": 0, "origin": Origin.TWIN, "source": "s<&>"}
    events = [
        HostEvent(
            host=host, seq=seq, type=kind, earliest_ns=at - error, latest_ns=at + error, best_ns=at,
            data={STATES.get(kind, "x"): up, "lanes": [], "reconfiguration": "r", "peer": "p"}, **whose,
        )
        for seq, (host, kind, up, at, error) in enumerate(seen)
    ]  # fmt: skip
    command = ReconfigurationCommanded(
        reconfiguration="r", switch="ocs1", commanded_ns=0, acknowledged_ns=answered_ns, commands=1
    )
    started = ReconfigurationStarted(
        reconfiguration="r", run=None, hash="0", what="<&>\"'",
        links=[StartedLink(link="h0.eth0<->h1.eth0", kept=False)],
        moves=[StartedMove(switch="ocs1", remove=[], add=["1A-2B"])],
    )  # fmt: skip
    timeline = build_timeline(
        started=started,
        commanded=[command] if commanded else [],
        events=events,
        sampled={},
        switch_origins={"ocs1": Origin.TWIN},
    )
    for width in (1160, 336):
        assert specification(waterfall_figure(timeline, virtual_time=True), width)["vconcat"]
        if (figure := cdf_figure(samples([timeline], virtual_time=True))) is not None:
            assert specification(figure, width)["vconcat"]
    assert read_fact("timeline", msgspec.json.encode(timeline)) == timeline
