"""Ranges: which event numbers of which boots, as far apart ranges, however many numbers that are."""

from collections.abc import Iterator
from typing import Final

BOOTS_MOST: Final = 256
RANGES_MOST: Final = 256
"""For each boot. Whoever sends makes up boots and numbers: beyond these the oldest are forgotten."""


class Ranges:
    """Numbers of boots, each held once: `add("b1", 1, 9)` is 9, and `add("b1", 8, 10)` after it 1."""

    def __init__(self) -> None:
        self._of: dict[str, list[tuple[int, int]]] = {}

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        """(boot, first, last), ascending within a boot; no two touch."""
        return ((boot, first, last) for boot, ranges in self._of.items() for first, last in ranges)

    def add(self, boot: str, first: int, last: int) -> int:
        """Hold `first` to `last` too; return how many of them are new."""
        new = last - first + 1
        before = self._of.get(boot)
        if before and before[-1][1] == first - 1:  # as they come
            before[-1] = before[-1][0], last
            return new
        apart: list[tuple[int, int]] = []
        joined = (first, last)
        for one in before or ():
            if one[1] < first - 1 or last + 1 < one[0]:
                apart.append(one)
                continue
            new -= max(0, min(last, one[1]) - max(first, one[0]) + 1)
            joined = (min(joined[0], one[0]), max(joined[1], one[1]))
        if boot not in self._of and len(self._of) >= BOOTS_MOST:
            del self._of[next(iter(self._of))]
        self._of[boot] = sorted([*apart, joined])[-RANGES_MOST:]
        return new
