"""One metric with its labelled values, which can vanish again: gauges, counters, histograms."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

LABEL_MAX = 200
"""Characters of a label value; more than any name of ours, and little enough that garbage stays small."""


def label(value: str) -> str:
    """A label value that can be rendered, whatever came from outside: lone surrogates are not UTF-8."""
    return value[:LABEL_MAX].encode("utf-8", "replace").decode()


class Series:
    """A gauge, or a counter that may also be set to what a kernel counted. A series that is not there is not known."""

    def __init__(self, name: str, help: str, *labels: str, counter: bool = False) -> None:
        self.name = name
        self.labels = labels
        self._help = help
        self._counter = counter
        self._values: dict[tuple[str, ...], float] = {}

    def set(self, value: float, *labels: str) -> None:
        self._values[tuple(map(label, labels))] = value

    def add(self, by: float, *labels: str) -> None:
        key = tuple(map(label, labels))
        self._values[key] = self._values.get(key, 0.0) + by

    def drop(self, *first_labels: str) -> None:
        """Remove all series whose first labels are these."""
        first = tuple(map(label, first_labels))
        self._values = {key: value for key, value in self._values.items() if key[: len(first)] != first}

    def keep(self, first_labels: frozenset[str]) -> None:
        """Remove all series whose first label is none of these."""
        kept = frozenset(map(label, first_labels))
        self._values = {key: value for key, value in self._values.items() if key[0] in kept}

    def first_labels(self) -> Iterator[str]:
        return iter(dict.fromkeys(key[0] for key in self._values))

    def family(self) -> Metric:
        kind = CounterMetricFamily if self._counter else GaugeMetricFamily
        family = kind(self.name, self._help, labels=self.labels)
        for key, value in self._values.items():
            family.add_metric(key, value)
        return family


class Buckets:
    """A histogram. (prometheus_client's own would add a `_created` series to each.)"""

    def __init__(self, name: str, help: str, *labels: str, bounds: tuple[float, ...]) -> None:
        self.name = name
        self.labels = labels
        self._help = help
        self._bounds = bounds
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, value: float, *labels: str) -> None:
        key = tuple(map(label, labels))
        counts = self._counts.setdefault(key, [0] * (len(self._bounds) + 1))
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[key] = self._sums.get(key, 0.0) + value

    def keep(self, first_labels: frozenset[str]) -> None:
        """Remove all series whose first label is none of these."""
        kept = frozenset(map(label, first_labels))
        self._counts = {key: counts for key, counts in self._counts.items() if key[0] in kept}
        self._sums = {key: total for key, total in self._sums.items() if key[0] in kept}

    def family(self) -> Metric:
        family = HistogramMetricFamily(self.name, self._help, labels=self.labels)
        names = [*map(str, map(float, self._bounds)), "+Inf"]
        for key, counts in self._counts.items():
            buckets = list(zip(names, map(float, accumulate(counts)), strict=True))
            family.add_metric(key, buckets, self._sums[key])
        return family
