"""Alternating measurement: ours and the floor in turns in one run, as ratios of medians with their spread."""

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What one line of the table says. `value` must not be over `limit`; `spread` is what the reader needs to judge it."""

    name: str
    value: float
    limit: float
    unit: str
    spread: str
    detail: dict[str, float]

    @property
    def met(self) -> bool:
        return self.value <= self.limit


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median, quartiles and p99 of some values."""
    ordered = sorted(values)
    first, median, third = statistics.quantiles(ordered, n=4)
    return {
        "n": len(ordered),
        "p25": first,
        "median": median,
        "p75": third,
        "p99": ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))],
        "max": ordered[-1],
    }


async def alternate(rounds: int, *works: Callable[[], Awaitable[None]]) -> list[list[float]]:
    """Seconds of each work, done in turns `rounds` times; the first tenth warms up and is left out."""
    seconds: list[list[float]] = [[] for _ in works]
    for number in range(rounds):
        for index, work in enumerate(works):
            start = time.perf_counter()
            await work()
            taken = time.perf_counter() - start
            if number >= rounds // 10:
                seconds[index].append(taken)
    return seconds


def ratios(ours: Sequence[float], floor: Sequence[float]) -> dict[str, float]:
    """Spread of ours over the floor of the same turn."""
    return summary([one / other for one, other in zip(ours, floor, strict=True)])
