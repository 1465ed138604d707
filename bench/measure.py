"""Alternating measurement: ours and the floor in turns in one run, as ratios of medians with their spread."""

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One line of the table.

    `value` must be at most `limit`, or at least `limit` where `at_least`. Without a limit the value is for information.
    `spread` is what the reader needs to judge it; `detail` goes into the file.
    """

    name: str
    value: float
    limit: float | None
    unit: str
    spread: str
    n: int
    at_least: bool = False
    detail: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        if self.limit is None:
            return True
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Statistics of some values: their number, quartiles, 99th percentile, maximum."""

    n: int
    p25: float
    median: float
    p75: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Summary":
        ordered = sorted(values)
        first, median, third = statistics.quantiles(ordered, n=4, method="inclusive")
        p99 = statistics.quantiles(ordered, n=100, method="inclusive")[98]
        return cls(n=len(ordered), p25=first, median=median, p75=third, p99=p99, max=ordered[-1])

    def to_data(self) -> dict[str, float]:
        return {"n": self.n, "p25": self.p25, "median": self.median, "p75": self.p75, "p99": self.p99, "max": self.max}


async def alternate(rounds: int, *works: Callable[[], Awaitable[float | None]]) -> list[list[float]]:
    """Run the works in turns `rounds` times, after a tenth as many turns to warm up; returns the seconds of each.

    A work that returns a number has measured its own seconds.
    """
    seconds: list[list[float]] = [[] for _ in works]
    for number in range(-(rounds // 10) - 1, rounds):
        for index, work in enumerate(works):
            start = time.perf_counter()
            said = await work()
            taken = time.perf_counter() - start if said is None else said
            if number >= 0:
                seconds[index].append(taken)
    return seconds


def ratios(ours: Sequence[float], floor: Sequence[float]) -> Summary:
    """Statistics of the ratio of ours to the floor in the same turn."""
    return Summary.of([one / other for one, other in zip(ours, floor, strict=True)])
