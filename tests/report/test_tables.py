"""Tables beside that of stages: control by pairs, recoveries of RC, predicted times, jobs; as text and on the page."""

import dataclasses
from pathlib import Path

import msgspec
import pytest
from msgspec import UNSET

from hwd.model.documents.runs import RunJob
from hwd.model.instant import Origin
from hwd.model.prediction import PlanPrediction, PredictedTime
from hwd.report.jobs import job_rows, job_text
from hwd.report.page.html import html
from hwd.report.predictions import prediction_rows, prediction_text
from hwd.report.rc_recovery import recovery_rows, recovery_text
from hwd.report.run_report import Ending
from hwd.report.switch_commands import PairsRow
from hwd.report.text import pairs_text
from hwd.timeline import EndTimeline, RcOutcome, RcRecovery, Timeline

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
        EndTimeline(link="h0.eth0<->h1.eth0", end=f"h0.eth{number}", instants=(), observations=(), rc=one or UNSET)
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
    (row,) = job_rows([msgspec.convert(old, RunJob)])
    assert row.name == "moe --steps 8", "recorded before sweeps were"
