"""A failing plan is shrunk to what makes it fail."""

import pytest
from msgspec.structs import replace

from hwd.sim.execution import WorldReport
from hwd.sim.plan import Apply, Departure, Kill, Step, StopBroker, WorldPlan
from hwd.sim.rules import RULES, Violation
from hwd.sim.shrink import fewest, shrink


@pytest.mark.parametrize("needed", [set(), {3}, {0, 19}, {2, 3, 11}, set(range(20))])
def test_fewest_is_what_is_needed(needed: set[int]) -> None:
    assert set(fewest(range(20), lambda some: needed <= set(some))) == needed


def test_plan_is_shrunk_to_its_step_and_departure() -> None:
    """A world that breaks a rule where the daemon dies and one step is overtaken."""
    steps = (
        Step(number=0, at_s=1.0, act=Apply(what="ocs1:1A-3B")),
        Step(number=1, at_s=1.1, act=Kill(node="daemon", callbacks=3, away_s=1.0)),
        Step(number=2, at_s=1.2, act=StopBroker(for_s=1.0)),
    )
    departures = tuple(Departure(step=step, turns=1) for step in range(10, 30))

    def play(plan: WorldPlan) -> WorldReport:
        killed = any(isinstance(step.act, Kill) for step in plan.steps)
        broken = killed and Departure(step=17, turns=1) in (plan.departures or ())
        violations = (Violation(at_s=1.0, rule="recovered", what="a run is open"),) if broken else ()
        return WorldReport(plan=plan, violations=violations, story=(), departures=plan.departures or (), lasted_s=2.0)

    plan = WorldPlan(seed=1, rack="one-switch", steps=steps, one_in=10, departures=departures)
    shrunk = shrink(play(plan), play)
    assert shrunk.plan == replace(plan, steps=steps[1:2], departures=(Departure(step=17, turns=1),))
    assert str(shrunk.violations[0]).endswith(f"a run is open. The rule: {RULES['recovered']}")
