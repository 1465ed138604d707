"""Shrinks the plan of a world that breaks a rule: to the fewest steps, then to the fewest tasks that others
overtake.

Delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002, algorithm ddmin):
parts of the list are left out as long as the same rule is broken without them.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from hwd.sim.execution import WorldReport
from hwd.sim.plan import WorldPlan

T = TypeVar("T")

Play = Callable[[WorldPlan], WorldReport]


def shrink(report: WorldReport, play: Play, *, tell: Callable[[str], None] = lambda text: None) -> WorldReport:
    """The report of the smallest plan found that breaks the first rule of `report`; `tell` gets each progress."""
    rule = report.violations[0].rule
    best = report

    def fails(plan: WorldPlan) -> bool:
        nonlocal best
        again = play(plan)
        if not any(violation.rule == rule for violation in again.violations):
            return False
        best = again
        tell(f"{len(again.plan.steps)} steps, {len(again.plan.departures or ())} overtakings break {rule} too")
        return True

    plan = report.plan_to_shrink
    if fails(replace(plan, departures=())):  # most failures need no order of their own
        plan = replace(plan, departures=())
    steps = fewest(plan.steps, lambda some: fails(replace(plan, steps=tuple(some))))
    plan = replace(plan, steps=tuple(steps))
    departures = fewest(plan.departures or (), lambda some: fails(replace(plan, departures=tuple(some))))
    plan = replace(plan, departures=tuple(departures))
    return best if best.plan == plan else play(plan)


def fewest(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """A part of `items` that fails, and from which no single one can be left out. `fails` holds for all of them."""
    parts = 2
    while len(items) >= 2:
        size = -(-len(items) // parts)
        for start in range(0, len(items), size):
            rest = [*items[:start], *items[start + size :]]
            if fails(rest):
                items, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts >= len(items):
                break
            parts = min(len(items), 2 * parts)
    return [] if len(items) == 1 and fails([]) else items
