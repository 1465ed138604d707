"""Smallest worlds that once broke a rule: what was found, and is mended."""

import msgspec
import pytest

from hwd.sim.draw import draw_plan
from hwd.sim.execution import play
from hwd.sim.plan import Apply, BadDisk, Claim, EndTransfer, RollBack, Step, WorldPlan

JOURNAL_OF_EIO = "a journal that refused a begin with EIO was not written again: the daemon stayed not ready (seed 205)"

END_LOST_BY_THE_RECORDS = (
    "the daemon died after the journal had an end and before the records had it: they never got it (seed {})"
)


def without_transfers(seed: int) -> WorldPlan:
    """The plan of this seed as it was drawn before worlds had transfers."""
    plan = draw_plan(seed)
    new = (Claim, EndTransfer)
    steps = [one for one in plan.steps if not isinstance(one.act, new)]
    first = min((one.number for one in plan.steps if isinstance(one.act, new)), default=len(plan.steps))
    return msgspec.structs.replace(plan, steps=tuple(one for one in steps if one.number < first))


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
    **{END_LOST_BY_THE_RECORDS.format(seed): without_transfers(seed) for seed in (203, 580)},
}


@pytest.mark.parametrize("found", FOUND)
def test_what_was_found_does_not_come_again(found: str) -> None:
    report = play(FOUND[found])
    assert [str(one) for one in report.violations] == [], "\n".join(report.story)
