"""Ranges: a set of event numbers by boot, stored as disjoint ranges."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Final

BOOTS_MOST: Final = 256
RANGES_MOST: Final = 256
"""Most ranges of a boot. Boots and numbers come from the sender: beyond this limit the oldest are forgotten."""


_first, _last = itemgetter(0), itemgetter(1)


class Ranges:
    """Numbers by boot, each counted once: `add("b1", 1, 9)` is 9, and `add("b1", 8, 10)` after it 1."""

    def __init__(self) -> None:
        self._of: dict[str, list[tuple[int, int]]] = {}

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        """(boot, first, last), ascending within a boot; no two touch."""
        return ((boot, first, last) for boot, ranges in self._of.items() for first, last in ranges)

    def add(self, boot: str, first: int, last: int) -> int:
        """Add `first` to `last`; return how many of them are new."""
        if boot not in self._of and len(self._of) >= BOOTS_MOST:
            del self._of[next(iter(self._of))]
        ranges = self._of.setdefault(boot, [])
        if ranges and ranges[-1][1] == first - 1:  # the usual case: in order
            ranges[-1] = ranges[-1][0], last
            return last - first + 1
        since = bisect_left(ranges, first - 1, key=_last)
        until = bisect_right(ranges, last + 1, key=_first)
        met = ranges[since:until]  # ranges that overlap or touch the new one
        new = last - first + 1 - sum(max(0, min(last, one[1]) - max(first, one[0]) + 1) for one in met)
        ranges[since:until] = [(min([first, *map(_first, met)]), max([last, *map(_last, met)]))]
        del ranges[:-RANGES_MOST]
        return new
