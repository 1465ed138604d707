"""A gauge or a counter with its labelled values, which can vanish again: a collector of prometheus_client."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

PART_SERIES: Final = 500
"""The most series of one part of a family: prometheus_client makes and renders them in 2 ms as text, in 3 ms as
OpenMetrics.
"""

VALUE_MAX: Final = 200
"""Characters of a label value: more than any name of ours has, and few enough that garbage stays small."""

Labels = tuple[str, ...]


def clean(value: str) -> str:
    """A label value that an exposition can carry, whatever came from outside: cut to VALUE_MAX characters that UTF-8
    can encode; lone surrogates become `?`.
    """
    if len(value) > VALUE_MAX:
        value = value[:VALUE_MAX]
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


class Series(Collector):
    """A gauge, or a counter that may also be set to what a kernel counted. A series that is absent is not known.

    There are at most `limit` series. A value for one more is refused, and `refused` counts it. So a scrape stays as
    large as the testbed allows, whatever hosts and switches report. What is named `..._total` is a counter.

    `values`: the closed set of its one label, each 0 at the start: a first increase would else be none to Prometheus.
    `limit`: by default as many as these, or one.
    """

    def __init__(
        self, name: str, help: str, *labels: str, limit: int | None = None, values: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.help = help
        self.type = "counter" if name.endswith("_total") else "gauge"
        self.labels = labels
        self.limit = limit or len(values) or 1
        self.refused = 0
        self._family: type[CounterMetricFamily | GaugeMetricFamily]
        self._family = CounterMetricFamily if self.type == "counter" else GaugeMetricFamily
        self._values: dict[Labels, float] = {}
        """Their labels are clean."""
        self._by_first_label: dict[str, dict[Labels, None]] = {}
        for value in values:
            self.add(0, value)

    def set(self, value: float, *labels: str) -> None:
        if labels in self._values:
            self._values[labels] = float(value)
        else:
            self._put(tuple(map(clean, labels)), float(value))

    def add(self, by: float, *labels: str) -> None:
        """Adding 0 lets a counter begin: its first count is then an increase."""
        if labels in self._values:
            self._values[labels] += by
        else:
            key = tuple(map(clean, labels))
            self._put(key, self._values.get(key, 0.0) + by)

    def replace(self, values: Mapping[str, float], *first_labels: str) -> None:
        """Make these, by their last label, all the series with these first labels; drop the others."""
        first = tuple(map(clean, first_labels))
        keys = {(*first, clean(last)): value for last, value in values.items()}
        group = self._by_first_label.get(first[0], {})
        for key in [key for key in group if key[:-1] == first and key not in keys]:
            self.drop(*key)
        for key, value in keys.items():
            self._put(key, float(value))

    def value(self, *labels: str) -> float | None:
        return self._values.get(tuple(map(clean, labels)))

    def drop(self, *first_labels: str) -> None:
        """Remove all series whose first labels are these; all series where no label is passed."""
        first = tuple(map(clean, first_labels))
        if not first:
            self._values, self._by_first_label = {}, {}
            return
        group = self._by_first_label.get(first[0], {})
        for key in [first] if len(first) == len(self.labels) else [key for key in group if key[: len(first)] == first]:
            if key in group:
                del group[key], self._values[key]
        if not group:
            self._by_first_label.pop(first[0], None)

    def __len__(self) -> int:
        return len(self._values)

    def describe(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """The family without its series."""
        yield self._part((), ())

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """The series of the moment of this call, in families of at most PART_SERIES series, made one by one."""
        keys, values = tuple(self._values), tuple(self._values.values())
        parts = (slice(start, start + PART_SERIES) for start in range(0, len(keys), PART_SERIES))
        return (self._part(keys[part], values[part]) for part in parts)

    def _part(self, keys: Sequence[Labels], values: Sequence[float]) -> CounterMetricFamily | GaugeMetricFamily:
        family = self._family(self.name, self.help, labels=self.labels)
        for key, value in zip(keys, values, strict=True):
            family.add_metric(key, value)
        return family

    def _put(self, key: Labels, value: float) -> None:
        if key not in self._values:
            if len(self._values) >= self.limit:
                self.refused += 1
                return
            self._by_first_label.setdefault(key[0] if key else "", {})[key] = None
        self._values[key] = value
