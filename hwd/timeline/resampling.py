"""Bootstrap over clusters: what was measured together is drawn together. Seeded, so that one record gives one interval."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_DRAWN_AT_ONCE = 1 << 20
"""Values drawn in one step: bounds the memory to some 10 MB."""
CONFIDENCE = 0.95


def median_interval(
    values: Floats, clusters: Sequence[int], generator: np.random.Generator, resamples: int
) -> tuple[float, float]:
    """Percentile bootstrap of the median, 95 %. `clusters`: for each value the number of its cluster, from 0 on."""
    medians = [
        weighted_medians(values, draw(clusters, generator, rows)) for rows in in_parts(resamples, of=len(values))
    ]
    return percentiles(np.concatenate(medians))


def percentiles(found: Floats) -> tuple[float, float]:
    """The middle 95 %."""
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(found, [tail, 100 - tail])
    return float(low), float(high)


def in_parts(resamples: int, *, of: int) -> Iterator[int]:
    """How many resamples of so many values to draw at a time."""
    at_once = max(1, _DRAWN_AT_ONCE // of)
    for start in range(0, resamples, at_once):
        yield min(at_once, resamples - start)


def draw(clusters: Sequence[int], generator: np.random.Generator, rows: int) -> Floats:
    """How often each value is in each resample: a row for each."""
    number = np.asarray(clusters)
    count = int(number.max()) + 1
    drawn: Floats = generator.multinomial(count, np.full(count, 1 / count), size=rows)[:, number].astype(np.float64)
    return drawn


def weighted_medians(values: Floats, weights: Floats) -> Floats:
    """For each row of `weights`: the median of the values, each as often as its weight says; between two, their middle."""
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    upto = np.cumsum(weights[:, order], axis=1)
    half = upto[:, -1:] / 2
    low = np.argmax(upto >= half, axis=1)
    high = np.argmax(upto > half, axis=1)
    middles: Floats = (ascending[low] + ascending[high]) / 2
    return middles


def mean_interval(values: Floats, generator: np.random.Generator, resamples: int) -> tuple[float, float]:
    """Percentile bootstrap of the mean of values that are independent, 95 %."""
    own = range(len(values))
    means = [draw(own, generator, rows) @ values / len(values) for rows in in_parts(resamples, of=len(values))]
    return percentiles(np.concatenate(means))
