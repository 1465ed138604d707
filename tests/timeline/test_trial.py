"""Judging pairs: how often it is wrong, what it finds, and how soon."""

import itertools
import math
import random
import statistics
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwd.timeline.trial import ALPHA, WARM_UP_MOST, Judgement, Pair, judge, warm_up_of

PAIRS_MOST = 40


def trial(seed: int, *, ratio: float = 1.0, spread: float = 0.02) -> Iterator[Pair]:
    """Times as a switch has them: skewed, falling at first, with a drift, and slower in the run that goes second."""
    draws = random.Random(seed)
    for pair in range(PAIRS_MOST):
        level = 0.05 * (1 + 0.5 * math.exp(-pair / 2) + 0.002 * pair)
        first, second = (level * (1 + spread * draws.gammavariate(2, 0.7)) for _ in range(2))
        second *= 1.005
        a, b = (first, second) if draws.random() < 0.5 else (second, first)
        yield Pair(a=a, b=ratio * b)


def decided(pairs: Iterator[Pair], *, margin: float | None = None) -> tuple[int | None, Judgement]:
    """After how many pairs it was decided, with a look after each."""
    seen: list[Pair] = []
    for pair in pairs:
        seen.append(pair)
        if (judgement := judge(seen, margin=margin)).is_decided:
            return len(seen), judgement
    return None, judge(seen, margin=margin)


@pytest.mark.slow
def test_like_against_like_is_decided_in_at_most_10_of_200_trials() -> None:
    wrong = [seed for seed in range(200) if decided(trial(seed))[0] is not None]
    assert len(wrong) <= 200 * ALPHA


def test_difference_of_5_percent_is_found_in_at_least_80_of_100_trials() -> None:
    found = [decided(trial(seed, ratio=1.05)) for seed in range(100)]
    after = [pairs for pairs, judgement in found if pairs is not None and judgement.verdict == "b is longer"]
    assert len(after) >= 80
    assert 2 * statistics.median(after) <= 30, "runs, of which each pair has two"
    held = [within[0] <= 1.05 <= within[1] for _, judgement in found if (within := judgement.within) is not None]
    assert held.count(True) >= 0.95 * len(held)


def test_shorter_and_no_difference_are_said_too() -> None:
    assert decided(trial(1, ratio=0.9))[1].verdict == "b is shorter"
    pairs, judgement = decided(trial(2, spread=0.01), margin=0.05)
    assert judgement.verdict == "no difference"
    assert judgement.within is not None
    assert 1 / 1.05 < judgement.within[0] < judgement.within[1] < 1.05
    assert pairs is not None


def test_too_few_pairs_have_no_interval_and_no_verdict() -> None:
    assert judge([]) == Judgement(pairs=0, warm_up=0, ratio=None, within=None, evidence=1.0, verdict="")
    few = judge([Pair(a=1, b=2)] * 4)
    assert (few.within, few.verdict) == (None, "")
    assert few.ratio == pytest.approx(2)


SIZES = st.lists(st.floats(min_value=1e-4, max_value=3), min_size=1, max_size=7)


@settings(max_examples=25)
@given(SIZES)
def test_wealth_is_1_on_average_over_all_signs_whatever_the_sizes(sizes: list[float]) -> None:
    """So it is a martingale where the draw of the order is the only thing that tells a from b."""
    wealth = []
    for signs in itertools.product((1, -1), repeat=len(sizes)):
        # levels that alternate: no pair is left out
        levels = [1.0 + (number % 2) for number in range(len(sizes))]
        pairs = [
            Pair(a=level, b=level * math.exp(sign * size))
            for level, sign, size in zip(levels, signs, sizes, strict=True)
        ]
        judgement = judge(
            [Pair(a=pair.a / math.sqrt(pair.b / pair.a), b=pair.b / math.sqrt(pair.b / pair.a)) for pair in pairs]
        )
        wealth.append(judgement.evidence)
        assert judgement.pairs >= len(sizes) - 1
    assert statistics.fmean(wealth) == pytest.approx(1)


def test_warm_up_ends_where_the_level_turns_and_does_not_depend_on_who_was_longer() -> None:
    falling = [Pair(a=level, b=level * 1.1) for level in (9, 6, 4, 3, 3.1, 3, 3.2)]
    assert warm_up_of(falling) == 3
    assert warm_up_of([Pair(a=pair.b, b=pair.a) for pair in falling]) == 3
    assert warm_up_of(falling[:1]) == 0
    assert warm_up_of(falling[:3]) == 1
    endless = [Pair(a=100 - number, b=100 - number) for number in range(40)]
    assert warm_up_of(endless) == WARM_UP_MOST - 1


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_measurement_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="a trial needs measurements above 0"):
        judge([Pair(a=1.0, b=value)])
