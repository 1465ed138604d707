"""Worlds that seeds draw keep the rules, each the same every time; sweeps of them, and what they once found."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hwd.sim.draw import draw_plan
from hwd.sim.execution import WorldReport, play
from hwd.sim.plan import Apply, Claim, Kill, WorldPlan
from hwd.sim.rules import RULES
from hwd.sim.sweep import failures
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.structs import from_json

SEEDS_A_TEST = 5
ALWAYS, SLOW = 25, 300


@pytest.mark.parametrize(
    "first",
    [pytest.param(first, marks=[] if first < ALWAYS else pytest.mark.slow) for first in range(0, SLOW, SEEDS_A_TEST)],
)
def test_worlds_of_these_seeds_keep_the_rules(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        assert [str(one) for one in play(draw_plan(seed)).violations] == [], f"again: hwd sim --seed {seed}"


def test_one_seed_tells_one_story_and_departures_as_values_play_as_they_were_drawn() -> None:
    first, second = (play(draw_plan(3)) for _ in range(2))
    assert first == second
    assert len(first.story) > 10
    seed = next(seed for seed in range(100) if draw_plan(seed).one_in == 10)
    drawn = play(draw_plan(seed))
    assert len(drawn.departures) > 100
    assert play(drawn.plan_to_shrink).story == drawn.story


@pytest.mark.slow
def test_each_seed_is_played_by_processes_that_are_renewed(capsys: pytest.CaptureFixture[str]) -> None:
    found = failures(first=0, count=3, workers=1, clock=SystemClock(), seeds_a_task=1, tasks_a_process=1)
    assert dict(found) == {}
    assert "3 of 3 worlds" in capsys.readouterr().err


FOUND = from_json(Path(__file__).with_name("found.json").read_bytes(), dict[str, WorldPlan])


@pytest.mark.parametrize("found", FOUND)
def test_what_was_found_does_not_come_again(found: str) -> None:
    report = play(FOUND[found])
    assert [str(one) for one in report.violations] == [], "\n".join(report.story)


@pytest.fixture(scope="module")
def report() -> WorldReport:
    """Of a seed that kills an agent, which starts again before all ends."""

    def is_killed(seed: int) -> bool:
        kills = [one.act for one in draw_plan(seed).steps if isinstance(one.act, Kill)]
        return any(one.node.startswith("agent ") and one.callbacks < 20 for one in kills)

    return play(draw_plan(next(filter(is_killed, range(100)))))


def lines(report: WorldReport, of: Callable[[str], bool]) -> list[tuple[float, str]]:
    found = [re.fullmatch(r" *(-?[\d.]+) s  (.*)", line) for line in report.story]
    return [(float(one[1]), one[2]) for one in found if one is not None and of(one[2])]


def test_story_has_the_times_of_its_plan_what_starts_the_world_before_it_and_who_died_and_starts_again(
    report: WorldReport,
) -> None:
    planned = sorted((step.number, round(step.at_s, 3)) for step in report.plan.steps)
    told = lines(report, lambda text: re.match(r"(operator|trouble) \d+: ", text) is not None)
    assert sorted((int(text.split()[1].rstrip(":")), at_s) for at_s, text in told) == planned
    (first, *_), (*_, last) = (lines(report, lambda text: True),) * 2
    assert first[1] == "the daemon is up"
    assert first[0] < 0
    assert last[0] <= report.lasted_s
    (died_s, text), *_ = lines(report, lambda text: re.fullmatch(r"agent \w+ died", text) is not None)
    node = text.removesuffix(" died")
    assert any(at_s > died_s for at_s, _ in lines(report, lambda text: text == f"{node} starts again"))


PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanations" / "simulation.md"


def test_the_page_has_every_rule_in_its_words() -> None:
    _, _, rules = PAGE.read_text().partition("## The rules\n")
    rows = [line for line in rules.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    assert rows == [f"| `{name}` | {text} |" for name, text in RULES.items()]


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
