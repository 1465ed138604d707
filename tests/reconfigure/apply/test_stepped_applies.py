"""Applies in steps: each holds before the next begins, and whatever ends them, the rack is as before or as wanted."""

import asyncio

import pytest

from hwd.model.daemon import DaemonRecovered
from hwd.model.reconfiguration import (
    ReconfigurationCommanded,
    ReconfigurationEnded,
    ReconfigurationStarted,
    ReconfigurationState,
    ReconfigurationStep,
)
from hwd.model.stage import StageName
from hwd.model.timeline import Timeline
from hwd.sim.racks import TRUNKS
from hwd.sim.world import DAEMON
from hwd_drivers.core.errors import DeviceError, FailedError, NotReadyError, RefusedError
from hwd_drivers.core.values import PortSide
from hwd_drivers.twins.nodes import NodeKilled
from hwd_drivers.twins.server import Denial

from ..conftest import Lab, of_testbed

pytestmark = of_testbed(TRUNKS.text)

FIRST, THEN = TRUNKS.wanted[:2]
"""Both links over trunks 5 and 6, then over 7 and 5: the first link frees the trunk of the second."""
ONE, OTHER = "h0.eth0<->h1.eth0", "h0.eth1<->h1.eth1"


def lit(lab: Lab) -> str:
    """What both switches carry, as `FIRST` and `THEN` say it."""
    return " ".join(
        f"{name}:" + ",".join(sorted(map(str, twin.mirror.crossconnects())))
        for name, twin in lab.world.rack.switches.items()
    )


def light(wanted: str) -> str:
    return " ".join(
        f"{name}:{','.join(sorted(pairs.split(',')))}"
        for name, _, pairs in (one.partition(":") for one in wanted.split())
    )


def steps(lab: Lab) -> list[tuple[int, str]]:
    return [(fact.step, fact.state) for fact in lab.emitted(ReconfigurationStep)]


def last_why(lab: Lab) -> str:
    return lab.emitted(ReconfigurationEnded)[-1].why


async def test_the_second_step_begins_when_the_links_of_the_first_are_ready(lab: Lab) -> None:
    await lab.apply(FIRST, ready_within_s=15)
    done = await lab.apply(THEN, ready_within_s=15, steps=True)
    assert (done.outcome, lit(lab)) == ("confirmed", light(THEN))
    assert steps(lab) == [(1, "begun"), (1, "done"), (2, "begun"), (2, "done")]
    assert [(one.made, one.dark) for one in lab.emitted(ReconfigurationStep)[::2]] == [
        ([ONE], [ONE]),
        ([OTHER], [OTHER]),
    ]
    started = lab.emitted(ReconfigurationStarted)[-1]
    assert (started.dark_at_once, [link.step for link in started.links]) == (1, [1, 2])
    timeline = lab.emitted(Timeline)[-1]
    assert [one for one in timeline.breaches if "commanded" in one or "kept link" in one] == []
    assert [(command.switch, command.commands) for command in timeline.commands] == [("ocs1", 1), ("ocs2", 1)] * 2
    first, second = timeline.links
    ready, commanded = first.limits(StageName.TURNAROUND)[1], second.limits(StageName.TURNAROUND)[0]
    assert commanded.earliest_ns is not None
    assert ready.latest_ns is not None
    assert commanded.earliest_ns > ready.latest_ns
    assert second.stage(StageName.TURNAROUND).seconds == pytest.approx(
        first.stage(StageName.TURNAROUND).seconds, rel=0.5
    ), "from the command of its own step"


async def test_without_readiness_a_step_ends_when_it_is_read_back(lab: Lab) -> None:
    await lab.apply(FIRST)
    await lab.apply(THEN, steps=True)
    assert lit(lab) == light(THEN)
    id = lab.emitted(ReconfigurationStarted)[-1].reconfiguration
    states = [fact.state for fact in lab.emitted(ReconfigurationState) if fact.reconfiguration == id]
    assert states == ["journaled", "driving", "read-back", "driving", "read-back", "driven", "confirming"]


async def test_denial_in_the_second_step_undoes_both_and_says_so(lab: Lab) -> None:
    await lab.apply(FIRST, ready_within_s=15)
    task = asyncio.create_task(lab.apply(THEN, ready_within_s=15, steps=True))
    await lab.until(ReconfigurationStep, step=1, state="done")
    lab.world.rack.switches["ocs2"].faults.deny_next = Denial(code="SROF", text="Mirror controller fault")
    with pytest.raises(DeviceError, match=r"SROF.*Outcome: rolled-back"):
        await task
    assert lit(lab) == light(FIRST)
    assert last_why(lab).endswith("Of its plan, all of its 2 steps had begun")


async def test_links_that_are_not_ready_in_the_first_step_keep_the_second_from_beginning(lab: Lab) -> None:
    await lab.apply(FIRST, ready_within_s=15)
    lab.set_fault({"port": "h1.eth0", "fault": "stuck-phy"})
    with pytest.raises(NotReadyError, match=f"not ready within 1 s: {ONE}.*Outcome: rolled-back") as raised:
        await lab.apply(THEN, ready_within_s=1, steps=True)
    assert raised.value.exit_status == 5
    assert steps(lab) == [(1, "begun")]
    assert lit(lab) == light(FIRST)
    assert last_why(lab).endswith("Of its plan, step 1 of 2 had begun, the others not")
    assert "no more" not in last_why(lab), "what the second step makes was not commanded"


async def test_roll_back_between_two_steps_undoes_the_first_alone(lab: Lab) -> None:
    await lab.apply(FIRST, ready_within_s=15)
    sent = len(lab.emitted(ReconfigurationCommanded))
    lab.set_fault({"port": "h1.eth0", "fault": "stuck-phy"})
    task = asyncio.create_task(lab.apply(THEN, ready_within_s=15, steps=True, id="between0"))
    await lab.until(ReconfigurationState, state="waiting")
    assert len(lab.emitted(ReconfigurationCommanded)) == sent + 2
    began_s = asyncio.get_running_loop().time()
    ended = await lab.service.light.roll_back("between0")
    assert asyncio.get_running_loop().time() - began_s < 5.0
    assert (ended.outcome, lit(lab)) == ("rolled-back", light(FIRST))
    assert ended.why == "aborted. Of its plan, step 1 of 2 had begun, the others not"
    with pytest.raises(FailedError, match="stopped and rolled back"):
        await task
    assert steps(lab) == [(1, "begun")]


async def test_another_client_between_two_steps_stops_the_next_one(lab: Lab) -> None:
    await lab.apply(FIRST)
    task = asyncio.create_task(lab.apply(THEN, ready_within_s=15, steps=True))
    await lab.until(ReconfigurationState, state="waiting")
    lab.set_fault({"switch": "ocs2", "fault": "panel", "add": ["3A-3B"]})
    with pytest.raises(RefusedError, match=r"ocs2: changed meanwhile.* \(3A-3B\); step 2 was not begun"):
        await task
    assert "3A-3B" in lit(lab)
    assert lit(lab).replace(",3A-3B", "").replace("3A-3B,", "") == light(FIRST)


@pytest.mark.slow
@pytest.mark.parametrize("ready_within_s", [None, 15])
async def test_a_death_at_any_time_ends_as_before_or_as_wanted(lab: Lab, ready_within_s: float | None) -> None:
    """The daemon dies every 40 ms of virtual time further on, and at both boundaries of each step."""
    await lab.apply(FIRST)
    boundaries = [(1, "begun"), (1, "done"), (2, "begun"), (2, "done")]
    outcomes = set[tuple[str, int]]()
    number, is_done = 0, False
    while not is_done:
        id = f"death{number:03}"
        task = asyncio.create_task(lab.apply(THEN, ready_within_s=ready_within_s, steps=True, id=id))
        if number < len(boundaries):
            step, state = boundaries[number]
            await lab.until(ReconfigurationStep, step=step, state=state)
        else:
            await asyncio.wait([task], timeout=0.04 * (number - len(boundaries)))
        number += 1
        if is_done := task.done():
            break
        lab.world.kill(DAEMON)
        with pytest.raises(NodeKilled):
            await task
        await asyncio.sleep(1.0)
        await lab.start()
        await asyncio.sleep(10.0)
        assert (await lab.service.rack.status()).open == []
        now = lit(lab)
        assert now in (light(FIRST), light(THEN))
        ends = {
            fact.outcome
            for document in lab.world.documents
            if isinstance(fact := document.fact, DaemonRecovered | ReconfigurationEnded) and fact.reconfiguration == id
        }
        assert ends <= {"confirmed" if now == light(THEN) else "rolled-back"}
        outcomes.add(
            ("".join(ends), len([one for one in lab.emitted(ReconfigurationStep) if one.reconfiguration == id]))
        )
        await lab.apply(FIRST)
    assert number > 10, "it died at every time until it was done"
    assert {count for _, count in outcomes} >= {0, 1, 2, 3}, "before, in and behind its steps"
    assert {outcome for outcome, _ in outcomes} >= {"", "rolled-back"}


async def test_not_confirmed_in_time_all_steps_are_undone(lab: Lab) -> None:
    await lab.apply(FIRST)
    waiting = await lab.apply(THEN, steps=True, confirm_within_s=30)
    assert (waiting.state, lit(lab)) == ("awaiting-confirm", light(THEN))
    await lab.restart(after_s=5)
    (again,) = (await lab.service.rack.status()).reconfigurations
    assert (again.state, again.hash) == ("awaiting-confirm", waiting.hash)
    await lab.until(ReconfigurationEnded, reconfiguration=waiting.id)
    assert lit(lab) == light(FIRST)


async def test_a_plan_in_steps_is_applied_by_its_hash(lab: Lab) -> None:
    await lab.apply(FIRST)
    plan = await lab.plan(THEN, steps=True)
    assert plan.order is not None
    assert str(plan.order) == "2 steps, at most 1 link dark at once (no order has fewer); all at once 2"
    assert (await lab.apply("", hash=plan.hash)).outcome == "confirmed"
    assert steps(lab)[-1] == (2, "done")


async def test_a_stuck_mirror_in_the_first_step_is_found_before_the_second(lab: Lab) -> None:
    await lab.apply(FIRST)
    lab.faults.stick([PortSide.parse("1A")])
    with pytest.raises(FailedError, match="does not report what was asked for"):
        await lab.apply(THEN, steps=True)
    assert steps(lab) == [(1, "begun")]
