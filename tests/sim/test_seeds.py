"""Worlds that seeds draw keep the rules, each the same every time."""

import pytest

from hwd.sim.draw import draw_plan
from hwd.sim.execution import play
from hwd.sim.plan import Apply, Claim

SEEDS_A_TEST = 10
ALWAYS, SLOW = 50, 300


@pytest.mark.parametrize(
    "first",
    [pytest.param(first, marks=[] if first < ALWAYS else pytest.mark.slow) for first in range(0, SLOW, SEEDS_A_TEST)],
)
def test_worlds_of_these_seeds_keep_the_rules(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        assert [str(one) for one in play(draw_plan(seed)).violations] == [], f"again: hwd sim --seed {seed}"


def test_one_seed_tells_one_story() -> None:
    first, second = (play(draw_plan(3)) for _ in range(2))
    assert first == second
    assert len(first.story) > 10


def test_departures_as_values_play_as_they_were_drawn() -> None:
    seed = next(seed for seed in range(100) if draw_plan(seed).one_in == 10)
    drawn = play(draw_plan(seed))
    assert len(drawn.departures) > 100
    assert play(drawn.kept).story == drawn.story


def test_applies_come_at_the_very_moment_of_a_claim_and_at_any_within_a_second_of_it() -> None:
    after_s: set[float] = set()
    for seed in range(40):
        steps = {step.number: step for step in draw_plan(seed).steps}
        for number in (number for number, step in steps.items() if isinstance(step.act, Claim)):
            following = (steps[one] for one in (number + 1, number + 2) if one in steps)
            after_s |= {step.at_s - steps[number].at_s for step in following if isinstance(step.act, Apply)}
    assert 0.0 in after_s
    assert len(after_s) > 10
    assert max(after_s) <= 1.0
