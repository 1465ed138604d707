"""Reconfigurations at once on one switch: each on ports of its own, and none disturbs the other."""

import asyncio
import re

import pytest

from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationState
from hwd.reconfigure.apply.reconfiguration import Outcome
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.twins.server import Denial

from ..conftest import Lab, wanted

ONE, OTHER = "ocs1:1A-3B,3A-1B", "ocs1:2A-4B,4A-2B"
"""Two links of their own on one switch."""


async def test_two_at_once_on_ports_of_their_own_are_both_ready(lab: Lab) -> None:
    one, other = await asyncio.gather(*(lab.begin(what) for what in (ONE, OTHER)))
    assert {found.id for found in lab.reconfigurer.under_way} == {one.id, other.id}
    await asyncio.gather(*(lab.reconfigurer.wait_ready(found, within_s=20) for found in (one, other)))
    await asyncio.gather(*(lab.reconfigurer.confirm(found) for found in (one, other)))
    assert lab.light() == wanted(ONE) | wanted(OTHER)
    assert [end.remarks for end in lab.emitted(ReconfigurationEnded)] == [[], []]
    assert one.timeline is not None
    assert [str(link.link) for link in one.timeline.links] == ["h0.eth0<->h1.eth0"]


async def test_way_back_of_one_leaves_the_other_as_it_is(lab: Lab) -> None:
    one = await lab.begin(ONE)
    back = asyncio.create_task(lab.reconfigurer.roll_back(one, "asked for"))
    other = await lab.begin(OTHER)
    await back
    await lab.reconfigurer.confirm(other)
    assert (one.outcome, other.outcome) == (Outcome.ROLLED_BACK, Outcome.CONFIRMED)
    assert lab.light() == wanted(OTHER)
    assert other.remarks == []


async def test_denial_of_one_is_not_the_end_of_the_other(lab: Lab) -> None:
    one = await lab.begin(ONE)
    lab.faults.deny_next = Denial(code="SROF", text="Mirror controller fault")
    with pytest.raises(Exception, match="Mirror controller fault"):
        await lab.begin(OTHER)
    await lab.reconfigurer.wait_ready(one, within_s=20)
    await lab.reconfigurer.confirm(one)
    assert lab.light() == wanted(ONE)


async def test_refusal_says_whose_reconfiguration_has_the_ports_what_it_is_and_how_long_it_lasts(lab: Lab) -> None:
    async def refused() -> str:
        with pytest.raises(RefusedError) as raised:
            await lab.apply("ocs1:1A-4B", by="ben")
        return str(raised.value)

    await lab.reconfigurer.confirm(await lab.begin(OTHER))
    asking = lab.apply(ONE, by="ada", ready_within_s=15, confirm_within_s=60)
    one = asyncio.create_task(asking)
    named = r"ocs1\.1: reconfiguration \w+ is under way on it: ocs1:1A-3B,3A-1B, asked for by ada; "
    await lab.until(ReconfigurationState, state="waiting")
    assert re.match(
        named + r"longer than the [\d.]+ s expected, for its links have 15 s to be ready, and then 60 s at most until "
        r"it is confirmed or goes back\. Wait for its end, .* is up to ada: `hwd rollback",
        await refused(),
    )
    await one
    await asyncio.sleep(20.0)
    assert re.match(named + r"it goes back by itself in (39|40) s unless it is confirmed before\.", await refused())
    await lab.service.light.roll_back("-")


async def test_what_would_go_dark_under_another_is_refused(lab: Lab) -> None:
    await lab.reconfigurer.confirm(await lab.begin("ocs1:1A-4B,4A-1B"))
    one = await lab.begin("ocs1:2A-3B")
    with pytest.raises(RefusedError, match=f"reconfiguration {one.id} is under way on it"):
        await lab.begin("ocs1:1A-3B")
    await lab.reconfigurer.confirm(one)
    assert lab.light() == {"1A-4B", "4A-1B", "2A-3B"}


@pytest.mark.parametrize("first", [True, False])
async def test_all_of_a_switch_is_for_one_alone(lab: Lab, first: bool) -> None:
    begins = [lambda: lab.begin(ONE, mode="overwrite"), lambda: lab.begin(OTHER)]
    one = await begins[0 if first else 1]()
    with pytest.raises(RefusedError, match=f"ocs1: reconfiguration {one.id} is under way on it"):
        await begins[1 if first else 0]()
    await lab.reconfigurer.confirm(one)


async def test_one_that_waits_for_its_turn_can_be_cancelled(lab: Lab) -> None:
    one = asyncio.create_task(lab.begin(ONE))
    await lab.until(ReconfigurationState, state="driving")
    other = asyncio.create_task(lab.begin(OTHER))
    await asyncio.sleep(0.001)
    other.cancel()
    with pytest.raises(asyncio.CancelledError):
        await other
    await lab.reconfigurer.confirm(await one)
    await lab.reconfigurer.confirm(await lab.begin(OTHER))
    assert lab.light() == wanted(ONE) | wanted(OTHER)


async def test_dwell_counts_from_when_a_link_was_last_lit_or_went_dark(lab: Lab) -> None:
    begun = []
    for what in (ONE, "ocs1:1A-4B,4A-1B", ONE):
        begun.append(await lab.begin(what))
        await lab.reconfigurer.wait_ready(begun[-1], within_s=20)
        await lab.reconfigurer.confirm(begun[-1])
        await asyncio.sleep(2)
    dwells = [[link.dwell_s for link in one.timeline.links] for one in begun if one.timeline is not None]
    went_dark, lit_again = begun[1].started_ns, begun[2].started_ns
    assert dwells == [[None], [None], [pytest.approx((lit_again - went_dark) / 1e9)]]
