"""What the report of a world says: times of one beginning, and what becomes of an agent that dies."""

import re
from collections.abc import Callable

import pytest

from hwd.sim.draw import draw_plan
from hwd.sim.execution import WorldReport, play
from hwd.sim.plan import Kill


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


def test_a_step_has_the_time_of_its_plan_in_the_story(report: WorldReport) -> None:
    planned = sorted((step.number, round(step.at_s, 3)) for step in report.plan.steps)
    told = lines(report, lambda text: re.match(r"(operator|trouble) \d+: ", text) is not None)
    assert sorted((int(text.split()[1].rstrip(":")), at_s) for at_s, text in told) == planned


def test_what_starts_the_world_is_before_its_plan_and_its_end_is_last(report: WorldReport) -> None:
    (first, *_), (*_, last) = (lines(report, lambda text: True),) * 2
    assert first[1] == "the daemon is up"
    assert first[0] < 0
    assert last[0] <= report.lasted_s


def test_an_agent_that_died_is_told_to_start_again(report: WorldReport) -> None:
    (died_s, text), *_ = lines(report, lambda text: re.fullmatch(r"agent \w+ died", text) is not None)
    node = text.removesuffix(" died")
    assert any(at_s > died_s for at_s, _ in lines(report, lambda text: text == f"{node} starts again"))
