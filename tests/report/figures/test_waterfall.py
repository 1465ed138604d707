"""Waterfalls and heat maps: what is drawn of a timeline, held by a golden file; and no story breaks one."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hwd.model.host import HostEvent
from hwd.model.instant import InstantName, Origin
from hwd.model.kinds import read_fact
from hwd.model.link import Link
from hwd.model.reconfiguration import ReconfigurationCommanded, ReconfigurationStarted, StartedLink, StartedMove
from hwd.report.figures.cdf import cdf_figure
from hwd.report.figures.heat import REPEATS_MAX, Cell, HeatMap, heat_figure, link_by_repeat, link_by_stage
from hwd.report.figures.render import specification, svg
from hwd.report.figures.waterfall import ROWS_MAX, waterfall_figure
from hwd.timeline import Timeline, build_timeline, samples
from hwd_drivers.core.structs import to_json

from ...answers import check_golden
from ...texts import pairs_of
from ..stage import make_timeline
from .charts import drawn, marks_of, texts_of

DRAWN = Path(__file__).with_name("drawn.txt")
ENDS = [f"h{host}.eth{port}" for host in range(4) for port in range(4)]
UNSEEN = (
    ("firmware",),
    ("light",),
    ("light", "firmware", "carrier", "rdma"),
    ("firmware", "carrier", "rdma"),
    ("firmware", "carrier", "rdma", "ready"),
    ("dark", "light", "firmware", "carrier", "rdma", "ready"),
    ("rdma",),
    ("ready",),
)


def unseen(*kinds: str) -> frozenset[tuple[str, str]]:
    return frozenset((end, kind) for end in ENDS for kind in kinds)


def waterfalls() -> Iterator[tuple[str, Timeline]]:
    """Timelines whose waterfall is looked at, wide and narrow."""
    yield "two links, and one that was kept", make_timeline(links=2, kept=1)
    yield "the end of one was not ready", make_timeline(links=2, hide=frozenset({("h1.eth0", "ready")}))
    for kinds in UNSEEN:
        yield f"nobody saw {', '.join(kinds)}", make_timeline(links=1, hide=unseen(*kinds))
    timeline = make_timeline(links=1)
    (link,) = timeline.links
    light = link.instant(InstantName.LIGHT)
    late = replace(light, earliest_ns=light.at_ns - 20_000_000, latest_ns=light.at_ns)
    instants = tuple(late if one is light else one for one in link.instants)
    yield "light within wide bounds", replace(timeline, links=[replace(link, instants=instants)])


def made(*cells: Sequence[Cell | None]) -> HeatMap:
    """One row for each list."""
    columns = tuple(f"c{index}" for index in range(len(cells[0])))
    rows = tuple(f"r{index}" for index in range(len(cells)))
    return HeatMap(
        name="x", title="x", notes=(), rows=rows, columns=columns, cells=tuple(map(tuple, cells)), by_column=True
    )


SPEEDS = {"slow": 1.0, "fast": 0.25, "middle": 0.5, "close": 0.51, "other": 0.5}


def heat_maps() -> Iterator[tuple[str, HeatMap | None]]:
    yield "medians of five repeats", link_by_stage([make_timeline(seed, links=2) for seed in range(5)])
    fewer = make_timeline(2, links=1, kept=1)
    yield (
        "repeats, of which one moved less",
        link_by_repeat([make_timeline(1, links=2), fewer, make_timeline(3, links=2)]),
    )
    yield "an unknown stage", link_by_stage([make_timeline(links=1, hide=frozenset({("h0.eth0", "rdma")}))])
    never = unseen("ready")
    blind = [make_timeline(seed, links=1, hide=never) for seed in (1, 2)]
    yield "nobody measured the way to its end", link_by_repeat(blind)
    below, above = Cell(seconds=-0.001, resolved=False, words="x"), Cell(seconds=1.0, resolved=True, words="y")
    yield "a value below its bound", made([below], [above])
    yield (
        "slower and faster ones",
        made(*([Cell(seconds=seconds, resolved=True, words=words)] for words, seconds in SPEEDS.items())),
    )
    still = make_timeline(links=0, kept=3)
    yield "no link moved", link_by_stage([still])
    yield "no link moved in any repeat", link_by_repeat([still])
    yield "one repeat", link_by_repeat([make_timeline()])


def test_what_is_drawn_of_a_timeline_is_what_it_was() -> None:
    lines: list[str] = []
    for words, timeline in waterfalls():
        for width in (1160.0,) if words.startswith("nobody") else (1160.0, 336.0):
            lines += [f"== {words}, {width:g} wide", *drawn(waterfall_figure(timeline, virtual_time=False), width)]
    for words, heat in heat_maps():
        lines += [f"== {words}", *(["no map"] if heat is None else drawn(heat_figure(heat), 1160))]
    check_golden(DRAWN, "\n".join([*lines, ""]))


def test_what_is_too_much_is_cut_and_counted_and_small_cells_have_no_text() -> None:
    link = make_timeline().links[0]
    links = [replace(link, link=f"h{number}.eth0<->h{number}.eth1") for number in range(ROWS_MAX + 5)]
    many = Timeline(reconfiguration="r", run=None, what="x", commands=[], ends=[], links=links, breaches=[])
    words = texts_of(svg(waterfall_figure(many, virtual_time=True), 1160))
    assert any("5 more links not drawn" in word for word in words)
    assert any("virtual time" in word for word in words)
    heat = link_by_repeat([make_timeline(1, links=1)] * (REPEATS_MAX + 3))
    assert heat is not None
    assert "3 more repeats not drawn" in " ".join(texts_of(svg(heat_figure(heat), 1160)))
    assert not any(layer["mark"]["type"] == "text" for layer, _ in marks_of(heat_figure(heat), 411))


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
    st.sampled_from([1160, 336]),
)
def test_no_story_breaks_the_figure(
    seen: list[tuple[str, str, bool, int, int]], answered_ns: int | None, commanded: bool, width: int
) -> None:
    whose: dict[str, Any] = {"boot": "b", "port": "eth0", "agent_ns": 0, "origin": Origin.TWIN, "source": "s<&>"}
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
        links=[StartedLink(link=Link.parse("h0.eth0<->h1.eth0"), kept=False)],
        moves=[StartedMove(switch="ocs1", remove=[], add=pairs_of("1A-2B"))],
    )  # fmt: skip
    timeline = build_timeline(
        started=started,
        commanded=[command] if commanded else [],
        events=events,
        sampled={},
        switch_origins={"ocs1": Origin.TWIN},
    )
    assert specification(waterfall_figure(timeline, virtual_time=True), width)["vconcat"]
    if (figure := cdf_figure(samples([timeline], virtual_time=True))) is not None:
        assert specification(figure, width)["vconcat"]
    assert read_fact("timeline", to_json(timeline)) == timeline
