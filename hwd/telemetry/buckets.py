"""A histogram with its labelled values, and the reconfiguration behind the last observation of each bucket."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from hwd.telemetry.label import clean, labelled

BOUNDS_S = (
    *(100e-6, 1e-3, 5e-3, 10e-3, 25e-3, 50e-3, 75e-3),
    *(0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 15.0, 30.0, 60.0),
)
"""Of every histogram, so that they can be laid beside each other. The kernel's carrier (70 us after the firmware) is in the first, an exchange with a twin in
the second, mFabric's switch (41 ms) and Opus' (200 ms) in the midst, firmware by the second, a robotic panel beyond the last."""
SERIES = len(BOUNDS_S) + 3
"""Of one histogram: its buckets, the one for all, sum and count."""
SLICE = 40
"""Histograms put into words at once: some 300 us."""

_PLAIN = re.compile(r"[\w.-]{1,40}", re.ASCII)
"""All labels of an exemplar may have 128 characters, says OpenMetrics; and parsers stumble over quotes in them."""
Exemplar = str
"""` # {labels} value seconds`, or nothing."""


@dataclass(slots=True)
class _Cell:
    """One histogram: counts by bucket, the last one for what is over all bounds."""

    before: tuple[str, ...]
    """What stands before each value: the buckets, count, sum."""
    counts: list[int]
    exemplars: list[Exemplar]
    sum: float = 0.0


class Buckets:
    """Durations in seconds, by labels. At most `limit` series, so `limit // SERIES` histograms; more are refused and counted."""

    type = "histogram"

    def __init__(self, name: str, help: str, *labels: str, limit: int) -> None:
        self.labels = labels
        self.limit = limit
        self.refused = 0
        self.name = self.family = name
        self.help = help
        self._cells: dict[tuple[str, ...], _Cell] = {}

    def observe(self, seconds: float, *labels: str, by: Mapping[str, str] | None = None, wall_s: float = 0.0) -> None:
        """`by`: labels of an exemplar, seen at `wall_s` (unix time): names of our own making, others are left out."""
        key = tuple(map(clean, labels))
        cell = self._cells.get(key)
        if cell is None:
            if (len(self._cells) + 1) * SERIES > self.limit:
                self.refused += 1
                return
            cell = self._cells[key] = self._new(key)
        bucket = bisect_left(BOUNDS_S, seconds)
        cell.counts[bucket] += 1
        cell.sum += seconds
        if inner := ",".join(f'{name}="{value}"' for name, value in (by or {}).items() if _PLAIN.fullmatch(value)):
            cell.exemplars[bucket] = f" # {{{inner}}} {seconds!r} {wall_s:.3f}"

    def count(self, *labels: str) -> int:
        cell = self._cells.get(tuple(map(clean, labels)))
        return 0 if cell is None else sum(cell.counts)

    def __len__(self) -> int:
        return len(self._cells) * SERIES

    def freeze(self, *, exemplars: bool) -> Iterator[str]:
        """Text of what is there now, in slices; what is observed from now on is not in them."""
        none = ("",) * (len(BOUNDS_S) + 1)
        frozen = [
            (cell.before, tuple(cell.counts), tuple(cell.exemplars) if exemplars else none, cell.sum)
            for cell in self._cells.values()
        ]
        return ("".join(_text(*one) for one in frozen[start : start + SLICE]) for start in range(0, len(frozen), SLICE))

    def _new(self, key: tuple[str, ...]) -> _Cell:
        names, bounds = (*self.labels, "le"), [*map(repr, BOUNDS_S), "+Inf"]
        buckets = (labelled(f"{self.name}_bucket", names, (*key, bound)) for bound in bounds)
        ends = (labelled(f"{self.name}_{end}", self.labels, key) for end in ("count", "sum"))
        before = tuple(f"{text} " for text in (*buckets, *ends))
        return _Cell(before, [0] * len(bounds), [""] * len(bounds))


def _text(before: Sequence[str], counts: Sequence[int], exemplars: Sequence[Exemplar], total: float) -> str:
    reached = list(accumulate(counts))
    lines = [
        f"{start}{count}.0{exemplar}\n" for start, count, exemplar in zip(before, reached, exemplars, strict=False)
    ]
    lines += [f"{before[-2]}{reached[-1]}.0\n", f"{before[-1]}{total!r}\n"]
    return "".join(lines)
