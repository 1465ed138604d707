"""The table that says how well predicted times did."""

import dataclasses

import pytest

from hwd.model.prediction import PlanPrediction, PredictedTime
from hwd.report.page.html import html
from hwd.report.predictions import prediction_rows, prediction_text
from hwd.report.run_report import Ending

from .stage import make_run


def predicted(measured_ms: float | None, p50_ms: float | None = 20.0, p99_ms: float | None = None) -> PlanPrediction:
    return PlanPrediction(
        acknowledged=PredictedTime(
            p50_s=None if p50_ms is None else p50_ms / 1000,
            p99_s=None if p99_ms is None else p99_ms / 1000,
            observations=1,
            of="ocs1",
            measured_s=None if measured_ms is None else measured_ms / 1000,
        ),
        ready=None,
    )


PREDICTED = [predicted(10), predicted(20), predicted(30, p99_ms=29), predicted(None), predicted(40, p50_ms=None)]


def test_coverage_counts_what_is_known_and_says_how_many_are_not() -> None:
    p50, p99 = prediction_rows(PREDICTED)
    assert (p50.scored, p50.covered, p50.not_scored) == (3, 2, 2)
    assert (p99.scored, p99.covered, p99.not_scored) == (1, 0, 4)
    assert p50.interval == pytest.approx((0.2077, 0.9385), abs=0.0001), "Wilson's, by another hand"
    assert p99.interval == pytest.approx((0.0, 0.7935), abs=0.0001)
    assert p50.loss_s == pytest.approx((0.005 + 0.0 + 0.005) / 3)
    assert p99.loss_s == pytest.approx(0.99 * 0.001)


def test_as_text() -> None:
    assert prediction_text(prediction_rows(PREDICTED)) == (
        "predicted times of the plans\n"
        "time          quantile  n  predicted  measured  at most it  95 % interval  mean loss  not scored\n"
        "------------  --------  -  ---------  --------  ----------  -------------  ---------  ----------\n"
        "acknowledged       p50  3    20.0 ms   20.0 ms         67%     21% to 94%    3.33 ms           2\n"
        "acknowledged       p99  1    29.0 ms   30.0 ms          0%      0% to 79%     990 µs           4\n"
    )


def test_without_one_there_is_no_table() -> None:
    assert prediction_rows([]) == ()
    row, _ = prediction_rows([predicted(None)])
    assert (row.scored, row.interval, row.loss_s) == (0, None, None)


def test_a_page_has_the_same_figures() -> None:
    endings = tuple(
        Ending(reconfiguration=f"r{number}", outcome="confirmed", why="", seconds=1.0, prediction=one)
        for number, one in enumerate(PREDICTED)
    )
    page = html([dataclasses.replace(make_run(), endings=endings)])
    assert "<h2>Predicted times</h2>" in page
    assert '<td class="num" data-heading="at most it">67%</td>' in page
