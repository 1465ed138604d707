"""Heat maps of links."""

from collections.abc import Callable

from hwd.report.figures.drawing import Rect, Text
from hwd.report.figures.heat import REPEATS_MAX, HeatMap, heat_drawing, link_by_repeat, link_by_stage
from hwd.timeline import StageName, Timeline

MakeTimeline = Callable[..., Timeline]


def test_cell_is_the_median_over_all_repeats(make_timeline: MakeTimeline) -> None:
    timelines = [make_timeline(seed) for seed in range(5)]
    heat = link_by_stage(timelines)
    assert heat is not None
    assert (len(heat.rows), heat.columns) == (4, tuple(StageName))
    values = sorted(one.links[0].stage(StageName.FIRMWARE).seconds or 0 for one in timelines)
    cell = heat.cells[heat.rows.index(str(timelines[0].links[0].link))][heat.columns.index("firmware")]
    assert cell is not None
    assert cell[0] == values[2]


def test_repeats_are_columns_and_a_link_that_moved_less_often_ends_earlier(make_timeline: MakeTimeline) -> None:
    heat = link_by_repeat([make_timeline(1), make_timeline(2, links=2, kept=2), make_timeline(3)])
    assert heat is not None
    assert heat.columns == ("1", "2", "3")
    assert [sum(cell is not None for cell in row) for row in heat.cells] == [3, 2, 3, 2]
    assert heat.title.endswith("turnaround")


def test_what_is_unknown_is_hatched(make_timeline: MakeTimeline) -> None:
    blind = make_timeline(hide=frozenset({("h0.eth0", "rdma")}))
    heat = link_by_stage([blind])
    assert heat is not None
    hatched = [mark for mark in heat_drawing(heat).marks if isinstance(mark, Rect) and mark.hatched]
    assert len(hatched) == 1
    assert "rdma median of 0 of 1" in hatched[0].title


def test_way_that_nobody_measured_to_its_end_is_shown_as_far_as_it_was(make_timeline: MakeTimeline) -> None:
    blind = make_timeline(hide=frozenset((f"h{host}.eth{port}", "ready") for host in range(4) for port in range(4)))
    heat = link_by_repeat([blind])
    assert heat is not None
    assert heat.title.endswith("activation")


def test_no_link_moved_is_no_map(make_timeline: MakeTimeline) -> None:
    still = make_timeline(links=0, kept=3)
    assert link_by_stage([still]) is None
    assert link_by_repeat([still]) is None


def test_slower_is_orange_faster_blue_and_close_ones_are_pale() -> None:
    heat = HeatMap(
        name="x",
        title="x",
        note="",
        rows=("a", "b", "c", "d"),
        columns=("one", "two"),
        by_column=True,
        cells=(
            ((1.0, "slow"), (1.0, "")),
            ((0.25, "fast"), (1.0, "")),
            ((0.5, "middle"), (1.02, "close")),
            ((0.5, ""), (1.0, "")),
        ),
    )
    fills = {mark.title: mark.fill for mark in heat_drawing(heat).marks if isinstance(mark, Rect) and mark.title}
    red, blue = (int(fills["slow"][at : at + 2], 16) for at in (1, 5))
    assert red > blue + 100
    red, blue = (int(fills["fast"][at : at + 2], 16) for at in (1, 5))
    assert blue > red + 100
    assert min(int(fills["close"][at : at + 2], 16) for at in (1, 3, 5)) > 0xB0


def test_many_repeats_are_cut_and_counted_and_small_cells_have_no_text(make_timeline: MakeTimeline) -> None:
    heat = link_by_repeat([make_timeline(1, links=1)] * (REPEATS_MAX + 3))
    assert heat is not None
    drawing = heat_drawing(heat, width=411)
    told = [span[0] for mark in drawing.marks if isinstance(mark, Text) for span in mark.spans]
    assert "3 more repeats not drawn" in " ".join(told)
    assert not any(words.endswith(" s") for words in told)
