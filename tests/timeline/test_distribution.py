"""Cumulative distributions and the band in which the true one lies."""

import bisect
import math
import random
from collections.abc import Iterable
from statistics import NormalDist

import pytest

from hwd.timeline import Distribution, distribution

from .conftest import sample


def of(values: Iterable[float], *, error_s: float = 0.0) -> Distribution:
    """Each value in a reconfiguration of its own."""
    found = distribution([sample(value, number, error_s=error_s) for number, value in enumerate(values)])
    assert found is not None
    return found


def share(edge: tuple[tuple[float, float], ...], seconds: float, before: float) -> float:
    index = bisect.bisect_right([at_s for at_s, _ in edge], seconds)
    return edge[index - 1][1] if index else before


def holds(found: Distribution, quantiles: list[tuple[float, float]]) -> bool:
    """Whether the band holds a distribution, given as times and shares."""
    assert found.half_width is not None
    return all(
        share(found.low, at_s, 0.0) <= true <= share(found.high, at_s, min(1.0, found.half_width))
        for at_s, true in quantiles
    )


def test_half_width_is_the_one_of_the_inequality() -> None:
    found = of(float(value) for value in range(100))
    assert found.half_width == pytest.approx(math.sqrt(math.log(40) / 200))
    assert found.low[0][1] == 0
    assert found.high[-1][1] == 1


def test_band_holds_the_whole_true_distribution_at_least_as_often_as_stated() -> None:
    draw = random.Random(4)
    true = [(at / 20, 1 - math.exp(-at / 20)) for at in range(100)]
    held = sum(holds(of(draw.expovariate(1) for _ in range(30)), true) for _ in range(300))
    assert held >= 0.95 * 300 - 8


@pytest.mark.parametrize("spread_s", [0.1, 1.0])
def test_band_holds_it_where_links_of_a_reconfiguration_go_together(spread_s: float) -> None:
    """With a spread of 0.1 s, links taken for independent would hold it hardly ever."""
    draw = random.Random(6)
    normal = NormalDist(10, math.hypot(1, spread_s))
    true = [(5 + at / 10, normal.cdf(5 + at / 10)) for at in range(100)]
    held = 0
    for _ in range(100):
        middles = [draw.gauss(10, 1) for _ in range(6)]
        links = [
            sample(draw.gauss(middle, spread_s), number)
            for number, middle in enumerate(middles)
            for _ in range((8, 8, 8, 8, 8, 2)[number])
        ]
        found = distribution(links)
        assert found is not None
        held += holds(found, true)
    assert held >= 93


def test_band_holds_where_values_are_only_known_to_lie_within_bounds() -> None:
    """Looked at each half second only: what is reported is the end of the gap, and the truth anywhere in it."""
    draw = random.Random(9)
    true = [(at / 20, 1 - math.exp(-at / 20)) for at in range(100)]
    held = blind = 0
    for _ in range(60):
        seen = [math.ceil(draw.expovariate(1) / 0.5) * 0.5 for _ in range(200)]
        held += holds(of((value - 0.25 for value in seen), error_s=0.25), true)
        blind += holds(of(seen), true)
    assert held >= 56
    assert blind < 6, "the bounds are what makes it honest"


def test_reconfigurations_are_what_the_band_counts() -> None:
    found = distribution([sample(0.2 + number, number) for number in range(8) for _ in range(16)])
    assert found is not None
    assert (len(found.best_s), found.reconfigurations) == (128, 8)
    assert found.half_width == pytest.approx(math.sqrt(math.log(40) / 16))


def test_reconfiguration_with_most_of_the_links_counts_for_most_of_the_curve() -> None:
    uneven = [sample(0.2, 0) for _ in range(95)] + [sample(0.3, number) for number in range(1, 6)]
    found = distribution(uneven)
    assert found is not None
    assert found.half_width is not None
    assert found.half_width > 1, "it is little better than one value"


def test_no_band_is_stated_below_six_reconfigurations() -> None:
    found = distribution([sample(0.2, number) for number in range(5) for _ in range(64)])
    assert found is not None
    assert (len(found.best_s), found.reconfigurations, found.half_width) == (320, 5, None)
    assert (found.low, found.high) == ((), ())


def test_nothing_seen_has_no_distribution() -> None:
    assert distribution([sample(None)]) is None
