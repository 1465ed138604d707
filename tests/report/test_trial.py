"""The table of a trial, from runs of the records alone."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from hwd.model.recorded_run import RunOutcome, RunSummary
from hwd.model.run import Treatment, TrialRun
from hwd.report.run_report import RunReport
from hwd.report.trial import TrialTable, pair_words, trial_table
from hwd_drivers.core.errors import ConfigError, UnknownError

TRIAL = "k3v9a1b2"


def run(pair: int, treatment: Treatment, seconds: float, *, at_s: float = 0.0, **more: Any) -> RunSummary:
    place = TrialRun(trial=more.pop("trial", TRIAL), treatment=treatment, pair=pair, metric=more.pop("metric", "run"))
    return RunSummary(
        id=f"{treatment}{pair}",
        playbook="ab",
        testbed="two",
        version="1",
        started_wall_ns=int((1000 * pair + at_s) * 1e9),
        ended_wall_ns=int((1000 * pair + at_s + seconds) * 1e9),
        parameters={"hold_s": 0 if treatment == "a" else 1},
        trial=place,
        **{"outcome": RunOutcome.SUCCEEDED, **more},
    )


def nothing(id: str) -> RunReport:
    raise AssertionError(f"run {id} need not be read for its duration")


def table(*runs: RunSummary, report_of: Callable[[str], RunReport] = nothing) -> TrialTable:
    return trial_table(runs, TRIAL, report_of)


PAIRS = [
    one
    for pair in range(1, 13)
    for one in (run(pair, "a", 5 + 0.1 * (pair % 2)), run(pair, "b", 6 + 0.1 * (pair % 2), at_s=-7 if pair % 3 else 8))
]


def test_table_is_made_of_the_runs_of_the_trial_in_any_order() -> None:
    others = [
        run(1, "a", 1, trial="aaaaaaaa"),
        RunSummary(id="x", playbook="p", testbed="t", version="1", started_wall_ns=0),
    ]
    found = table(*others, *PAIRS[::-1])
    assert found == table(*PAIRS)
    assert (found.metric, found.treatments) == ("run", ("ab hold_s=0", "ab hold_s=1"))
    assert [pair.first for pair in found.pairs[:3]] == ["b", "b", "a"]
    assert pair_words(found.pairs[0]) == ("1", "b", "5.100 s", "6.100 s", "1.196", "a1 b1", "")
    assert found.line == "11 pairs (1 more of warm-up): b/a 1.198 (1.196 to 1.200): b is longer"


def test_pair_without_a_figure_says_why_and_does_not_count() -> None:
    failed = run(13, "b", 3, outcome=RunOutcome.FAILED, why="step 2: not ready")
    alone = run(14, "a", 5)
    found = table(*PAIRS, run(13, "a", 5), failed, alone)
    assert [pair.pair for pair in found.pairs] == list(range(1, 14)), "one that has not both runs is not there yet"
    assert found.pairs[-1].why == "run b13 failed: step 2: not ready"
    assert found.pairs[-1].b_s is None
    assert found.judgement == table(*PAIRS).judgement


def test_treatment_that_fails_more_often_leaves_it_undecided() -> None:
    """Of runs with a limit the slow ones fail, and the fast ones of the slower treatment are left."""
    failed = [
        one
        for pair in range(13, 16)
        for one in (run(pair, "a", 5), run(pair, "b", 3, outcome=RunOutcome.FAILED, why="not ready"))
    ]
    found = table(*PAIRS, *failed)
    assert (found.lost, found.judgement.verdict) == ((0, 3), "")
    assert found.line.endswith(
        ": not decided: one of the two is without a figure more often, so the others say little of it; "
        "without a figure: a 0, b 3"
    )
    even = [run(16, "a", 5, outcome=RunOutcome.ABORTED), run(16, "b", 3, outcome=RunOutcome.ABORTED)]
    assert table(*PAIRS, *even).line.endswith(": b is longer; without a figure: a 1, b 1")


def test_treatments_are_told_in_the_words_that_asked_for_them() -> None:
    runs = [
        replace(one, trial=replace(one.trial, words=f"ab.yaml hold_s={one.parameters['hold_s']}"))
        for one in PAIRS
        if one.trial is not UNSET
    ]
    assert table(*runs).treatments == ("ab.yaml hold_s=0", "ab.yaml hold_s=1")


def test_trial_that_is_not_there_or_is_two_is_refused() -> None:
    with pytest.raises(UnknownError, match="trial 'k3v9a1b2': the records have no run of it"):
        table()
    with pytest.raises(ConfigError, match="its runs compare control and run, which is not one trial"):
        table(run(1, "a", 5), run(1, "b", 5, metric="control"))
