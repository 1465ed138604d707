"""Distributions: the data of each curve are the durations of the timelines."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hwd.report.conditions import Conditions
from hwd.report.figures.cdf import STEPS_MAX, TOGETHER_MAX, cdf_figure
from hwd.report.figures.figure import Figure
from hwd.report.figures.render import specification
from hwd.report.papers import figures
from hwd.timeline import StageName, Timeline, samples
from hwd.timeline.statistics import Sample

from ...answers import check_golden
from ..stage import make_timeline
from .charts import drawn, marks_of


def curves(figure: Figure) -> dict[str, list[dict[str, Any]]]:
    return {layer["name"]: found for layer, found in marks_of(figure) if "name" in layer}


def stories() -> Iterator[tuple[str, Figure]]:
    papers = figures(Conditions(timings=frozenset({"polatis-opus", "opus-cx6dx-autoneg"})))
    yield "eight links", made([make_timeline(links=8)])
    yield "two topologies beside the papers", made([make_timeline(1), make_timeline(2, what="pairs")], papers=papers)
    many = [make_timeline(seed, what=f"w{seed}", links=1) for seed in range(TOGETHER_MAX + 1)]
    yield "more topologies than one panel takes", made(many)
    yield "a stage that nobody saw", made([make_timeline(links=1, hide=frozenset({("h0.eth0", "firmware")}))])
    taken = [one for virtual in (False, True) for one in samples([make_timeline(1, links=1)], virtual_time=virtual)]
    yield "real and virtual time", of_samples(taken)
    yield (
        "bounds below zero",
        of_samples(
            [
                replace(
                    one,
                    limits=(start, replace(end, earliest_ns=end.earliest_ns - 9 * 10**9)),
                    stage=replace(one.stage, seconds=one.stage.seconds - 0.1),
                )
                for one in samples([make_timeline(1, links=2)], virtual_time=False)
                if one.stage.seconds is not None and one.limits is not None
                for start, end in [one.limits]
            ]
        ),
    )


def test_what_is_drawn_of_distributions_is_what_it_was() -> None:
    lines: list[str] = []
    for words, figure in stories():
        title = specification(figure, 1160)["title"]
        lines += [f"== {words}", f"{title['text']} | {title.get('subtitle')}", *drawn(figure, 1160)]
    check_golden(Path(__file__).with_name("distributions.txt"), "\n".join([*lines, ""]))
    assert cdf_figure([]) is None


def of_samples(taken: list[Sample]) -> Figure:
    figure = cdf_figure(taken)
    assert figure is not None
    return figure


def made(timelines: list[Timeline], **more: Any) -> Figure:
    figure = cdf_figure(samples(timelines, virtual_time=False), **more)
    assert figure is not None
    return figure


def test_of_many_values_so_many_steps_are_drawn_where_they_are() -> None:
    timelines = [make_timeline(seed, links=8) for seed in range(200)]
    seconds = sorted(link.stage(StageName.FIRMWARE).seconds or 0 for one in timelines for link in one.links)
    steps = curves(made(timelines))["firmware"][1:-1]
    assert STEPS_MAX / 2 < len(steps) <= STEPS_MAX
    for row in steps:
        assert row["at"] == pytest.approx(seconds[round(row["share"] * len(seconds)) - 1])
    assert steps[-1]["share"] == 1


def test_the_band_holds_the_curve_and_is_there_from_six_reconfigurations_on() -> None:
    def bands(count: int) -> list[dict[str, Any]]:
        figure = made([make_timeline(seed) for seed in range(count)])
        return [row for layer, found in marks_of(figure) if layer["mark"]["type"] == "area" for row in found]

    assert bands(5) == []
    found = bands(7)
    assert found
    assert all(0 <= row["low"] <= row["high"] <= 1 for row in found)
