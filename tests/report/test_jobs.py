"""The jobs of a run in its report: their iterations with an interval, and what of their light's moves was hidden."""

import msgspec
import pytest

from hwd.model.documents.runs import RunJob
from hwd.report.jobs import job_rows, job_text


def job(entry: str, *seconds: float, moves: int = 0, held_s: float = 0.0, **sweep: object) -> RunJob:
    return RunJob(
        run="k3v9",
        job="j7x2a1b9",
        entry=entry,
        arguments=["--steps", "8"],
        plane="mfabric layers=2",
        sweep=sweep,
        seconds=[*seconds],
        moves=moves,
        links=2 * moves,
        moving_s=0.1 * moves,
        held_s=held_s,
    )


def test_jobs_of_one_entry_share_a_row_without_their_first_iterations() -> None:
    jobs = [job("moe", 9, 1, 2, 3, moves=4, held_s=0.1), job("eps", 9, 5), job("moe", 9, 4, 5, 6, moves=6, held_s=0.1)]
    moe, eps = job_rows(jobs)
    assert (moe.name, moe.jobs, moe.n, moe.median_s, moe.moves, moe.links) == ("moe --steps 8", 2, 6, 3.5, 10, 20)
    assert moe.hidden == pytest.approx(0.8)
    low, high = moe.interval or (0, 0)
    assert 1 <= low < 3.5 < high <= 6
    assert (eps.n, eps.median_s, eps.interval, eps.hidden) == (1, 5.0, None, None)
    text = job_text([moe, eps])
    assert "moe --steps 8" in text
    assert "80%" in text
    assert "3.500 s" in text


def test_jobs_under_other_sweep_values_have_rows_of_their_own() -> None:
    jobs = [job("moe", 9, 1, nics="ideal"), job("moe", 9, 5, nics="mfabric-cx6"), job("moe", 9, 3, nics="ideal")]
    rows = job_rows(jobs)
    assert [(row.name, row.median_s) for row in rows] == [
        ("moe --steps 8 · nics=ideal", 2.0),
        ("moe --steps 8 · nics=mfabric-cx6", 5.0),
    ]


def test_job_recorded_before_sweeps_were_is_read() -> None:
    old = {key: value for key, value in job("moe", 9, 1).to_data().items() if key != "sweep"}
    (row,) = job_rows([msgspec.convert(old, RunJob)])
    assert row.name == "moe --steps 8"


def test_job_that_says_no_iterations_has_no_median() -> None:
    (row,) = job_rows([job("train")])
    assert (row.n, row.median_s, row.interval) == (0, None, None)
    assert job_rows([]) == ()
