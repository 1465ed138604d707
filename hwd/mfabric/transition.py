"""Transition: how the load of a layer follows from that of the previous one (mFabric, appendix B).

P[j][i] is the share of the load of expert i that expert j of the next layer gets: N x N, entries in [0, 1], columns
that sum to 1. It is fitted to pairs of observed shares X, Y, with the least sum of w |Y - P X|^2.

Fewer pairs than experts, and experts without load, leave many P with the same sum. `Solver.INTERIOR_POINT` takes the
one nearest to the identity: loads change no more than what was observed asks for.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwd.mfabric.loads import load_shares
from hwd.model.plural import plural
from hwd_drivers.core.errors import ConfigError, FailedError

GAP = 1e-6
"""How far above the least sum a fit may be, as a share of the sum of w |Y|^2. That one is at least 1/N, never 0, while
the least sum itself is 0 wherever P meets all pairs."""

_NEAREST = 1e-8
"""The largest gap that the pull to the identity adds: well below GAP, and well above rounding."""
_COMPLEMENTARITY = 1e-15
"""Where the interior point stops. Far below _NEAREST, so that the pull decides where the sum does not."""
_ITERATIONS = 100
"""10 to 40 are usual, from 2 to 64 experts."""
_SLSQP_ITERATIONS = 1000
"""About 300 are needed with 8 experts; with 16 these are not enough on synthetic traces."""


class Solver(StrEnum):
    """How P is found."""

    INTERIOR_POINT = "interior-point"
    """Ours: a primal-dual interior point method, by numpy alone, with a certificate."""
    SLSQP = "slsqp"
    """The paper's: by scipy. For up to about 8 experts: an iteration takes time by the sixth power of their number."""


class Fit(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The fitted `transition` P, read-only. `objective`: the sum of w |Y - P X|^2, with weights that sum to 1.

    `gap`: how far `objective` is above the least one at most, as a share of the sum of w |Y|^2.
    """

    transition: NDArray[np.float64]
    objective: float
    gap: float


def fit_transition(
    previous_loads: ArrayLike,
    loads: ArrayLike,
    *,
    weights: ArrayLike,
    solver: Solver = Solver.INTERIOR_POINT,
) -> Fit:
    """The fit to k iterations. `previous_loads`, `loads`: k x N, one row per iteration. `weights`: k numbers.

    Deterministic. Raises ConfigError for bad numbers, and where scipy is needed and not installed. Raises FailedError
    where `Solver.INTERIOR_POINT` cannot certify a gap of at most GAP, and where SLSQP does not converge.
    """
    root = np.sqrt(load_shares(weights, what="weights"))
    before = _columns(previous_loads, len(root), "previous loads")
    after = _columns(loads, len(root), "loads")
    if before.shape != after.shape:
        raise ConfigError(f"previous loads of {plural(before.shape[0], 'expert')}, and loads of {after.shape[0]}")
    before, after = before * root, after * root
    unit = float(np.linalg.norm(after))
    solve = _interior_point if Solver(solver) is Solver.INTERIOR_POINT else _slsqp
    found = np.clip(solve(before / unit, after / unit), 0.0, 1.0)
    found /= found.sum(axis=0)
    found.flags.writeable = False
    objective, gap = _certificate(found, before, after)
    gap /= unit**2
    if solver == Solver.INTERIOR_POINT and not gap <= GAP:
        raise FailedError(
            f"transition of {plural(len(found), 'expert')}: the gap is {gap:.2g} at the end, and the limit {GAP:g}"
        )
    return Fit(transition=found, objective=objective, gap=gap)


def _columns(loads: ArrayLike, iterations: int, what: str) -> NDArray[np.float64]:
    """Shares, N x k, one column per iteration."""
    try:
        rows = [*np.asarray(loads, dtype=np.float64)]
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{what}: not a matrix of numbers: {error}") from error
    if len(rows) != iterations:
        raise ConfigError(f"{what} of {len(rows)} iterations, and weights of {iterations}")
    return np.array([load_shares(row, what=f"{what} of iteration {index}") for index, row in enumerate(rows)]).T


def _certificate(
    transition: NDArray[np.float64], before: NDArray[np.float64], after: NDArray[np.float64]
) -> tuple[float, float]:
    """The objective, and a bound of how far it is above the least one.

    The bound is the Frank-Wolfe gap: what the objective's tangent could still fall by over all P. It is the objective
    itself where that is less, as none is below 0.
    """
    residual = transition @ before - after
    gradient = 2 * residual @ before.T
    gap = float(np.sum(transition * (gradient - gradient.min(axis=0))))
    objective = float(np.sum(residual**2))
    return objective, min(gap, objective)


def _interior_point(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    """The least |after - P before|^2 + pull |P - identity|^2, by Mehrotra's predictor and corrector.

    `multipliers` are those of P >= 0. They start dual feasible, with P uniform, and their products with P sum to the
    duality gap.
    """
    experts = len(before)
    if before.shape[1] > experts:  # as many columns as experts say the same
        q, r = np.linalg.qr(before.T)
        before, after = r.T, after @ q
    pull = _NEAREST / (4 * experts)
    factor = np.sqrt(2) * before
    linear = 2 * after @ before.T + 2 * pull * np.eye(experts)
    found = np.full((experts, experts), 1 / experts)
    gradient = found @ factor @ factor.T + 2 * pull * found - linear
    multipliers = gradient - gradient.min(axis=0)
    multipliers += max(float(multipliers.mean()), _COMPLEMENTARITY)
    for _ in range(_ITERATIONS):
        gap = float(np.sum(found * multipliers))
        if not gap > _COMPLEMENTARITY:
            break
        direction = _newton(found, multipliers, factor, pull)
        step, dual_step = direction(found * multipliers)
        length = min(_longest(found, step), _longest(multipliers, dual_step))
        left = float(np.sum((found + length * step) * (multipliers + length * dual_step)))
        centre = (left / gap) ** 3 * gap / experts**2
        step, dual_step = direction(found * multipliers - centre + step * dual_step)
        length = 0.99 * min(_longest(found, step), _longest(multipliers, dual_step))
        found = found + length * step
        multipliers = multipliers + length * dual_step
    return found


def _newton(
    found: NDArray[np.float64], multipliers: NDArray[np.float64], factor: NDArray[np.float64], pull: float
) -> Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The direction of P and its multipliers that takes away a residual of their products.

    Each row of P has a Hessian of its own: a diagonal plus factor factor^T, with few columns (Woodbury). Only the sums
    of columns join the rows: one system of N equations.
    """
    experts, rank = factor.shape
    diagonal = 1 / (multipliers / found + 2 * pull)
    scaled = factor.T * diagonal[:, None, :]  # rows x rank x experts
    root = np.linalg.solve(np.linalg.cholesky(np.eye(rank) + scaled @ factor), scaled)
    flat = root.reshape(experts * rank, experts)
    sums = np.diag(diagonal.sum(axis=0)) - flat.T @ flat
    missing = 1 - found.sum(axis=0)

    def inverse(right: NDArray[np.float64]) -> NDArray[np.float64]:
        inner = root @ right[:, :, None]
        applied: NDArray[np.float64] = diagonal * right - (inner.transpose(0, 2, 1) @ root)[:, 0, :]
        return applied

    def direction(residual: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        free = inverse(-residual / found)
        shift = np.linalg.solve(sums, missing - free.sum(axis=0))
        step = free + inverse(np.broadcast_to(shift, found.shape))
        return step, (-residual - multipliers * step) / found

    return direction


def _longest(values: NDArray[np.float64], step: NDArray[np.float64]) -> float:
    """How much of a step keeps all values at 0 or above, 1 at most."""
    return 1 / max(1.0, float((-step / values).max()))


def _slsqp(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    """The paper's way, from the identity on. Where several P are as good, which one it finds is not defined."""
    optimize = _optimize()
    experts = len(before)
    sums = np.tile(np.eye(experts), experts)

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        residual = flat.reshape(experts, experts) @ before - after
        return float(np.sum(residual**2)), (2 * residual @ before.T).ravel()

    found = optimize.minimize(
        objective,
        np.eye(experts).ravel(),
        jac=True,
        method="SLSQP",
        bounds=optimize.Bounds(0, 1),
        constraints={"type": "eq", "fun": lambda flat: sums @ flat - 1, "jac": lambda flat: sums},
        options={"ftol": 1e-12, "maxiter": _SLSQP_ITERATIONS},
    )
    if not found.success:
        raise FailedError(f"transition of {plural(experts, 'expert')} by slsqp: {found.message}. Use interior-point")
    transition: NDArray[np.float64] = found.x.reshape(experts, experts)
    return transition


def _optimize() -> Any:
    """scipy.optimize. Raises ConfigError where it is not installed."""
    try:
        from scipy import optimize
    except ImportError as error:
        raise ConfigError(
            "the solver slsqp needs scipy. Install it with: pip install '.[mfabric]' in the folder of hwd, or use "
            "interior-point"
        ) from error
    return optimize
