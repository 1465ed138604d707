"""Switch timings have the means and percentiles of the figures that they were fitted to."""

import random
import statistics

import pytest

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.twins.timing import SWITCH_TIMINGS, Settling, find_timing

DRAWS = 60_000


def draw_many(name: str, pairs: int) -> list[Settling]:
    rng = random.Random(7)
    return [find_timing(name).draw(pairs, rng) for _ in range(DRAWS)]


@pytest.mark.parametrize(
    ("pairs", "mean_ms", "p99_ms"),
    [(1, 41.44, 60), (4, 42.44, 62), (16, 46.75, 68), (8, 42.44 + 4 / 12 * 4.31, None), (28, 46.75 + 4.31, None)],
)
def test_polatis_mfabric_answers_as_in_figure_10_and_in_straight_lines_between_and_beyond(
    pairs: int, mean_ms: float, p99_ms: float | None
) -> None:
    answers_ms = [settling.answer_s * 1e3 for settling in draw_many("polatis-mfabric", pairs)]
    assert statistics.mean(answers_ms) == pytest.approx(mean_ms, abs=0.15)
    if p99_ms is not None:
        assert statistics.quantiles(answers_ms, n=100)[98] == pytest.approx(p99_ms, abs=0.7)


def test_polatis_mfabric_answers_when_all_is_settled() -> None:
    for settling in draw_many("polatis-mfabric", 4)[:500]:
        assert len(settling.optical_s) == 4
        assert max(settling.optical_s) <= settling.answer_s


def test_polatis_opus_is_lit_within_a_sample_and_answers_after_200_ms() -> None:
    drawn = draw_many("polatis-opus", 2)
    assert all(0 < optical_s < 0.1 for settling in drawn for optical_s in settling.optical_s)
    assert statistics.mean(settling.answer_s for settling in drawn) == pytest.approx(0.2, abs=0.001)
    assert statistics.correlation([s.optical_s[0] for s in drawn], [s.answer_s for s in drawn]) == pytest.approx(
        0, abs=0.05
    )


def test_stated_times_are_taken_for_any_list_and_ideal_takes_none() -> None:
    rng = random.Random(7)
    assert find_timing("lowradix-8ms").draw(2, rng) == Settling(optical_s=(0.008, 0.008), answer_s=0.008)
    assert find_timing("polatis-50ms").draw(2, rng) == Settling(optical_s=(0.05, 0.05), answer_s=0.05)
    assert find_timing("calient-200ms").draw(1, rng) == Settling(optical_s=(0.2,), answer_s=0.2)
    assert find_timing("ideal").draw(2, rng) == Settling(optical_s=(0.0, 0.0), answer_s=0.0)


@pytest.mark.parametrize("name", SWITCH_TIMINGS)
def test_a_removal_settles_nothing_and_the_draws_are_repeatable(name: str) -> None:
    timing = find_timing(name)
    assert timing.draw(0, random.Random(1)).optical_s == ()
    assert timing.draw(5, random.Random(1)) == timing.draw(5, random.Random(1))
    assert timing.source


def test_an_unknown_timing_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(
        ConfigError, match="polatis-opus, polatis-mfabric, lowradix-8ms, polatis-50ms, calient-200ms, ideal"
    ):
        find_timing("polatis")
