"""A histogram with its labelled values, and the reconfiguration behind the last observation of each bucket."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final

from prometheus_client.core import Exemplar, HistogramMetricFamily
from prometheus_client.registry import Collector

from hwd.telemetry.series import PART_SERIES, Labels, clean

BOUNDS_S = (
    *(100e-6, 1e-3, 5e-3, 10e-3, 25e-3, 50e-3, 75e-3),
    *(0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 15.0, 30.0, 60.0),
)
"""The bounds of every histogram, the same for all, so that histograms can be compared. The kernel's carrier (70 us
after the firmware) is in the first bucket, an exchange with a twin in the second, mFabric's switch (41 ms) and Opus'
(200 ms) in the middle. Firmware has a bucket a second, and a robotic panel is beyond the last.
"""
SERIES = len(BOUNDS_S) + 3
"""The series of one histogram: its buckets, the one of all observations, sum and count."""

_BOUNDS: Final = (*map(repr, BOUNDS_S), "+Inf")
_PLAIN = re.compile(r"[\w.-]{1,40}", re.ASCII)
"""All labels of an exemplar have at most 128 characters together (OpenMetrics 1.0), and some parsers fail at quotes."""


@dataclass(slots=True)
class _Cell:
    """One histogram: counts by bucket, the last one for what is over all bounds."""

    counts: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))
    exemplars: list[Exemplar | None] = field(default_factory=lambda: [None] * len(_BOUNDS))
    sum: float = 0.0


class Buckets(Collector):
    """Durations in seconds, by labels. At most `limit` series, so `limit // SERIES` histograms; `refused` counts
    observations of more."""

    type = "histogram"

    def __init__(self, name: str, help: str, *labels: str, limit: int) -> None:
        self.name = name
        self.help = help
        self.labels = labels
        self.limit = limit
        self.refused = 0
        self._cells: dict[Labels, _Cell] = {}

    def drop(self, first_label: str) -> None:
        """Remove the histograms whose first label is this."""
        first = clean(first_label)
        self._cells = {key: cell for key, cell in self._cells.items() if key[:1] != (first,)}

    def begin(self, *labels: str) -> None:
        """Let a histogram be there before its first observation, so that this one is an increase."""
        self._cells.setdefault(tuple(map(clean, labels)), _Cell())

    def observe(self, seconds: float, *labels: str, by: Mapping[str, str] | None = None, wall_s: float = 0.0) -> None:
        """`by`: labels of an exemplar at `wall_s` (unix time). A value that is no name of our own is left out."""
        key = tuple(map(clean, labels))
        cell = self._cells.get(key)
        if cell is None:
            if (len(self._cells) + 1) * SERIES > self.limit:
                self.refused += 1
                return
            cell = self._cells[key] = _Cell()
        bucket = bisect_left(BOUNDS_S, seconds)
        cell.counts[bucket] += 1
        cell.sum += seconds
        if plain := {name: value for name, value in (by or {}).items() if _PLAIN.fullmatch(value)}:
            cell.exemplars[bucket] = Exemplar(plain, seconds, round(wall_s, 3))

    def count(self, *labels: str) -> int:
        cell = self._cells.get(tuple(map(clean, labels)))
        return 0 if cell is None else sum(cell.counts)

    def __len__(self) -> int:
        return len(self._cells) * SERIES

    def describe(self) -> Iterator[HistogramMetricFamily]:
        """The family without its series."""
        yield self._part(())

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The histograms of the moment of this call, in families of at most PART_SERIES series, made one by one."""
        cells = [
            (key, replace(cell, counts=cell.counts.copy(), exemplars=cell.exemplars.copy()))
            for key, cell in self._cells.items()
        ]
        size = PART_SERIES // SERIES
        return (self._part(cells[start : start + size]) for start in range(0, len(cells), size))

    def _part(self, cells: Sequence[tuple[Labels, _Cell]]) -> HistogramMetricFamily:
        family = HistogramMetricFamily(self.name, self.help, labels=self.labels)
        for key, cell in cells:
            family.add_metric(key, _buckets(cell), cell.sum)
        return family


def _buckets(cell: _Cell) -> list[tuple[str, float] | tuple[str, float, Exemplar]]:
    """The buckets as HistogramMetricFamily takes them: each counts what is at most its bound."""
    rows = zip(_BOUNDS, accumulate(cell.counts), cell.exemplars, strict=True)
    return [(bound, count) if exemplar is None else (bound, count, exemplar) for bound, count, exemplar in rows]
