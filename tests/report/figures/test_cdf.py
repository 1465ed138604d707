"""Distributions: the data of each curve are the durations of the timelines."""

from typing import Any

import pytest
from msgspec.structs import replace

from hwd.report.conditions import Conditions
from hwd.report.figures.cdf import STEPS_MAX, TOGETHER_MAX, cdf_figure
from hwd.report.figures.figure import Figure
from hwd.report.figures.render import specification
from hwd.report.papers import figures
from hwd.timeline import StageName, Timeline, samples

from ..stage import make_timeline
from .charts import marks_of


def curves(figure: Figure) -> dict[str, list[dict[str, Any]]]:
    return {layer["name"]: found for layer, found in marks_of(figure) if "name" in layer}


def made(timelines: list[Timeline], **more: Any) -> Figure:
    figure = cdf_figure(samples(timelines, virtual_time=False), **more)
    assert figure is not None
    return figure


def test_a_curve_steps_up_at_each_duration_from_none_to_all() -> None:
    timeline = make_timeline(links=8)
    found = curves(made([timeline]))
    assert set(found) == set(StageName)
    seconds = sorted(link.stage(StageName.FIRMWARE).seconds or 0 for link in timeline.links)
    steps = found["firmware"]
    assert [row["at"] for row in steps[1:-1]] == pytest.approx(seconds)
    assert [row["share"] for row in steps] == pytest.approx([0, *((index + 1) / 8 for index in range(8)), 1])


def test_of_many_values_so_many_steps_are_drawn_where_they_are() -> None:
    timelines = [make_timeline(seed, links=8) for seed in range(200)]
    seconds = sorted(link.stage(StageName.FIRMWARE).seconds or 0 for one in timelines for link in one.links)
    steps = curves(made(timelines))["firmware"][1:-1]
    assert STEPS_MAX / 2 < len(steps) <= STEPS_MAX
    for row in steps:
        assert row["at"] == pytest.approx(seconds[round(row["share"] * len(seconds)) - 1])
    assert steps[-1]["share"] == 1


def test_each_group_has_a_curve_with_its_number_of_values_and_the_papers_are_there() -> None:
    papers = figures(Conditions(timings=frozenset({"polatis-opus", "opus-cx6dx-autoneg"})))
    figure = made([make_timeline(1), make_timeline(2, what="pairs")], papers=papers)
    firmware = curves(figure)["firmware"]
    assert {row["group"] for row in firmware} == {"ring", "pairs"}
    note = specification(figure, 1160)["title"]["subtitle"][0]
    assert note.startswith("real time · "), "the same for all"
    counts = [found for layer, found in marks_of(figure) if layer["mark"]["type"] == "text"]
    assert len(counts) == 2 * len(StageName)
    assert {row["words"] for found in counts for row in found} == {"n = 4 (1)", "n = 4 (1), not resolved"}
    drawn = [row["words"] for _, found in marks_of(figure, style="paper") for row in found]
    assert "opus 5.1: about 6 s" in drawn


def test_more_than_three_groups_have_a_panel_each_on_one_scale() -> None:
    timelines = [make_timeline(seed, what=f"w{seed}") for seed in range(TOGETHER_MAX + 1)]
    figure = made(timelines)
    layers = [(layer, found) for layer, found in marks_of(figure) if layer.get("name", "").startswith("firmware_")]
    assert len(layers) == TOGETHER_MAX + 1
    assert all(len({row["group"] for row in found}) == 1 for _, found in layers)
    assert len({tuple(layer["encoding"]["x"]["scale"]["domain"]) for layer, _ in layers}) == 1
    rows = specification(figure, 1160)["vconcat"]
    titles = [[panel["title"]["text"] for panel in row["hconcat"]] for row in rows]
    assert titles[2] == ["firmware · 1", "firmware · 2", "firmware · 3", "firmware · 4"], "a stage has a row"
    assert layers[0][1][0]["group"] == "1: w0", "colour is not the only sign"


def test_real_and_virtual_time_are_named_where_a_figure_has_both() -> None:
    taken = [one for virtual in (False, True) for one in samples([make_timeline(1)], virtual_time=virtual)]
    figure = cdf_figure(taken)
    assert figure is not None
    assert {row["group"] for row in curves(figure)["firmware"]} == {"ring, real time", "ring, virtual time"}


def test_no_axis_of_durations_begins_below_zero() -> None:
    wide = [
        replace(
            one,
            limits=(start, replace(end, earliest_ns=end.earliest_ns - 9 * 10**9)),
            stage=replace(one.stage, seconds=one.stage.seconds - 0.1),
        )
        for seed in range(8)
        for one in samples([make_timeline(seed)], virtual_time=False)
        if one.stage.seconds is not None and one.limits is not None
        for start, end in [one.limits]
    ]
    figure = cdf_figure(wide)
    assert figure is not None
    starts = [layer["encoding"]["x"]["scale"]["domain"][0] for layer, _ in marks_of(figure) if "name" in layer]
    assert len(starts) == len(StageName)
    assert min(starts) >= 0
    assert 0 in starts
    words = {row["words"] for layer, found in marks_of(figure) if layer.get("name") == "carrier" for row in found}
    assert words == {"not resolved"}


def test_the_band_holds_the_curve_and_is_there_from_six_reconfigurations_on() -> None:
    def bands(count: int) -> list[dict[str, Any]]:
        figure = made([make_timeline(seed) for seed in range(count)])
        return [row for layer, found in marks_of(figure) if layer["mark"]["type"] == "area" for row in found]

    assert bands(5) == []
    found = bands(7)
    assert found
    assert all(0 <= row["low"] <= row["high"] <= 1 for row in found)


def test_stages_that_nobody_saw_are_named() -> None:
    blind = make_timeline(links=1, hide=frozenset({("h0.eth0", "firmware")}))
    subtitle = specification(made([blind]), 1160)["title"]["subtitle"]
    assert any("never seen: firmware, carrier" in line for line in subtitle)


def test_nothing_is_drawn_of_nothing() -> None:
    assert cdf_figure([]) is None
