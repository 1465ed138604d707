"""Bootstrap over clusters: values that were measured together are drawn together.

A cluster is a whole reconfiguration: its links were commanded at the same time under the same load, so they are not
independent.

What is drawn depends on the values alone: the same values give the same interval on every page, in every process, in
whatever order they come. So clusters are numbered by their values, and each interval is drawn from `SEED`.
"""

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_DRAWN_AT_ONCE = 1 << 20
"""Values drawn in one step: limits the memory to some 10 MB."""
_WINDOW_USUAL = 8192
"""Values around the middle that the medians of resamples hardly ever leave."""
SEED = 20270110
RESAMPLES = 2000
CONFIDENCE = 0.95
CLUSTERS_NEEDED = 6
"""For any interval. With fewer independent values even their whole range does not contain the median with 95 % (1 - 2 /
2^5 = 94 %).
"""
CLUSTERS_NEEDED_BY_MEAN = 20
"""A few large values move a mean, and a small sample has none of them: with six exponential values the interval would
hold in 88 %, not in 95 %.
"""


def numbered(names: Iterable[Hashable]) -> tuple[int, ...]:
    """Number each name, from 0 on in the order of first occurrence."""
    numbers: dict[Hashable, int] = {}
    return tuple(numbers.setdefault(name, len(numbers)) for name in names)


def by_content(clusters: Iterable[Hashable], *columns: Floats) -> tuple[NDArray[np.int64], tuple[Floats, ...]]:
    """Rows of values in an order of their own: the number of the cluster of each, from 0 on, and the columns.

    Clusters are ordered by their rows, and so are the rows of each: what was measured decides, not when or under which
    name.
    """
    number, rows = np.asarray(numbered(clusters), dtype=np.int64), np.column_stack(columns)
    order = np.lexsort((*rows.T[::-1], number))
    starts = np.flatnonzero(np.diff(number[order], prepend=-1))
    parts = [part for part in np.split(rows[order], starts[1:]) if len(part)]
    parts.sort(key=lambda part: (len(part), part.tolist()))
    sizes = [len(part) for part in parts]
    ordered = np.concatenate(parts) if parts else rows
    return np.repeat(np.arange(len(parts)), sizes), tuple(ordered.T)


def generator() -> np.random.Generator:
    """The draws of one interval."""
    return np.random.default_rng(SEED)


def median_interval(
    values: Floats, clusters: Sequence[Hashable], *, resamples: int = RESAMPLES
) -> tuple[float, float] | None:
    """Bootstrap of the median, 95 %. `clusters`: for each value that which it belongs to. None below
    `CLUSTERS_NEEDED`.
    """
    if (count := len(set(clusters))) < CLUSTERS_NEEDED:
        return None
    number, (values,) = by_content(clusters, values)
    order, draws = np.argsort(values, kind="stable"), generator()
    ascending, number = values[order], number[order]
    parts = in_parts(resamples, of=count + min(len(values), _WINDOW_USUAL))
    medians = [_medians(ascending, number, _drawn(count, draws, rows)) for rows in parts]
    return percentiles(np.concatenate(medians), clusters=count)


def _medians(ascending: Floats, number: NDArray[np.int64], drawn: Floats) -> Floats:
    """The median of each resample. `number`: the cluster of each value; `drawn`: how often each resample has it.

    Medians of resamples lie close together: only values around the middle are counted one by one.
    """
    count, n = drawn.shape[1], len(ascending)
    half = drawn @ np.bincount(number, minlength=count)[:, None] / 2
    reach = 64
    while True:
        window = slice(max(0, n // 2 - reach), n // 2 + reach)
        below = drawn @ np.bincount(number[: window.start], minlength=count)[:, None]
        upto = below + np.cumsum(drawn[:, number[window]], axis=1)
        if reach >= n or ((below < half) & (upto[:, -1:] > half)).all():
            low, high = np.argmax(upto >= half, axis=1), np.argmax(upto > half, axis=1)
            found: Floats = (ascending[window][low] + ascending[window][high]) / 2
            return found
        reach *= 4


def mean_interval(
    values: Floats, clusters: Sequence[Hashable], *, resamples: int = RESAMPLES
) -> tuple[float, float] | None:
    """The interval of the mean of all values. None below `CLUSTERS_NEEDED_BY_MEAN`."""
    if (count := len(set(clusters))) < CLUSTERS_NEEDED_BY_MEAN:
        return None
    number, (values,) = by_content(clusters, values)
    sums, sizes, draws = np.bincount(number, values), np.bincount(number), generator()
    drawn = [_drawn(count, draws, rows) for rows in in_parts(resamples, of=count)]
    return percentiles(np.concatenate([one @ sums / (one @ sizes) for one in drawn]), clusters=count)


def percentiles(found: Floats, *, clusters: int) -> tuple[float, float]:
    """The central part of the drawn values that holds 95 % for so few clusters.

    The plain percentiles of a bootstrap are too narrow for few: by the spread of a sample against that of its
    population, sqrt(n / (n - 1)), and by Student's t against the normal distribution. These are Hesterberg's expanded
    ones (The American Statistician 69, 2015, section 5.3).
    """
    tail = 100 * NormalDist().cdf(-math.sqrt(clusters / (clusters - 1)) * _student(clusters - 1))
    low, high = np.percentile(found, [tail, 100 - tail])
    return float(low), float(high)


def _student(freedom: int) -> float:
    """The quantile of Student's t that excludes half of what is not `CONFIDENCE`, within 0.2 % from five degrees of
    freedom on.

    The expansion of Abramowitz and Stegun, 26.7.5.
    """
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def in_parts(resamples: int, *, of: int) -> Iterator[int]:
    """How many resamples of so many values to draw at a time."""
    at_once = max(1, _DRAWN_AT_ONCE // of)
    for start in range(0, resamples, at_once):
        yield min(at_once, resamples - start)


def draw(number: NDArray[np.int64], draws: np.random.Generator, rows: int) -> Floats:
    """How often each value is in each resample: a row for each. `number`: the cluster of each value, from 0 on."""
    return _drawn(int(number.max()) + 1, draws, rows)[:, number]


def _drawn(count: int, draws: np.random.Generator, rows: int) -> Floats:
    return draws.multinomial(count, np.full(count, 1 / count), size=rows).astype(np.float64)


def weighted_medians(values: Floats, weights: Floats) -> Floats:
    """The weighted median of the values for each row of `weights`; between two, their middle."""
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    upto = np.cumsum(weights[:, order], axis=1)
    half = upto[:, -1:] / 2
    low = np.argmax(upto >= half, axis=1)
    high = np.argmax(upto > half, axis=1)
    middles: Floats = (ascending[low] + ascending[high]) / 2
    return middles
