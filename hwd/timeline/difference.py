"""Comparison of two samples of one stage: the difference of their medians and Cliff's delta, each with an interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from hwd.timeline.resampling import (
    CLUSTERS_NEEDED,
    RESAMPLES,
    Floats,
    by_content,
    draw,
    generator,
    in_parts,
    percentiles,
    weighted_medians,
)
from hwd.timeline.statistics import Sample

RECONFIGURATIONS_NEEDED = CLUSTERS_NEEDED
"""On each side."""
NEGLIGIBLE = 0.147
"""Limit of Cliff's delta."""


class Size(StrEnum):
    """Cliff's delta in words, after Romano, Kromrey, Coraggio and Skowronek (2006)."""

    NEGLIGIBLE = "negligible"
    """Below 0.147."""
    SMALL = "small"
    """Below 0.33."""
    MEDIUM = "medium"
    """Below 0.474."""
    LARGE = "large"
    """From 0.474 on."""

    @classmethod
    def of(cls, delta: float) -> "Size":
        size = abs(delta)
        if size < NEGLIGIBLE:
            return cls.NEGLIGIBLE
        if size < 0.33:
            return cls.SMALL
        return cls.MEDIUM if size < 0.474 else cls.LARGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """The values of one side: most likely, shortest and longest possible, and the number of the reconfiguration of
    each, from 0 on; in the order of `by_content`.
    """

    best_s: Floats
    least_s: Floats
    most_s: Floats
    reconfiguration: NDArray[np.int64]

    @classmethod
    def of(cls, taken: Sequence[Sample]) -> Self:
        seen = [sample for sample in taken if sample.stage.seconds is not None]
        best_s = [sample.stage.seconds or 0.0 for sample in seen]
        within_s = [sample.within_s or (value, value) for sample, value in zip(seen, best_s, strict=True)]
        reconfiguration, (best, least, most) = by_content(
            [sample.reconfiguration for sample in seen],
            np.array(best_s, dtype=float),
            np.array([least_s for least_s, _ in within_s], dtype=float),
            np.array([most_s for _, most_s in within_s], dtype=float),
        )
        return cls(best_s=best, least_s=least, most_s=most, reconfiguration=reconfiguration)

    @property
    def reconfigurations(self) -> int:
        return len(np.unique(self.reconfiguration))

    @property
    def place(self) -> tuple[list[float], ...]:
        """Which of two sides is drawn first: the same one, whichever is compared with the other."""
        columns = (self.best_s, self.least_s, self.most_s, self.reconfiguration)
        return tuple(column.tolist() for column in columns)

    @property
    def error_s(self) -> float:
        """The median of the values' own bounds."""
        return float(np.median(np.maximum(self.best_s - self.least_s, self.most_s - self.best_s)))


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The second side minus the first.

    `error_s`: of each side the median of its values' own bounds. `shift_s`: difference of the medians. `delta`:
    Cliff's, the probability that a value of the second side is larger than one of the first minus that of the opposite,
    from -1 to 1. Their 95 % intervals are a bootstrap over whole reconfigurations, since links of one are not
    independent; for either limit each value is at that of its own bounds that lies furthest out. None where a side has
    fewer than `RECONFIGURATIONS_NEEDED`. `relative`: the shift as a share of the first median; None where that is zero.
    `excludes_zero`: whether the interval of the shift excludes 0.
    """

    n: tuple[int, int]
    reconfigurations: tuple[int, int]
    median_s: tuple[float, float]
    error_s: tuple[float, float]
    shift_s: float
    shift_within_s: tuple[float, float] | None
    relative: float | None
    delta: float
    delta_within: tuple[float, float] | None
    size: Size
    excludes_zero: bool | None


def difference(first: Sequence[Sample], second: Sequence[Sample], *, resamples: int = RESAMPLES) -> Difference | None:
    """The difference of the samples that have a value; None where a side has none. The same values give the same
    intervals, and their mirror the other way round.
    """
    a, b = Values.of(first), Values.of(second)
    if not (len(a.best_s) and len(b.best_s)):
        return None
    shift_within_s = delta_within = None
    if min(a.reconfigurations, b.reconfigurations) >= RECONFIGURATIONS_NEEDED:
        shift_within_s, delta_within = _intervals(a, b, resamples)
    medians_s = float(np.median(a.best_s)), float(np.median(b.best_s))
    shift_s = medians_s[1] - medians_s[0]
    delta = cliffs_delta(a.best_s, b.best_s)
    return Difference(
        n=(len(a.best_s), len(b.best_s)),
        reconfigurations=(a.reconfigurations, b.reconfigurations),
        median_s=medians_s,
        error_s=(a.error_s, b.error_s),
        shift_s=shift_s,
        shift_within_s=shift_within_s,
        relative=shift_s / medians_s[0] if medians_s[0] else None,
        delta=delta,
        delta_within=delta_within,
        size=Size.of(delta),
        excludes_zero=None if shift_within_s is None else not shift_within_s[0] <= 0 <= shift_within_s[1],
    )


def cliffs_delta(first: Floats, second: Floats) -> float:
    """How much more often a value of the second is larger than one of the first than smaller, from -1 to 1."""
    return float(_deltas(first, second, np.ones((1, len(first))), np.ones((1, len(second))))[0])


def _intervals(a: Values, b: Values, resamples: int) -> tuple[tuple[float, float], tuple[float, float]]:
    draws, is_first = generator(), a.place <= b.place
    shifts: tuple[list[Floats], list[Floats]] = ([], [])
    deltas: tuple[list[Floats], list[Floats]] = ([], [])
    for rows in in_parts(resamples, of=max(len(a.best_s), len(b.best_s))):
        drawn = [draw(side.reconfiguration, draws, rows) for side in ((a, b) if is_first else (b, a))]
        weights_a, weights_b = drawn if is_first else reversed(drawn)
        for edge, (values_a, values_b) in enumerate(((a.most_s, b.least_s), (a.least_s, b.most_s))):
            shifts[edge].append(weighted_medians(values_b, weights_b) - weighted_medians(values_a, weights_a))
            deltas[edge].append(_deltas(values_a, values_b, weights_a, weights_b))
    fewer = min(a.reconfigurations, b.reconfigurations)
    shift_low, shift_high = (
        percentiles(np.concatenate(found), clusters=fewer)[edge] for edge, found in enumerate(shifts)
    )
    delta_low, delta_high = (
        percentiles(np.concatenate(found), clusters=fewer)[edge] for edge, found in enumerate(deltas)
    )
    return (shift_low, shift_high), (delta_low, delta_high)


def _deltas(values_a: Floats, values_b: Floats, weights_a: Floats, weights_b: Floats) -> Floats:
    order = np.argsort(values_a, kind="stable")
    ascending = values_a[order]
    upto = np.concatenate([np.zeros((len(weights_a), 1)), np.cumsum(weights_a[:, order], axis=1)], axis=1)
    smaller = upto[:, np.searchsorted(ascending, values_b, side="left")]
    larger = upto[:, -1:] - upto[:, np.searchsorted(ascending, values_b, side="right")]
    found: Floats = ((smaller - larger) * weights_b).sum(axis=1) / (upto[:, -1] * weights_b.sum(axis=1))
    return found
