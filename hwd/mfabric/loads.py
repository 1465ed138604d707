"""Loads: how much the experts of a layer get, and what a prediction of it is compared with and used for.

Loads are a vector, one number per expert: tokens or bytes, finite, at least 0, and not all 0. Shares sum to 1.
"""

from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwd.mfabric.demand import checked
from hwd.model.plural import plural
from hwd_drivers.core.errors import ConfigError


class Sources(StrEnum):
    """Which experts have the tokens that the next layer gets. A predicted load says only where they go."""

    UNIFORM = "uniform"
    """Every expert has the same share."""
    LAST = "last"
    """Every expert has its share of the last observed demand: its row."""


def checked_loads(loads: ArrayLike, experts: int | None = None, what: str = "loads") -> NDArray[np.float64]:
    """Loads as floats. `experts`: how many there have to be; None for any number.

    Raises ConfigError, which names the entry.
    """
    try:
        found = np.asarray(loads, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{what}: not a vector of numbers: {error}") from error
    if found.ndim != 1:
        raise ConfigError(f"{what}: has {plural(found.ndim, 'dimension')}, and has to be a vector")
    if experts is not None and len(found) != experts:
        raise ConfigError(f"{what}: has {plural(len(found), 'entry', many='entries')}, and has to have {experts}")
    wrong = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if len(wrong):
        raise ConfigError(f"{what}: [{wrong[0]}] is {found[wrong[0]]:g}, and has to be finite and at least 0")
    if not found.any():
        raise ConfigError(f"{what}: no entry is above 0, so there are no shares of it")
    return found


def load_shares(loads: ArrayLike, experts: int | None = None, what: str = "loads") -> NDArray[np.float64]:
    """Loads divided by their sum. Raises ConfigError as `checked_loads` does."""
    found = checked_loads(loads, experts, what)
    found = found / found.max()  # first, as the sum of large loads may overflow
    shares: NDArray[np.float64] = found / found.sum()
    return shares


def uniform_loads(experts: int) -> NDArray[np.float64]:
    """The baseline that expects the same load at each expert, as shares (mFabric, appendix B)."""
    return load_shares(np.ones(max(experts, 0)), what="experts")


def unchanged_loads(previous_loads: ArrayLike) -> NDArray[np.float64]:
    """The baseline that expects the loads of the previous layer, as shares (mFabric, appendix B)."""
    return load_shares(previous_loads, what="previous loads")


def top_k_accuracy(predicted: ArrayLike, actual: ArrayLike, k: int) -> float:
    """The share of the k experts with the most load that are among the k with the most predicted load.

    Of experts with the same load the one with the smaller number is first: a uniform prediction names the first k.
    Raises ConfigError where k is not from 1 to the number of experts.
    """
    found = checked_loads(actual, what="actual loads")
    expected = checked_loads(predicted, len(found), "predicted loads")
    if not 1 <= k <= len(found):
        raise ConfigError(f"k: is {k}, and has to be from 1 to the {plural(len(found), 'expert')}")
    return len({*_top(expected, k)} & {*_top(found, k)}) / k


def expert_demand(
    loads: ArrayLike, total_bytes: float, *, sources: Sources = Sources.UNIFORM, last: ArrayLike | None = None
) -> NDArray[np.float64]:
    """The demand of a predicted load in bytes, experts x experts, as `server_demand` takes it.

    Row: who sends, column: who receives. Each source spreads its bytes over experts by their loads. `last`: the last
    observed demand, experts x experts, for `Sources.LAST`. Raises ConfigError.
    """
    shares, sources = load_shares(loads), Sources(sources)
    if not 0 <= total_bytes < np.inf:
        raise ConfigError(f"total_bytes: is {total_bytes:g}, and has to be finite and at least 0")
    if sources is Sources.UNIFORM:
        by_source = uniform_loads(len(shares))
    elif last is None:
        raise ConfigError("sources: last needs the last observed demand, and there is none. Use uniform until then")
    else:
        by_source = load_shares(checked(last, "last demand").sum(axis=1), len(shares), "last demand, by source")
    return np.outer(by_source * total_bytes, shares)


def _top(loads: NDArray[np.float64], k: int) -> list[int]:
    found: list[int] = np.argsort(-loads, kind="stable")[:k].tolist()
    return found
