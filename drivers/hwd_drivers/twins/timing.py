"""Timing of a simulated switch: when its mirrors have settled and when it answers, drawn separately, with sources."""

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hwd_drivers.core.errors import ConfigError

_Z_P99: Final = 2.3263478740408408
"""Standard deviations from the mean of a normal distribution to its 99th percentile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """Times of one command after its arrival: until light passes, for each pair that moves, and until the answer."""

    optical_s: tuple[float, ...]
    answer_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchTiming:
    """Draws the times of one command.

    `fitted_to` names the figure that it was fitted to, which it therefore cannot confirm.
    """

    name: str
    source: str
    fitted_to: str | None
    draws: Callable[[int, random.Random], Settling]

    def draw(self, pairs: int, rng: random.Random) -> Settling:
        """Times of a command that moves so many pairs. With 0 it only removes: dark at once, answered like one pair."""
        return self.draws(pairs, rng)


def find_timing(name: str) -> SwitchTiming:
    """Raises ConfigError for an unknown timing."""
    if name not in SWITCH_TIMINGS:
        raise ConfigError(f"switch timing {name!r}: not known. Use one of {', '.join(SWITCH_TIMINGS)}")
    return SWITCH_TIMINGS[name]


def _draw_opus(pairs: int, rng: random.Random) -> Settling:
    """Light within the first sample of 100 ms; the answer about twice as late."""
    return Settling(
        optical_s=tuple(rng.uniform(0.020, 0.095) for _ in range(pairs)), answer_s=rng.triangular(0.190, 0.210, 0.200)
    )


def _draw_mfabric(pairs: int, rng: random.Random) -> Settling:
    """The answer comes when all is settled: log-normal with the mean and the 99th percentile for so many pairs.

    Pairs settle in the second half of the time.
    """
    mean_s, p99_s = (_along(_MFABRIC_S, max(1, pairs), column) for column in (1, 2))
    sigma = _Z_P99 - math.sqrt(_Z_P99**2 - 2 * math.log(p99_s / mean_s))
    answer_s = rng.lognormvariate(math.log(mean_s) - sigma**2 / 2, sigma)
    return Settling(optical_s=tuple(answer_s * rng.uniform(0.5, 1.0) for _ in range(pairs)), answer_s=answer_s)


def _always(settled_s: float) -> Callable[[int, random.Random], Settling]:
    """A stated time for any list, and the answer when all of it is settled."""

    def draw(pairs: int, rng: random.Random) -> Settling:
        return Settling(optical_s=(settled_s,) * pairs, answer_s=settled_s)

    return draw


_MFABRIC_S: Final = ((1, 0.04144, 0.060), (4, 0.04244, 0.062), (16, 0.04675, 0.068))
"""Pairs, mean and 99th percentile."""


def _along(table: Sequence[tuple[int, float, float]], pairs: int, column: int) -> float:
    """Linear interpolation between the rows, and extrapolation of the last two."""
    for left, right in itertools.pairwise(table):
        if pairs <= right[0] or right is table[-1]:
            share = (pairs - left[0]) / (right[0] - left[0])
            return left[column] + share * (right[column] - left[column])
    return table[-1][column]


SWITCH_TIMINGS: Final[Mapping[str, SwitchTiming]] = {
    timing.name: timing
    for timing in (
        SwitchTiming(
            name="polatis-opus",
            source="Opus, testbed section 5.1: Rx power back within its first sample of 100 ms, control about 200 ms",
            fitted_to="Opus, testbed section 5.1",
            draws=_draw_opus,
        ),
        SwitchTiming(
            name="polatis-mfabric",
            source="mFabric, section 6 and figure 10: "
            "mean 41.44 / 42.44 / 46.75 ms, p99 about 60 / 62 / 68 ms for 1 / 4 / 16 pairs",
            fitted_to="mFabric, figure 10",
            draws=_draw_mfabric,
        ),
        SwitchTiming(
            name="lowradix-8ms",
            source="ACOS, section 4.4: 8 ms switching time of the quoted 1xN and 2x2 parts",
            fitted_to="ACOS, section 4.4",
            draws=_always(0.008),
        ),
        SwitchTiming(
            name="polatis-50ms",
            source="data table of a 320x320 unit, as its users quote it: 50 ms for one connection; taken for any list",
            fitted_to="the quoted data table",
            draws=_always(0.050),
        ),
        SwitchTiming(
            name="calient-200ms",
            source="Calient S320 hardware guide, page 44: at most 200 ms for a list; taken for each",
            fitted_to="Calient S320 hardware guide",
            draws=_always(0.200),
        ),
        SwitchTiming(
            name="ideal", source="no delay at all: measures everything else", fitted_to=None, draws=_always(0.0)
        ),
    )
}
