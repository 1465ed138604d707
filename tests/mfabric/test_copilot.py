"""Copilot: predictions are those of the fit to the window, and better than the baselines on synthetic traces."""

import sys
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hwd.mfabric.copilot import Copilot
from hwd.mfabric.loads import top_k_accuracy, unchanged_loads, uniform_loads
from hwd.mfabric.traces import synthetic_trace
from hwd.mfabric.transition import Solver, fit_transition
from hwd_drivers.core.errors import ConfigError


def loads_of(seed: int, experts: int, iterations: int, *, tokens: int = 32768) -> NDArray[np.float64]:
    return synthetic_trace(seed, iterations=iterations, layers=2, experts=experts, tokens=tokens).loads


@settings(max_examples=30)
@given(st.integers(0, 999), st.integers(1, 8), st.integers(0, 6), st.sampled_from([3, 100]))
def test_predictions_are_distributions(seed: int, experts: int, iterations: int, tokens: int) -> None:
    """Also where most experts have no load."""
    copilot = Copilot(experts, window=4)
    for previous, loads in loads_of(seed, experts, max(iterations, 1), tokens=tokens)[:iterations]:
        copilot.observe(previous, loads)
    predicted = copilot.predict(loads_of(seed + 1, experts, 1)[0, 0])
    assert predicted.shape == (experts,)
    assert (predicted >= 0).all()
    assert predicted.sum() == pytest.approx(1, abs=1e-12)


def test_loads_are_expected_to_stay_before_the_first_observation() -> None:
    assert Copilot(3).predict([1, 0, 3]).tolist() == [0.25, 0, 0.75]


def test_fit_is_that_of_the_last_iterations_the_newest_with_the_most_weight() -> None:
    trace = loads_of(1, 4, 9)
    copilot = Copilot(4, window=3, decay=0.5)
    for previous, loads in trace:
        copilot.observe(previous, loads)
    expected = fit_transition(trace[-3:, 0], trace[-3:, 1], weights=[1, 2, 4])
    assert copilot.transition == pytest.approx(expected.transition, abs=1e-9)
    assert copilot.fit.objective == pytest.approx(expected.objective)
    previous = trace[0, 0]
    assert copilot.predict(previous) == pytest.approx(expected.transition @ previous / previous.sum())


def test_fit_is_made_anew_after_each_observation() -> None:
    copilot = Copilot(2, window=1)
    copilot.observe([1, 0], [1, 0])
    assert copilot.predict([1, 0]) == pytest.approx([1, 0], abs=1e-3)
    copilot.observe([1, 0], [0, 1])
    assert copilot.predict([1, 0]) == pytest.approx([0, 1], abs=1e-3)


def test_transition_cannot_be_written() -> None:
    copilot = Copilot(2)
    for _ in range(2):
        with pytest.raises(ValueError, match="read-only"):
            copilot.transition[0, 0] = 0.5
        copilot.observe([1, 2], [2, 1])


def test_slsqp_predicts_as_ours_does() -> None:
    copilots = [Copilot(4, solver=solver) for solver in Solver]
    trace = loads_of(3, 4, 12)
    for copilot in copilots:
        for previous, loads in trace[:-1]:
            copilot.observe(previous, loads)
    ours, theirs = (copilot.predict(trace[-1, 0]) for copilot in copilots)
    assert ours == pytest.approx(theirs, abs=1e-3)


def test_solver_is_the_one_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    copilot = Copilot(2, solver=Solver.SLSQP)
    copilot.observe([1, 2], [2, 1])
    with pytest.raises(ConfigError, match="the solver slsqp needs scipy"):
        copilot.predict([1, 2])


@pytest.mark.parametrize(
    ("previous", "loads", "why"),
    [
        ([1, float("nan")], [1, 1], r"^previous loads: \[1\] is nan"),
        ([1, 1], [1, -1], r"^loads: \[1\] is -1"),
        ([1, 1], [0, 0], "^loads: no entry is above 0"),
        ([1, 1, 1], [1, 1], "^previous loads: has 3 entries, and has to have 2"),
        ([1, 1], [1], "^loads: has 1 entry, and has to have 2"),
    ],
)
def test_bad_observation_is_refused_and_changes_nothing(previous: list[float], loads: list[float], why: str) -> None:
    copilot = Copilot(2)
    copilot.observe([1, 0], [0, 1])
    before = copilot.transition.tolist()
    with pytest.raises(ConfigError, match=why):
        copilot.observe(previous, loads)
    assert copilot.transition.tolist() == before


def accuracies(seed: int, experts: int, k: int, drift: float = 0.1) -> tuple[float, ...]:
    """Mean top-k accuracy over 15 iterations after the first ten: of Copilot, of both baselines, and of the loads that
    the same layer had an iteration ago.
    """
    trace = synthetic_trace(seed, iterations=25, layers=2, experts=experts, drift=drift).loads
    copilot = Copilot(experts)
    found = []
    for iteration, (previous, loads) in enumerate(trace):
        if iteration >= 10:
            baselines = uniform_loads(experts), unchanged_loads(previous), trace[iteration - 1, 1]
            predictions = copilot.predict(previous), *baselines
            found.append([top_k_accuracy(predicted, loads, k) for predicted in predictions])
        copilot.observe(previous, loads)
    return tuple(np.mean(found, axis=0).tolist())


@pytest.mark.parametrize(("experts", "k", "seeds"), [(8, 2, 7), (16, 4, 7), (64, 8, 2)])
def test_copilot_finds_more_of_the_busy_experts_than_the_baselines(experts: int, k: int, seeds: int) -> None:
    """Measured: 0.90 to 1 against at most 0.5."""
    ours, uniform, unchanged, _ = zip(*(accuracies(seed, experts, k) for seed in range(seeds)), strict=True)
    assert median(ours) > 0.85
    assert median(ours) > median(uniform) + 0.4
    assert median(ours) > median(unchanged) + 0.4


def test_copilot_finds_more_than_the_last_iteration_tells_where_loads_drift() -> None:
    """Measured: 0.98 against 0.90."""
    ours, _, _, last = zip(*(accuracies(seed, 16, 4, drift=0.3) for seed in range(7)), strict=True)
    assert median(ours) > median(last) + 0.04
