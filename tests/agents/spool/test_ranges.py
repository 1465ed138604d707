"""Ranges of numbers by boot: each is new once, and what is made up is bounded."""

import random
import time

from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.spool.ranges import BOOTS_MOST, RANGES_MOST, Ranges
from hwd_agents.wire.events import LostData

SPANS = st.tuples(st.sampled_from(["b1", "b2"]), st.integers(1, 40), st.integers(0, 10))


@given(spans=st.lists(SPANS, max_size=30))
def test_each_number_is_new_once(spans: list[tuple[str, int, int]]) -> None:
    ranges, held = Ranges(), set[tuple[str, int]]()
    for boot, first, more in spans:
        numbers = {(boot, number) for number in range(first, first + more + 1)}
        assert ranges.add(boot, first, first + more) == len(numbers - held)
        held |= numbers
    assert {(boot, number) for boot, first, last in ranges for number in range(first, last + 1)} == held
    for (boot, _, last), (next_boot, first, _) in zip(list(ranges), list(ranges)[1:], strict=False):
        assert boot != next_boot or last + 1 < first


def test_made_up_boots_and_numbers_are_bounded_and_the_newest_are_kept() -> None:
    ranges = Ranges()
    for number in range(1, 3 * RANGES_MOST, 2):
        ranges.add("b", number, number)
    assert len(list(ranges)) == RANGES_MOST
    assert ranges.add("b", 3 * RANGES_MOST - 1, 3 * RANGES_MOST - 1) == 0
    for boot in range(2 * BOOTS_MOST):
        ranges.add(f"b{boot}", 1, 9)
    assert [boot for boot, _, _ in ranges] == [f"b{boot}" for boot in range(BOOTS_MOST, 2 * BOOTS_MOST)]


def test_a_message_full_of_forged_ranges_costs_little() -> None:
    draw, ranges = random.Random(1), Ranges()
    spans = [(first, first + draw.randrange(3)) for first in (draw.randrange(1, 1 << 60) for _ in range(50_000))]
    began_s = time.process_time()
    for first, last in spans:
        ranges.add("b", first, last)
    assert time.process_time() - began_s < 2.0, "it was 4 s, for one message, in which the daemon did nothing else"


def test_all_that_are_kept_can_be_told_in_one_event() -> None:
    ranges = Ranges()
    for boot in range(BOOTS_MOST):
        for number in range(1, 2 * RANGES_MOST, 2):
            ranges.add(f"b{boot}", number, number)
    told = LostData(count=BOOTS_MOST * RANGES_MOST, ranges=[*ranges])
    assert told.ranges == [*ranges]
    assert len([*ranges]) == told.count
