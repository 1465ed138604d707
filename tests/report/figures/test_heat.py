"""Heat maps of links."""

from collections.abc import Sequence

from hwd.report.figures.heat import REPEATS_MAX, Cell, HeatMap, heat_figure, link_by_repeat, link_by_stage
from hwd.report.figures.render import svg
from hwd.timeline import StageName

from ..stage import make_timeline
from .charts import marks_of, texts_of


def test_cell_is_the_median_over_all_repeats() -> None:
    timelines = [make_timeline(seed) for seed in range(5)]
    heat = link_by_stage(timelines)
    assert heat is not None
    assert (len(heat.rows), heat.columns) == (4, tuple(StageName))
    values = sorted(one.links[0].stage(StageName.FIRMWARE).seconds or 0 for one in timelines)
    cell = heat.cells[heat.rows.index(str(timelines[0].links[0].link))][heat.columns.index("firmware")]
    assert cell is not None
    assert cell.seconds == values[2]


def test_repeats_are_columns_and_a_link_that_moved_less_often_ends_earlier() -> None:
    heat = link_by_repeat([make_timeline(1), make_timeline(2, links=2, kept=2), make_timeline(3)])
    assert heat is not None
    assert heat.columns == ("1", "2", "3")
    assert [sum(cell is not None for cell in row) for row in heat.cells] == [3, 2, 3, 2]
    assert heat.title.endswith("turnaround")


def test_what_is_unknown_is_outlined() -> None:
    heat = link_by_stage([make_timeline(hide=frozenset({("h0.eth0", "rdma")}))])
    assert heat is not None
    ((_, unknown),) = marks_of(heat_figure(heat), style="unknown")
    assert [(row["column"], row["words"].split(":")[0]) for row in unknown] == [("rdma", "rdma median of 0 of 1")]


def test_a_value_below_its_bound_has_no_colour_and_is_called_not_resolved() -> None:
    heat = made([Cell(seconds=-0.001, resolved=False, words="x")], [Cell(seconds=1.0, resolved=True, words="y")])
    layers = marks_of(heat_figure(heat))
    coloured = [row for layer, found in layers if "color" in layer["encoding"] for row in found]
    assert {row["words"] for row in coloured} == {"y"}
    ((_, plain),) = [(layer, found) for layer, found in layers if layer["mark"].get("style") == "band"]
    assert [row["says"] for row in plain] == ["not resolved"]


def test_way_that_nobody_measured_to_its_end_is_shown_as_far_as_it_was() -> None:
    hidden = frozenset((f"h{host}.eth{port}", "ready") for host in range(4) for port in range(4))
    heat = link_by_repeat([make_timeline(1, hide=hidden), make_timeline(2, hide=hidden)])
    assert heat is not None
    assert heat.title.endswith("activation")


def test_no_link_moved_is_no_map() -> None:
    still = make_timeline(links=0, kept=3)
    assert link_by_stage([still]) is None
    assert link_by_repeat([still]) is None


def made(*cells: Sequence[Cell | None]) -> HeatMap:
    """One row for each list."""
    columns = tuple(f"c{index}" for index in range(len(cells[0])))
    rows = tuple(f"r{index}" for index in range(len(cells)))
    return HeatMap(
        name="x", title="x", notes=(), rows=rows, columns=columns, cells=tuple(map(tuple, cells)), by_column=True
    )


def test_slower_is_above_the_median_faster_below_and_close_ones_are_pale() -> None:
    values = {"slow": 1.0, "fast": 0.25, "middle": 0.5, "close": 0.51, "other": 0.5}
    heat = made(*([Cell(seconds=seconds, resolved=True, words=words)] for words, seconds in values.items()))
    layer, found = next(one for one in marks_of(heat_figure(heat)) if one[0]["mark"]["type"] == "rect")
    places = {row["words"]: row["place"] for row in found}
    assert places["slow"] == -places["fast"] == 1
    assert places["middle"] == 0
    assert 0 < places["close"] < 0.1
    assert layer["encoding"]["color"]["scale"]["range"][0] == "#2f6db5", "faster is blue"


def test_many_repeats_are_cut_and_counted_and_small_cells_have_no_text() -> None:
    heat = link_by_repeat([make_timeline(1, links=1)] * (REPEATS_MAX + 3))
    assert heat is not None
    figure = heat_figure(heat)
    assert heat.notes[-1] == "3 more repeats not drawn"
    assert "3 more repeats not drawn" in " ".join(texts_of(svg(figure, 1160)))
    assert not any(layer["mark"]["type"] == "text" for layer, _ in marks_of(figure, 411))


def test_one_repeat_is_no_map_by_repeat() -> None:
    assert link_by_repeat([make_timeline()]) is None
