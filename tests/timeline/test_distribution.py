"""Cumulative distributions and the band in which the true one lies."""

import bisect
import math
import random

import pytest

from hwd.model.instant import Knowledge, Origin
from hwd.timeline import Distribution, Sample, Stage, StageName, distribution


def sample(seconds: float, *, error_s: float = 0.0, measurement: tuple[str, int, int] | None = None) -> Sample:
    stage = Stage(
        name=StageName.OPTICAL, knowledge=Knowledge.SEEN, seconds=seconds, error_s=error_s, origin=Origin.TWIN
    )
    within_s = (seconds - error_s, seconds + error_s)
    return Sample(group=("ring",), stage=stage, virtual_time=False, within_s=within_s, measurement=measurement)


def share(edge: tuple[tuple[float, float], ...], seconds: float, before: float) -> float:
    index = bisect.bisect_right([at_s for at_s, _ in edge], seconds)
    return edge[index - 1][1] if index else before


def holds(found: Distribution, quantiles: list[tuple[float, float]]) -> bool:
    """Whether the band holds a distribution, given as times and shares."""
    return all(
        share(found.low, at_s, 0.0) <= true <= share(found.high, at_s, min(1.0, found.half_width))
        for at_s, true in quantiles
    )


def test_half_width_is_the_one_of_the_inequality() -> None:
    found = distribution([sample(float(value)) for value in range(100)])
    assert found is not None
    assert found.half_width == pytest.approx(math.sqrt(math.log(40) / 200))
    assert found.low[0][1] == 0
    assert found.high[-1][1] == 1


def test_band_holds_the_whole_true_distribution_at_least_as_often_as_stated() -> None:
    draw = random.Random(4)
    true = [(at / 20, 1 - math.exp(-at / 20)) for at in range(100)]
    held = 0
    for _ in range(300):
        found = distribution([sample(draw.expovariate(1)) for _ in range(30)])
        assert found is not None
        held += holds(found, true)
    assert held >= 0.95 * 300 - 8


def test_band_holds_where_values_are_only_known_to_lie_within_bounds() -> None:
    """Looked at each half second only: what is reported is the end of the gap, and the truth anywhere in it."""
    draw = random.Random(9)
    true = [(at / 20, 1 - math.exp(-at / 20)) for at in range(100)]
    held = blind = 0
    for _ in range(60):
        seen = [math.ceil(draw.expovariate(1) / 0.5) * 0.5 for _ in range(200)]
        honest = distribution([sample(value - 0.25, error_s=0.25) for value in seen])
        naive = distribution([sample(value) for value in seen])
        assert honest is not None
        assert naive is not None
        held += holds(honest, true)
        blind += holds(naive, true)
    assert held >= 56
    assert blind < 6, "the bounds are what makes it honest"


def test_one_answer_that_many_links_wait_for_is_one_value() -> None:
    links = [sample(0.2, measurement=("r1", 0, 200)) for _ in range(8)]
    links += [sample(0.3, measurement=("r2", 0, 300)) for _ in range(8)]
    found = distribution(links)
    assert found is not None
    assert (len(found.best_s), found.measured) == (16, 2)
    assert found.half_width == pytest.approx(math.sqrt(math.log(40) / 4))


def test_nothing_seen_has_no_distribution() -> None:
    stage = Stage(name=StageName.OPTICAL, knowledge=Knowledge.UNKNOWN, why="no source")
    assert distribution([Sample(group=(), stage=stage, virtual_time=False)]) is None
