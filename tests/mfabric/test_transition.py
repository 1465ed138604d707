"""The fit of a transition: its certificate, against an independent solver, planted transitions and the baselines."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize

from hwd.mfabric import transition as module
from hwd.mfabric.transition import GAP, Solver, fit_transition
from hwd_drivers.core.errors import ConfigError, FailedError

Array = NDArray[np.float64]


@st.composite
def cases(draw: st.DrawFn, *, experts_most: int = 8) -> tuple[Array, Array, Array]:
    """Shares of two layers (k x N) and weights, with zeros, fewer iterations than experts, and the same ones again."""
    experts, iterations = draw(st.integers(1, experts_most)), draw(st.integers(1, 12))
    entry = st.sampled_from([0.0, 0.0, 1.0, 2.0, 3.0, 7.0, 1e-3, 1e3])
    row = st.lists(entry, min_size=experts, max_size=experts).filter(any)
    rows = st.lists(row, min_size=iterations, max_size=iterations)
    before, after = np.array(draw(rows)), np.array(draw(rows))
    decay = draw(st.sampled_from([1.0, 0.8, 0.1]))
    weights = np.array([decay**index for index in range(iterations)])
    return before / before.sum(axis=1)[:, None], after / after.sum(axis=1)[:, None], weights


def objective(transition: Array, case: tuple[Array, Array, Array]) -> float:
    before, after, weights = case
    terms = zip(weights / weights.sum(), before, after, strict=True)
    return float(sum(weight * np.sum((y - transition @ x) ** 2) for weight, x, y in terms))


def scale(case: tuple[Array, Array, Array]) -> float:
    return objective(np.zeros((case[0].shape[1],) * 2), case)


def least_squares(case: tuple[Array, Array, Array]) -> Array:
    """A transition that is nearly the best, by another way: non-negative least squares, where columns that do not sum
    to 1 cost. With more cost it is nearer to the best, until rounding spoils it.
    """
    before, after, weights = case
    experts, root = before.shape[1], np.sqrt(weights / weights.sum())[:, None]
    cost = 1e3
    rows = np.vstack([np.kron(np.eye(experts), before * root), np.tile(np.eye(experts), experts) * cost])
    found, _ = optimize.nnls(rows, np.concatenate([(after * root).T.ravel(), np.full(experts, cost)]), maxiter=10_000)
    transition: Array = found.reshape(experts, experts)
    transition /= transition.sum(axis=0)
    return transition


@settings(max_examples=30)
@given(cases())
def test_transition_is_a_probability_matrix_with_a_certified_gap(case: tuple[Array, Array, Array]) -> None:
    before, after, weights = case
    fit = fit_transition(before, after, weights=weights)
    assert ((fit.transition >= 0) & (fit.transition <= 1)).all()
    assert fit.transition.sum(axis=0) == pytest.approx(1, abs=1e-12)
    assert fit.objective == pytest.approx(objective(fit.transition, case), rel=1e-9, abs=1e-15)
    assert 0 <= fit.gap <= GAP


@settings(max_examples=30)
@given(cases())
def test_objective_is_the_least_within_the_gap(case: tuple[Array, Array, Array]) -> None:
    before, after, weights = case
    fit = fit_transition(before, after, weights=weights)
    other = objective(least_squares(case), case)
    assert fit.objective <= other + fit.gap * scale(case) + 1e-12
    assert other <= fit.objective + 1e-4  # so that the line above says something


@settings(max_examples=25)
@given(cases(), st.integers(0, 2**32 - 1))
def test_gap_bounds_what_any_other_transition_could_gain(case: tuple[Array, Array, Array], seed: int) -> None:
    """Also of transitions that are far from the best: the certificate does not trust the solver."""
    before, after, weights = case
    experts, draws = before.shape[1], np.random.default_rng(seed)
    fit = fit_transition(before, after, weights=weights)
    root = np.sqrt(weights / weights.sum())
    for found in (fit.transition, draws.dirichlet(np.ones(experts), size=experts).T):
        value, gap = module._certificate(found, before.T * root, after.T * root)
        if found is fit.transition:
            assert fit.gap * scale(case) == pytest.approx(gap, rel=1e-3, abs=1e-15)
        assert value - gap <= fit.objective + 1e-12
        for spread in (0.05, 1.0):
            other = draws.dirichlet(np.full(experts, spread), size=experts).T
            assert value - gap <= objective(other, case) + 1e-12


@settings(max_examples=20)
@given(cases(experts_most=4))
def test_both_solvers_find_the_same_objective(case: tuple[Array, Array, Array]) -> None:
    before, after, weights = case
    ours = fit_transition(before, after, weights=weights)
    theirs = fit_transition(before, after, weights=weights, solver=Solver.SLSQP)
    assert ours.objective <= theirs.objective + 1e-6 * scale(case)
    assert theirs.objective <= ours.objective + 1e-5 * scale(case)  # it stops where a step gains little
    assert ((theirs.transition >= 0) & (theirs.transition <= 1)).all()
    assert theirs.transition.sum(axis=0) == pytest.approx(1, abs=1e-12)
    assert theirs.objective - theirs.gap * scale(case) <= ours.objective + 1e-12


@pytest.mark.parametrize("experts", [8, 16, 64])
@pytest.mark.parametrize("iterations", [1, 10, 80])
def test_many_experts_have_a_small_gap_too(experts: int, iterations: int) -> None:
    draws = np.random.default_rng(experts + iterations)
    before, after = draws.dirichlet(np.full(experts, 0.1), size=(2, iterations))
    before[:, 0] = after[:, 1] = 0.0
    fits = [fit_transition(before, after, weights=np.ones(iterations)) for _ in range(2)]
    assert fits[0].gap <= GAP
    assert fits[0].transition.tolist() == fits[1].transition.tolist()


@pytest.mark.parametrize("experts", [2, 8, 16])
def test_planted_transition_is_recovered_where_iterations_are_enough(experts: int) -> None:
    draws = np.random.default_rng(experts)
    planted = draws.dirichlet(np.full(experts, 0.1), size=experts).T
    before = draws.dirichlet(np.full(experts, 0.5), size=2 * experts)
    fit = fit_transition(before, before @ planted.T, weights=0.8 ** np.arange(2 * experts))
    assert fit.transition == pytest.approx(planted, abs=1e-4)


@settings(max_examples=30)
@given(cases())
def test_loads_that_do_not_change_leave_the_identity(case: tuple[Array, Array, Array]) -> None:
    before, _, weights = case
    fit = fit_transition(before, before, weights=weights)
    assert fit.transition == pytest.approx(np.eye(before.shape[1]), abs=0.01)


def test_of_transitions_that_are_as_good_the_nearest_to_the_identity_is_taken() -> None:
    """Expert 2 never has load; the half that expert 0 loses goes to expert 1. Nothing says that another changes."""
    fit = fit_transition([[1, 1, 0]], [[1, 3, 0]], weights=[1])
    assert fit.transition == pytest.approx(np.array([[0.5, 0, 0], [0.5, 1, 0], [0, 0, 1]]), abs=0.01)


def test_later_weight_decides_between_iterations_that_contradict() -> None:
    for weights, share in (([1, 3], 0.75), ([3, 1], 0.25), ([0, 1], 1.0)):
        fit = fit_transition([[1, 0], [1, 0]], [[1, 0], [0, 1]], weights=weights)
        assert fit.transition[:, 0] == pytest.approx([1 - share, share], abs=1e-3)


@pytest.mark.parametrize(
    ("limit", "iterations", "solver", "why"),
    [
        ("_ITERATIONS", 2, Solver.INTERIOR_POINT, r"transition of 2 experts: the gap is .* and the limit 1e-06"),
        ("_SLSQP_ITERATIONS", 1, Solver.SLSQP, "transition of 2 experts by slsqp: Iteration limit reached"),
    ],
)
def test_fit_that_does_not_get_there_is_an_error(
    monkeypatch: pytest.MonkeyPatch, limit: str, iterations: int, solver: Solver, why: str
) -> None:
    monkeypatch.setattr(module, limit, iterations)
    with pytest.raises(FailedError, match=why):
        fit_transition([[1, 2], [2, 1]], [[1, 0], [2, 1]], weights=[1, 1], solver=solver)


def test_who_has_no_scipy_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[mfabric\]'"):
        fit_transition([[1, 2]], [[1, 0]], weights=[1], solver=Solver.SLSQP)
    assert fit_transition([[1, 2]], [[1, 0]], weights=[1]).gap <= GAP
