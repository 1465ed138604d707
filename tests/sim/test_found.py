"""Smallest worlds that once broke a rule: what was found, and is mended."""

import pytest

from hwd.sim.draw import draw_plan
from hwd.sim.execution import play
from hwd.sim.plan import Apply, BadDisk, RollBack, Step, WorldPlan

JOURNAL_OF_EIO = "a journal that refused a begin with EIO was not written again: the daemon stayed not ready (seed 205)"

END_LOST_BY_THE_RECORDS = (
    "the daemon died after the journal had an end and before the records had it: they never got it (seed {})"
)

EVENTS_BY_A_STEPPED_CLOCK = "the look took events of a host whose clock was stepped in a wrong order (seed 259)"

FOUND = {
    JOURNAL_OF_EIO: WorldPlan(
        seed=205,
        rack="one-switch",
        steps=(
            Step(number=0, at_s=1.0, act=BadDisk(disk="journal", error="EIO", writes=0, for_s=1.0)),
            Step(number=1, at_s=1.5, act=Apply(what="ocs1:1A-4B,4A-1B")),
            Step(number=2, at_s=3.0, act=RollBack(of=1)),
        ),
        one_in=0,
    ),
    EVENTS_BY_A_STEPPED_CLOCK: draw_plan(259),
    **{END_LOST_BY_THE_RECORDS.format(seed): draw_plan(seed) for seed in (203, 580)},
}


@pytest.mark.parametrize("found", FOUND)
def test_what_was_found_does_not_come_again(found: str) -> None:
    report = play(FOUND[found])
    assert [str(one) for one in report.violations] == [], "\n".join(report.story)
