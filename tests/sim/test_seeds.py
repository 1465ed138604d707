"""Worlds that seeds draw keep the rules, each the same every time."""

import pytest

from hwd.sim.draw import draw_plan
from hwd.sim.execution import play

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
