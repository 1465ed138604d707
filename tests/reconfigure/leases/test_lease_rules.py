"""What a testbed asks of leases: one for every change, the baseline at its end. And the isolation of a plan."""

import asyncio

import pytest

from hwd.model.bodies import EpochBody, LeaseBody, OverrideBody
from hwd.model.lease import LeaseBaseline
from hwd.model.reconfiguration import ReconfigurationStarted
from hwd.sim.rank import Rank
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.devices.facts import SwitchUp

from ..conftest import CROSSED, EXAMPLE, STRAIGHT, Lab, of_testbed

REQUIRED = EXAMPLE + "\nleases: {required: true}\n"
BASELINE = EXAMPLE + "\nleases: {baseline: true}\n"
SLOW_S = 7.3
"""For each answer of the switch: the time of a baseline ends while an attempt reads it."""


@of_testbed(REQUIRED)
async def test_change_without_a_lease_is_refused_where_the_testbed_requires_one(lab: Lab) -> None:
    for call in (lab.service.light.plan, lab.service.light.apply):
        with pytest.raises(RefusedError, match="this testbed wants a lease for every change"):
            await call(lab.request(STRAIGHT))
    with pytest.raises(RefusedError, match="this testbed wants a lease"):
        await lab.service.overrides.override(OverrideBody(switch="ocs1", ends=["1A"], to="force-blocked", by="ada"))
    lease = await lab.service.leases.take(LeaseBody(holder="ada", ports=["all"], for_s=600))
    assert (await lab.apply(STRAIGHT, lease=lease.id)).outcome == "confirmed"


@of_testbed(f"{BASELINE}interlocks: {{rate: {{changes: {{ocs1: 3}}, per_s: 3600}}}}\n")
async def test_baseline_comes_back_at_the_end_of_a_lease_planned_and_journaled_whatever_interlocks_say(
    lab: Lab,
) -> None:
    await lab.apply(STRAIGHT)
    before = lab.light()
    lease = await lab.service.leases.take(LeaseBody(holder="ada", ports=["all"], for_s=600))
    await lab.apply(CROSSED, lease=lease.id)
    await lab.apply("ocs1:5A-6B", lease=lease.id)
    assert lab.light() != before
    with pytest.raises(RefusedError, match="interlock rate"):
        await lab.apply("ocs1:5A-none", lease=lease.id)
    await lab.service.leases.release(lease.id, EpochBody())
    (follows,) = lab.service.leases.leases()
    assert follows.holder == f"baseline of lease {lease.id}"
    with pytest.raises(RefusedError, match=f"leased to baseline of lease {lease.id}"):
        await lab.lease("ocs1.7", holder="bob")
    await lab.until(LeaseBaseline, lease=lease.id, outcome="restored")
    assert lab.light() == before
    assert lab.emitted(ReconfigurationStarted)[-1].lease == follows.id
    await asyncio.sleep(0.1)
    assert lab.service.leases.leases() == []


@of_testbed(BASELINE)
async def test_baseline_waits_for_a_switch_that_is_away_and_is_durable_meanwhile(lab: Lab) -> None:
    await lab.apply(STRAIGHT)
    before = lab.light()
    lease = await lab.service.leases.take(LeaseBody(holder="ada", ports=["all"], for_s=60))
    await lab.apply(CROSSED, lease=lease.id)
    lab.cut_switch()
    await asyncio.sleep(62)
    (follows,) = lab.service.leases.leases()
    assert lab.light() != before
    lab.set_fault({"fault": "clear"})
    await lab.until(SwitchUp)
    await lab.until(LeaseBaseline, outcome="restored")
    assert (follows.holder, lab.light()) == (f"baseline of lease {lease.id}", before)


@of_testbed(f"{BASELINE}transfers: {{drain_s: 3}}\n")
async def test_baseline_waits_drain_s_for_a_transfer_and_then_cuts_it(lab: Lab) -> None:
    await lab.apply(STRAIGHT)
    before = lab.light()
    lease = await lab.service.leases.take(LeaseBody(holder="ada", ports=["all"], for_s=600))
    await lab.apply(CROSSED, lease=lease.id)
    await lab.world.settled()
    rank = await Rank.connect(lab.world, "h0")
    assert (await rank.claim("eth0", within_s=60))["outcome"] == "go"
    began_s = asyncio.get_running_loop().time()
    await lab.service.leases.release(lease.id, EpochBody())
    await lab.until(LeaseBaseline, lease=lease.id)
    assert (lab.emitted(LeaseBaseline)[-1].outcome, lab.light()) == ("restored", before)
    assert 3.0 <= asyncio.get_running_loop().time() - began_s < 5.0


@of_testbed(BASELINE)
async def test_baseline_that_is_not_restored_in_its_time_says_what_kept_it(lab: Lab) -> None:
    await lab.apply(STRAIGHT)
    lease = await lab.service.leases.take(LeaseBody(holder="ada", ports=["all"], for_s=60))
    await lab.apply(CROSSED, lease=lease.id)
    waiting = await lab.service.light.apply(
        lab.request(f"{CROSSED},5A-6B", lease=lease.id, confirm_within_s=86_400)  # relies on what it keeps
    )
    lab.without_agents()
    lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": SLOW_S})
    await lab.until(LeaseBaseline, lease=lease.id)
    found = lab.emitted(LeaseBaseline)[-1]
    assert found.outcome == "not-restored"
    assert waiting.reconfiguration in found.why


async def test_without_the_key_nothing_comes_back(lab: Lab) -> None:
    lease = await lab.service.leases.take(LeaseBody(holder="ada", ports=["all"], for_s=60))
    await lab.apply(CROSSED, lease=lease.id)
    after = lab.light()
    await lab.service.leases.release(lease.id, EpochBody())
    await asyncio.sleep(30)
    assert (lab.light(), lab.service.leases.leases(), lab.emitted(LeaseBaseline)) == (after, [], [])


async def test_plan_proves_that_it_touches_no_circuit_of_another_lease(lab: Lab) -> None:
    await lab.apply(STRAIGHT)
    alone = await lab.plan("ocs1:5A-6B")
    assert str(alone.isolation) == "nobody else holds a lease of lit ports"
    lease = await lab.service.leases.take(LeaseBody(holder="ada", ports=["ocs1.1", "ocs1.3"], for_s=600))
    plan = await lab.plan("ocs1:5A-6B")
    assert plan.isolation is not None
    assert str(plan.isolation) == f"no move touches the 2 circuits of ada ({lease.id})"
    assert {(one.circuit, *one.through, *one.touched) for one in plan.isolation.circuits} == {
        ("h0.eth0 -> h1.eth0", "ocs1:1A-3B"),
        ("h1.eth0 -> h0.eth0", "ocs1:3A-1B"),
    }
    with pytest.raises(RefusedError, match=rf"ocs1\.1, ocs1\.3: leased to ada \({lease.id}\)"):
        await lab.plan(CROSSED)
    own = await lab.plan(CROSSED, lease=lease.id)
    assert (own.lease_epoch, str(own.isolation)) == (lease.epoch, "nobody else holds a lease of lit ports")
