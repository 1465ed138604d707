"""A gauge or a counter with its labelled values, which can vanish again; each is kept as a line that is ready to be sent."""

from collections.abc import Iterator, Mapping
from itertools import chain

from hwd.telemetry.label import clean, labelled

SLICE_LINES = 1000
"""Joined at once: some 50 us."""


class Series:
    """A gauge, or a counter that may also be set to what a kernel counted. A series that is not there is not known.

    More than `limit` of them are refused, and `refused` counts the values that were: whatever hosts and switches say, a scrape stays as large as the testbed
    allows. Series with the same first label are kept together, so that those of one host or switch go at once.
    """

    def __init__(self, name: str, help: str, *labels: str, limit: int, counter: bool = False) -> None:
        self.labels = labels
        self.limit = limit
        self.refused = 0
        self.family = name.removesuffix("_total") if counter else name
        self.name = name
        self.type = "counter" if counter else "gauge"
        self.help = help
        self._values: dict[tuple[str, ...], float] = {}
        self._before: dict[tuple[str, ...], str] = {}
        self._lines: dict[str, dict[tuple[str, ...], str]] = {}
        self._beneath: dict[tuple[str, ...], int] = {}

    def set(self, value: float, *labels: str) -> None:
        self._put(self._key(labels), float(value))

    def add(self, by: float, *labels: str) -> None:
        """Adding 0 lets a counter begin: what is counted later is then seen as an increase."""
        key = self._key(labels)
        self._put(key, self._values.get(key, 0.0) + by)

    def replace(self, values: Mapping[str, float], *first_labels: str) -> None:
        """These are all the series with these first labels, by their last one: the others go, and those that stay are not made anew."""
        keys = {self._key((*first_labels, last)): value for last, value in values.items()}
        first = next(iter(keys))[:-1] if keys else tuple(map(clean, first_labels))
        if sum(key in self._values for key in keys) != self._beneath.get(first, 0):
            for gone in [key for key in self._lines[first[0]] if key[:-1] == first and key not in keys]:
                self.drop(*gone)
        for key, value in keys.items():
            self._put(key, float(value))

    def value(self, *labels: str) -> float | None:
        return self._values.get(tuple(map(clean, labels)))

    def drop(self, *first_labels: str) -> None:
        """Remove all series whose first labels are these; all where there are none."""
        first = tuple(map(clean, first_labels))
        if not first:
            self._values, self._before, self._lines, self._beneath = {}, {}, {}, {}
            return
        group = self._lines.get(first[0], {})
        gone = [first] if len(first) == len(self.labels) else [key for key in group if key[: len(first)] == first]
        for key in gone:
            if group.pop(key, None) is not None:
                del self._values[key], self._before[key]
                self._count(key, -1)
        if not group:
            self._lines.pop(first[0], None)

    def __len__(self) -> int:
        return len(self._values)

    def freeze(self) -> Iterator[str]:
        """Text of what is there now, in slices; what is set from now on is not in them."""
        return _slices(list(chain.from_iterable(group.values() for group in self._lines.values())))

    def _key(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        """Those of a series that is there are clean."""
        return labels if labels in self._values else tuple(map(clean, labels))

    def _count(self, key: tuple[str, ...], by: int) -> None:
        """How many there are that differ in their last label only."""
        now = self._beneath.get(key[:-1], 0) + by
        if now:
            self._beneath[key[:-1]] = now
        else:
            del self._beneath[key[:-1]]

    def _put(self, key: tuple[str, ...], value: float) -> None:
        before = self._before.get(key)
        if before is None:
            if len(self._values) >= self.limit:
                self.refused += 1
                return
            before = self._before[key] = labelled(self.name, self.labels, key) + " "
            self._count(key, 1)
        elif self._values[key] == value:
            return
        self._values[key] = value
        first = key[0] if key else ""
        group = self._lines.get(first)
        if group is None:
            group = self._lines[first] = {}
        group[key] = f"{before}{value!r}\n"


def _slices(lines: list[str]) -> Iterator[str]:
    for start in range(0, len(lines), SLICE_LINES):
        yield "".join(lines[start : start + SLICE_LINES])
