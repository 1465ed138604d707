"""How far two runs lie apart."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.timeline import Difference, Sample, difference
from hwd.timeline.difference import RECONFIGURATIONS_NEEDED, Size

from .conftest import sample


def apart(a: list[Sample], b: list[Sample], *, resamples: int = 400) -> Difference:
    found = difference(a, b, resamples=resamples)
    assert found is not None
    return found


VALUES = st.lists(st.floats(0, 10).map(lambda value: round(value, 1)), min_size=1, max_size=12)


@given(VALUES, VALUES)
def test_delta_is_the_share_of_pairs_that_are_larger_less_those_that_are_smaller(
    a: list[float], b: list[float]
) -> None:
    found = apart([sample(value) for value in a], [sample(value) for value in b])
    pairs = [(second > first) - (second < first) for first, second in itertools.product(a, b)]
    assert found.delta == pytest.approx(sum(pairs) / len(pairs))


@given(st.lists(st.floats(0, 10), min_size=8, max_size=20), st.lists(st.floats(0, 10), min_size=8, max_size=20))
def test_intervals_are_ordered_and_those_of_the_other_way_round_are_their_mirror(
    a: list[float], b: list[float]
) -> None:
    first, second = ([sample(value, index) for index, value in enumerate(side)] for side in (a, b))
    found, back = apart(first, second), apart(second, first)
    assert found.shift_within_s is not None
    assert found.delta_within is not None
    assert found.shift_within_s[0] <= found.shift_within_s[1]
    assert -1 <= found.delta_within[0] <= found.delta_within[1] <= 1
    assert back.shift_s == pytest.approx(-found.shift_s)
    assert back.delta == pytest.approx(-found.delta)
    if sorted(a) == sorted(b):  # nothing says which of two equal sides is drawn first
        return
    assert back.shift_within_s == pytest.approx([-edge for edge in reversed(found.shift_within_s)])
    assert back.delta_within == pytest.approx([-edge for edge in reversed(found.delta_within)])


def test_shift_is_found_and_told_apart() -> None:
    draw = random.Random(2)
    a = [sample(draw.gauss(6, 0.2), index // 4) for index in range(40)]
    b = [sample(draw.gauss(3, 0.2), index // 4) for index in range(40)]
    found = apart(a, b)
    assert found.shift_s == pytest.approx(-3, abs=0.15)
    assert found.relative == pytest.approx(-0.5, abs=0.03)
    assert found.delta == -1
    assert found.size is Size.LARGE
    assert found.excludes_zero is True
    assert found.shift_within_s is not None
    assert found.shift_within_s[0] < -3 + 0.15
    assert found.shift_within_s[1] > -3 - 0.15


def test_links_that_move_together_make_no_difference_where_there_is_none() -> None:
    draw = random.Random(5)

    def run() -> list[Sample]:
        return [
            sample(common + draw.gauss(0, 0.1), reconfiguration)
            for reconfiguration in range(12)
            for common in [draw.gauss(6, 1)]
            for _ in range(8)
        ]

    wrong = sum(apart(run(), run(), resamples=200).excludes_zero is True for _ in range(150))
    assert wrong <= 20, "5 % are stated; some more for few reconfigurations"
    as_if_independent = 0
    for _ in range(40):
        a, b = ([sample(one.stage.seconds or 0, index) for index, one in enumerate(run())] for _ in range(2))
        as_if_independent += apart(a, b, resamples=200).excludes_zero is True
    assert as_if_independent >= 10, "this is what drawing whole reconfigurations is for"


def test_bounds_of_the_values_widen_the_interval() -> None:
    draw = random.Random(7)
    a, b = ([draw.gauss(1, 0.01) for _ in range(20)] for _ in range(2))
    sharp = apart([sample(v, i) for i, v in enumerate(a)], [sample(v, i) for i, v in enumerate(b)])
    blurred = apart(
        [sample(v, i, error_s=0.5) for i, v in enumerate(a)], [sample(v, i, error_s=0.25) for i, v in enumerate(b)]
    )
    assert sharp.shift_within_s is not None
    assert blurred.shift_within_s is not None
    assert blurred.shift_within_s[0] == pytest.approx(sharp.shift_within_s[0] - 0.75)
    assert blurred.shift_within_s[1] == pytest.approx(sharp.shift_within_s[1] + 0.75)
    assert blurred.delta_within == (-1, 1)


def test_few_reconfigurations_have_no_interval() -> None:
    few = [sample(float(value), value % (RECONFIGURATIONS_NEEDED - 1)) for value in range(40)]
    many = [sample(float(value), value) for value in range(40)]
    assert apart(few, many).shift_within_s is None
    assert apart(few, many).excludes_zero is None
    assert apart(many, many).excludes_zero is False


def test_side_without_a_value_is_no_difference() -> None:
    assert difference([sample(None)], [sample(1)]) is None


def test_same_values_give_the_same_intervals_in_whatever_order() -> None:
    a, b = ([sample(random.Random(seed + index).random(), index) for index in range(10)] for seed in (1, 100))
    assert apart(a, b) == apart(a[::-1], [*b[5:], *b[:5]])


@pytest.mark.parametrize(
    ("delta", "size"), [(0.0, "negligible"), (-0.15, "small"), (0.4, "medium"), (-0.474, "large"), (1.0, "large")]
)
def test_sizes_in_words(delta: float, size: str) -> None:
    assert Size.of(delta) == size
