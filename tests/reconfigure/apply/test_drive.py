"""No byte leaves under a lease that is over, in no step."""

import asyncio

import pytest

from hwd.model.documents.reconfigurations import (
    ReconfigurationCommanded,
    ReconfigurationEnded,
    ReconfigurationStarted,
    ReconfigurationState,
)
from hwd.sim.racks import TRUNKS
from hwd.sim.world import DAEMON
from hwd_drivers.core.errors import RefusedError

from ..conftest import STRAIGHT, Lab, RunLab
from .test_confirm_over_restarts import apply, light, wanted
from .test_stepped_applies import FIRST, THEN, last_why, lit
from .test_stepped_applies import light as light_of


async def lease(lab: Lab, *, for_s: float = 3600.0) -> str:
    held = await lab.world.nodes.run_in_node(DAEMON, lab.service.take_lease(holder="ada", ports=["all"], for_s=for_s))
    return held.lease


async def kick(lab: Lab, lease: str) -> None:
    await lab.world.nodes.run_in_node(
        DAEMON, lab.service.release_lease(lease, kick=True, by="boss", why="the night run begins")
    )


@pytest.mark.parametrize(("for_s", "said"), [(3600.0, "it was kicked by boss"), (1.0, "it expired")])
def test_an_apply_whose_lease_ends_on_its_way_to_the_first_byte_sends_nothing(
    run_lab: RunLab, for_s: float, said: str
) -> None:
    async def test(lab: Lab) -> None:
        held = await lease(lab, for_s=for_s)
        lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 0.6})
        applying = asyncio.create_task(apply(lab, STRAIGHT, lease=held))
        while not lab.reconfigurer.under_way:  # noqa: ASYNC110 - virtual time, and nothing is told of it yet
            await asyncio.sleep(0.001)
        if for_s > 60.0:
            await kick(lab, held)
        with pytest.raises(RefusedError, match=f"lease {held}: .*{said}.* Outcome: rolled-back"):
            await applying
        assert lab.emitted(ReconfigurationCommanded) == []
        assert (lab.emitted(ReconfigurationStarted), light(lab)) == ([], {""})

    run_lab(test)


def test_a_lease_that_ends_between_two_steps_takes_the_first_back(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, FIRST, ready_within_s=15)
        held = await lease(lab)
        applying = asyncio.create_task(apply(lab, THEN, ready_within_s=15, steps=True, lease=held))
        await lab.until(ReconfigurationState, state="waiting")
        await kick(lab, held)
        with pytest.raises(RefusedError, match=f"lease {held}: .*it was kicked by boss.* Outcome: rolled-back"):
            await applying
        assert lit(lab) == light_of(FIRST)
        assert last_why(lab).endswith("Of its plan, step 1 of 2 had begun, the others not")

    run_lab(test, text=TRUNKS.text)


def test_what_stands_when_its_lease_ends_may_be_confirmed(run_lab: RunLab) -> None:
    """A confirm moves nothing, and a refusal would leave only the way back, which does."""

    async def test(lab: Lab) -> None:
        held = await lease(lab)
        done = await apply(lab, STRAIGHT, lease=held, confirm_within_s=60)
        await kick(lab, held)
        with pytest.raises(RefusedError, match=f"reconfiguration {done.id} is under way on it"):
            await lab.service.take_lease(holder="bob", ports=["ocs1.1"], for_s=60)
        await lab.service.confirm(done.id)
        assert [one.outcome for one in lab.emitted(ReconfigurationEnded)] == ["confirmed"]
        assert light(lab) == wanted(STRAIGHT)
        await lab.service.take_lease(holder="bob", ports=["ocs1.1"], for_s=60)

    run_lab(test)
