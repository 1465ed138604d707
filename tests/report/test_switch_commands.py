"""Control time by pairs."""

import dataclasses
import random
import re
from xml.etree import ElementTree

import pytest

from hwd.model.instant import Origin
from hwd.report.conditions import Conditions
from hwd.report.figures.control_by_pairs import by_pairs_figure, of_pairs
from hwd.report.figures.render import specification, svg
from hwd.report.papers import FIGURES, figures
from hwd.report.stages import pairs_rows
from hwd.report.switch_commands import Commanded, PairsRow, pairs_table

from .stage import make_run


def command(
    pairs: int, control_s: float | None, *, commands: int = 1, origin: Origin = Origin.TWIN, reconfiguration: int = 0
) -> Commanded:
    error_s = None if control_s is None else 0.0
    return Commanded(
        reconfiguration=f"r{reconfiguration}",
        switch="ocs1",
        pairs=pairs,
        removed=0,
        commands=commands,
        control_s=control_s,
        error_s=error_s,
        origin=origin,
    )


def table(*commands: Commanded, virtual: bool = False) -> tuple[PairsRow, ...]:
    return pairs_table([(one, virtual) for one in commands])


def test_row_for_each_number_of_pairs_with_the_mean_and_its_interval() -> None:
    draw = random.Random(1)
    rows = table(
        *(
            command(pairs, 0.04 + 0.001 * pairs + draw.gauss(0, 0.001), reconfiguration=number)
            for pairs in (1, 4, 16)
            for number in range(120)
        )
    )
    assert [(row.pairs, row.n) for row in rows] == [(1, 120), (4, 120), (16, 120)]
    for row in rows:
        assert row.mean_s == pytest.approx(0.04 + 0.001 * row.pairs, abs=0.0005)
        assert row.mean_within_s is not None
        assert row.mean_within_s[0] < row.mean_s < row.mean_within_s[1]
        assert row.p99_s is not None
        assert row.mean_s < row.p99_s <= row.max_s


def test_p99_needs_a_hundred_commands() -> None:
    (row,) = table(*(command(1, 0.04 + index / 1e5) for index in range(99)))
    assert row.p99_s is None


def test_interval_of_the_mean_needs_twenty_reconfigurations_however_many_switches_they_moved() -> None:
    (row,) = table(*(command(1, 0.04 + index / 1e5, reconfiguration=index % 19) for index in range(190)))
    assert row.mean_within_s is None
    (row,) = table(*(command(1, 0.04 + index / 1e5, reconfiguration=index) for index in range(20)))
    assert row.mean_within_s is not None


def test_switches_that_one_reconfiguration_moves_are_no_values_of_their_own() -> None:
    draw = random.Random(3)
    seconds = [draw.gauss(0.04, 0.001) for _ in range(40)]
    (alone,) = table(*(command(1, one, reconfiguration=number) for number, one in enumerate(seconds)))
    (copied,) = table(
        *(command(1, one, reconfiguration=number) for number, one in enumerate(seconds) for _ in range(16))
    )
    assert alone.mean_within_s is not None
    assert copied.mean_within_s == pytest.approx(alone.mean_within_s)


def test_what_went_in_several_commands_or_made_nothing_or_was_not_answered_does_not_count() -> None:
    assert table(command(4, 0.1, commands=2), command(0, 0.04), command(4, None)) == ()


def test_times_are_kept_apart_and_the_origin_is_the_weakest() -> None:
    rows = pairs_table([(command(1, 0.04), False), (command(1, 0.05, origin=Origin.FITTED), True)])
    assert [(row.virtual_time, row.origin) for row in rows] == [(False, Origin.TWIN), (True, Origin.FITTED)]
    (row,) = table(command(1, 0.04), command(1, 0.04, origin=Origin.FITTED))
    assert row.origin is Origin.FITTED


def test_mfabrics_figure_stands_beside_with_mean_and_p99_for_each_number_of_pairs() -> None:
    beside = of_pairs(FIGURES)
    assert sorted((one.pairs or 0, str(one.statistic), one.low_s) for one in beside) == [
        (1, "mean", 0.04144),
        (1, "p99", 0.060),
        (4, "mean", 0.04244),
        (4, "p99", 0.062),
        (16, "mean", 0.04675),
        (16, "p99", 0.068),
    ]
    figure = by_pairs_figure(table(command(2, 0.05)), papers=beside, fitted=False)
    rows = [row for values in specification(figure, 660)["datasets"].values() for row in values]
    drawn = [(row["pairs"], row["seconds"] / 1e3) for row in rows if row["words"].startswith("mfabric")]
    wanted = sorted((one.pairs or 0, one.high_s) for one in beside)
    assert sorted(drawn) == [(pairs, pytest.approx(high_s)) for pairs, high_s in wanted]


@pytest.mark.parametrize(
    ("fitted", "words"), [(True, "never called reproduced"), (False, "Not made from the paper's figure")]
)
def test_fitted_is_said_and_never_called_reproduced(fitted: bool, words: str) -> None:
    papers = figures(Conditions(timings=frozenset({"polatis-mfabric"})))
    figure = by_pairs_figure(table(command(1, 0.04, origin=Origin.FITTED)), papers=papers, fitted=fitted)
    told = " ".join(
        "".join(one.itertext()) for one in ElementTree.fromstring(svg(figure, 660)).iter() if one.tag.endswith("text")
    )
    assert words in told
    assert len(re.findall("reproduced", told)) == (1 if fitted else 0)


def test_runs_compared_have_rows_and_colours_of_their_own() -> None:
    runs = [dataclasses.replace(make_run(id), commands=(command(1, 0.04), command(4, 0.05))) for id in ("a", "b")]
    assert [(row.of, row.pairs, row.n) for row in pairs_rows(runs)] == [
        ("a", 1, 1), ("a", 4, 1), ("b", 1, 1), ("b", 4, 1)
    ]  # fmt: skip
    assert {row.of for row in pairs_rows(runs[:1])} == {""}
    chart = specification(by_pairs_figure(pairs_rows(runs), papers=(), fitted=False), 700)
    colour = next(layer["encoding"]["color"] for layer in chart["layer"] if layer.get("name") == "by_pairs")
    assert colour["scale"]["domain"] == ["a, real time", "b, real time"]
