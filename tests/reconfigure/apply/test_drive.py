"""No byte leaves under a lease that is over, in no step."""

import asyncio

import pytest

from hwd.model.bodies import KickBody, LeaseBody
from hwd.model.reconfiguration import (
    ReconfigurationCommanded,
    ReconfigurationEnded,
    ReconfigurationStarted,
    ReconfigurationState,
)
from hwd.sim.racks import TRUNKS
from hwd_drivers.core.errors import RefusedError

from ..conftest import STRAIGHT, Lab, of_testbed, wanted
from .test_stepped_applies import FIRST, THEN, last_why, lit
from .test_stepped_applies import light as light_of


async def lease(lab: Lab, *, for_s: float = 3600.0) -> str:
    held = await lab.in_daemon(lab.service.leases.take(LeaseBody(holder="ada", ports=["all"], for_s=for_s)))
    return held.lease


async def kick(lab: Lab, lease: str) -> None:
    await lab.in_daemon(lab.service.leases.kick(lease, KickBody(by="boss", why="the night run begins")))


@pytest.mark.parametrize(("for_s", "said"), [(3600.0, "it was kicked by boss"), (1.0, "it expired")])
async def test_an_apply_whose_lease_ends_on_its_way_to_the_first_byte_sends_nothing(
    lab: Lab, for_s: float, said: str
) -> None:
    held = await lease(lab, for_s=for_s)
    lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 0.6})
    applying = asyncio.create_task(lab.apply(STRAIGHT, lease=held))
    while not lab.reconfigurer.under_way:  # noqa: ASYNC110 - virtual time, and nothing is told of it yet
        await asyncio.sleep(0.001)
    if for_s > 60.0:
        await kick(lab, held)
    with pytest.raises(RefusedError, match=f"lease {held}: .*{said}.* Outcome: rolled-back"):
        await applying
    assert lab.emitted(ReconfigurationCommanded) == []
    assert (lab.emitted(ReconfigurationStarted), lab.light()) == ([], set())


@of_testbed(TRUNKS.text)
async def test_a_lease_that_ends_between_two_steps_takes_the_first_back(lab: Lab) -> None:
    await lab.apply(FIRST, ready_within_s=15)
    held = await lease(lab)
    applying = asyncio.create_task(lab.apply(THEN, ready_within_s=15, steps=True, lease=held))
    await lab.until(ReconfigurationState, state="waiting")
    await kick(lab, held)
    with pytest.raises(RefusedError, match=f"lease {held}: .*it was kicked by boss.* Outcome: rolled-back"):
        await applying
    assert lit(lab) == light_of(FIRST)
    assert last_why(lab).endswith("Of its plan, step 1 of 2 had begun, the others not")


async def test_what_stands_when_its_lease_ends_may_be_confirmed(lab: Lab) -> None:
    """A confirm moves nothing, and a refusal would leave only the way back, which does."""
    held = await lease(lab)
    done = await lab.apply(STRAIGHT, lease=held, confirm_within_s=60)
    await kick(lab, held)
    with pytest.raises(RefusedError, match=f"reconfiguration {done.id} is under way on it"):
        await lab.lease("ocs1.1", holder="bob", for_s=60)
    await lab.service.light.confirm(done.id)
    assert [one.outcome for one in lab.emitted(ReconfigurationEnded)] == ["confirmed"]
    assert lab.light() == wanted(STRAIGHT)
    await lab.lease("ocs1.1", holder="bob", for_s=60)
