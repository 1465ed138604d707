"""Tables beside that of stages: control by pairs, recoveries of RC, predicted times, jobs; as text and on the page."""

import dataclasses
import random
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec import UNSET

from hwd.model.instant import Origin
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.prediction import PlanPrediction, PredictedTime
from hwd.model.run_facts import RunJob
from hwd.report.conditions import Conditions
from hwd.report.figures.control_by_pairs import by_pairs_figure, of_pairs
from hwd.report.figures.render import specification, svg
from hwd.report.jobs import job_rows
from hwd.report.page.html import html
from hwd.report.papers import FIGURES, figures
from hwd.report.predictions import prediction_rows
from hwd.report.rc_recovery import recovery_rows
from hwd.report.run_report import Ending
from hwd.report.stages import pairs_rows
from hwd.report.switch_commands import PairsRow, SwitchCommands, pairs_table
from hwd.report.text import job_text, pairs_text, prediction_text, recovery_text
from hwd.timeline import EndTimeline, RcOutcome, RcRecovery, Timeline
from hwd_drivers.core.structs import from_plain

from ..answers import check_golden
from .stage import make_run


def pairs(pairs: int, n: int, mean_s: float, p99_s: float | None) -> PairsRow:
    return PairsRow(
        virtual_time=False, pairs=pairs, n=n, mean_s=mean_s, mean_within_s=(mean_s * 0.9, mean_s * 1.1), p99_s=p99_s,
        max_s=mean_s * 2, error_s=0.0001, origin=Origin.MEASURED,
    )  # fmt: skip


def recovery(outcome: RcOutcome, after_ms: float | None, *, ack_timeout_s: float = 0.067108864) -> RcRecovery:
    return RcRecovery(
        outcome=outcome, earliest_ns=0, latest_ns=1, best_ns=1, after_s=1.0, ack_timeout_s=ack_timeout_s, retries=7,
        origin=Origin.KERNEL, after_carrier_s=None if after_ms is None else after_ms / 1000,
        error_s=None if after_ms is None else 0.002,
    )  # fmt: skip


def timeline(*found: RcRecovery | None) -> Timeline:
    ends = [
        EndTimeline(
            link=Link.parse("h0.eth0<->h1.eth0"),
            end=NicPortId.parse(f"h0.eth{number}"),
            instants=(),
            observations=(),
            rc=one or UNSET,
        )
        for number, one in enumerate(found)
    ]
    return Timeline(
        reconfiguration="r1", run=None, what="", commands=[], ends=ends, links=[], breaches=[], explained=[]
    )


def predicted(measured_ms: float | None, p50_ms: float | None = 20.0, p99_ms: float | None = None) -> PlanPrediction:
    p50_s, p99_s, measured_s = (None if ms is None else ms / 1000 for ms in (p50_ms, p99_ms, measured_ms))
    time = PredictedTime(p50_s=p50_s, p99_s=p99_s, observations=1, of="ocs1", measured_s=measured_s)
    return PlanPrediction(acknowledged=time, ready=None)


def job(entry: str, *seconds: float, moves: int = 0, held_s: float = 0.0, **sweep: object) -> RunJob:
    return RunJob(
        run="k3v9", job="j7x2a1b9", entry=entry, arguments=["--steps", "8"], plane="mfabric layers=2", sweep=sweep,
        seconds=[*seconds], moves=moves, links=2 * moves, moving_s=0.1 * moves, held_s=held_s,
    )  # fmt: skip


RECOVERED = [
    timeline(recovery(RcOutcome.COMPLETED, 60), None),
    timeline(recovery(RcOutcome.RE_MADE, 20), recovery(RcOutcome.COMPLETED, 70)),
    timeline(recovery(RcOutcome.FAILED, None)),
    timeline(recovery(RcOutcome.COMPLETED, 3, ack_timeout_s=0.004)),
]
PREDICTED = [predicted(10), predicted(20), predicted(30, p99_ms=29), predicted(None), predicted(40, p50_ms=None)]
JOBS = [
    job("moe", 9, 1, 2, 3, moves=4, held_s=0.1),
    job("eps", 9, 5),
    job("moe", 9, 4, 5, 6, moves=6, held_s=0.1),
    job("moe", 9, 1, nics="ideal"),
    job("moe", 9, 5, nics="mfabric-cx6"),
    job("moe", 9, 3, nics="ideal"),
    job("train"),
]


def test_tables_are_what_they_were() -> None:
    texts = (
        pairs_text([pairs(1, 100, 0.04, 0.06), pairs(16, 5, 0.05, None)]),
        recovery_text(recovery_rows(RECOVERED)),
        prediction_text(prediction_rows(PREDICTED)),
        job_text(job_rows(JOBS)),
    )
    check_golden(Path(__file__).with_name("tables.txt"), "\n".join(texts))


def test_without_anything_there_is_no_table() -> None:
    assert (recovery_rows([timeline(None)]), prediction_rows([]), job_rows([])) == ((), (), ())
    row, _ = prediction_rows([predicted(None)])
    assert (row.scored, row.interval, row.loss_s) == (0, None, None)


def test_a_page_has_the_same_figures() -> None:
    endings = tuple(
        Ending(reconfiguration=f"r{number}", outcome="confirmed", why="", seconds=1.0, prediction=one)
        for number, one in enumerate(PREDICTED)
    )
    page = html([dataclasses.replace(make_run(timelines=(RECOVERED[0],)), endings=endings)])
    assert "<h2>Predicted times</h2>" in page
    for heading, figure in (("at most it", "67%"), ("ACK timeout", "67.1 ms"), ("retries", "7"), ("median", "60.0 ms")):
        assert f'<td class="num" data-heading="{heading}">{figure}</td>' in page


def test_coverage_counts_what_is_known_and_says_how_many_are_not() -> None:
    p50, p99 = prediction_rows(PREDICTED)
    assert (p50.scored, p50.covered, p50.not_scored) == (3, 2, 2)
    assert (p99.scored, p99.covered, p99.not_scored) == (1, 0, 4)
    assert p50.interval == pytest.approx((0.2077, 0.9385), abs=0.0001), "Wilson's, by another hand"
    assert p99.interval == pytest.approx((0.0, 0.7935), abs=0.0001)
    assert p50.loss_s == pytest.approx((0.005 + 0.0 + 0.005) / 3)
    assert p99.loss_s == pytest.approx(0.99 * 0.001)


def test_jobs_of_one_entry_share_a_row_without_their_first_iterations() -> None:
    moe, eps = job_rows(JOBS[:3])
    assert (moe.name, moe.jobs, moe.n, moe.median_s, moe.moves, moe.links) == ("moe --steps 8", 2, 6, 3.5, 10, 20)
    assert moe.hidden == pytest.approx(0.8)
    low, high = moe.interval or (0, 0)
    assert 1 <= low < 3.5 < high <= 6
    assert (eps.n, eps.median_s, eps.interval, eps.hidden) == (1, 5.0, None, None)
    old = {key: value for key, value in JOBS[0].to_data().items() if key != "sweep"}
    (row,) = job_rows([from_plain(old, RunJob)])
    assert row.name == "moe --steps 8", "recorded before sweeps were"


# --- control time by pairs


def command(
    pairs: int, control_s: float | None, *, commands: int = 1, origin: Origin = Origin.TWIN, reconfiguration: int = 0
) -> SwitchCommands:
    error_s = None if control_s is None else 0.0
    return SwitchCommands(
        reconfiguration=f"r{reconfiguration}",
        switch="ocs1",
        pairs=pairs,
        removed=0,
        commands=commands,
        control_s=control_s,
        error_s=error_s,
        origin=origin,
    )


def table(*commands: SwitchCommands, virtual: bool = False) -> tuple[PairsRow, ...]:
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
