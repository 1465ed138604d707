"""The desired state: what the last confirmed reconfiguration of each port wanted, through crashes and drift.

Drift is reported, adopted or restored, as the testbed says: never under a lease of others, never in a loop.
"""

import asyncio

import pytest
from msgspec import UNSET

from hwd.interlocks.overrides import WAY_BACK
from hwd.model.bodies import EpochBody, LeaseBody
from hwd.model.desired_state import SwitchDesired
from hwd.model.plan_summary import InterlockRefused
from hwd.model.reconfiguration import ReconfigurationStarted
from hwd.model.switch import SwitchDrift
from hwd.reconfigure.desired.drift import TRIES_MOST
from hwd.sim.world import DAEMON
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.values import PortSide
from hwd_drivers.devices.facts import SwitchRestarted, SwitchUp

from ...texts import pairs_of
from ..conftest import CROSSED, EXAMPLE, STRAIGHT, Lab, of_testbed, wanted

ADOPT, RESTORE = (f"{EXAMPLE}\ndrift: {policy}\n" for policy in ("adopt", "restore"))


async def desired(lab: Lab) -> SwitchDesired:
    (found,) = (await lab.service.rack.status()).desired
    return found


async def restores(lab: Lab) -> int:
    return sum(one.who == "drift policy" for one in await lab.service.light.history(limit=500))


async def test_confirmed_is_desired_right_after_a_crash_that_follows_the_answer(lab: Lab) -> None:
    assert (await lab.service.rack.status()).desired == [], "nobody ever asked for anything"
    await lab.apply(STRAIGHT)
    crossed = await lab.apply(CROSSED)
    await lab.restart()
    found = await desired(lab)
    assert sorted(found.crossconnects) == sorted(wanted(CROSSED))
    assert (found.free, found.missing, found.stale, found.unasked, found.unknown) == ([], [], [], [], None)
    assert set(found.by.values()) == {crossed.id}


@pytest.mark.parametrize("end", ["rollback", "nothing"])
async def test_what_is_not_confirmed_is_not_desired(lab: Lab, end: str) -> None:
    await lab.apply(STRAIGHT)
    crossed = await lab.apply(CROSSED, confirm_within_s=600)
    if end == "rollback":
        await lab.service.light.roll_back(crossed.id)
    found = await desired(lab)
    assert sorted(found.crossconnects) == sorted(wanted(STRAIGHT))
    assert (found.missing, found.stale) == ([], [])
    assert bool(found.changing) == (end == "nothing"), "no difference counts where a reconfiguration is in progress"


async def test_what_moves_nothing_is_desired_after_a_crash_and_a_wait_that_is_confirmed_then_with_the_ends_it_frees(
    lab: Lab,
) -> None:
    await lab.apply("ocs1:1A-none,4B-none")
    await lab.restart()
    found = await desired(lab)
    assert (found.crossconnects, found.free) == ([], ["1A", "4B"])
    one = await lab.apply("ocs1:1A-3B,2A-none,4B-none", confirm_within_s=600)
    await lab.restart()
    await lab.service.light.confirm(one.id)
    found = await desired(lab)
    assert (found.crossconnects, found.free) == (["1A-3B"], ["2A", "4B"])
    await lab.apply("ocs1:1A-7B")
    found = await desired(lab)
    assert (found.crossconnects, found.free) == (["1A-7B"], ["2A", "3B", "4B"]), "the partner of before is free"


# --- drift


async def test_report_tells_and_touches_nothing_and_tells_again_when_it_is_over(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B")
    await lab.panel(remove=["1A-3B"], add=["1A-7B", "5A-5B"])
    await asyncio.sleep(90)
    assert lab.light() == {"1A-7B", "5A-5B"}
    assert lab.emitted(SwitchDrift) == [SwitchDrift(switch="ocs1", missing=pairs_of("1A-3B"), stale=pairs_of("1A-7B"))]
    alerts = {alert.name: alert.summary for alert in (await lab.service.rack.status()).alerts}
    assert alerts["SwitchDrift"] == "differs from the desired state: 1A-3B is missing, 1A-7B is stale"
    await lab.panel(remove=["1A-7B"], add=["1A-3B"])
    await asyncio.sleep(5)
    assert lab.emitted(SwitchDrift)[-1] == SwitchDrift(switch="ocs1", missing=[], stale=[])
    assert await restores(lab) == 0


@of_testbed(RESTORE)
async def test_apply_that_is_in_progress_is_no_drift(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B")
    one = await lab.apply("ocs1:1A-4B", confirm_within_s=600)
    await asyncio.sleep(30)
    await lab.service.light.roll_back(one.id)
    await asyncio.sleep(30)
    assert lab.emitted(SwitchDrift) == []
    assert lab.light() == {"1A-3B"}


@of_testbed(ADOPT)
async def test_adopted_change_is_desired_and_in_the_history(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B,2A-4B")
    await lab.panel(remove=["1A-3B"], add=["1A-7B"])
    await asyncio.sleep(5)
    found = await desired(lab)
    assert (found.crossconnects, found.free, found.differs) == (["1A-7B", "2A-4B"], ["3B"], False)
    assert found.by[PortSide.parse("1A")] == "found at the switch"
    (newest, _) = await lab.service.light.history(limit=9)
    assert (newest.what, newest.who, newest.outcome) == ("ocs1:1A-7B,3B-none", "found at the switch", "adopted")
    await lab.restart(after_s=0.0)
    assert (await desired(lab)).crossconnects == ["1A-7B", "2A-4B"]


@of_testbed(ADOPT)
async def test_what_somebody_sets_right_after_a_power_cut_is_adopted_and_the_loss_is_not(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B,2A-4B")
    lab.set_fault({"switch": "ocs1", "fault": "reboot", "seconds": 3})
    mirror = lab.world.rack.switches["ocs1"].mirror
    lost = asyncio.create_task(lab.until(SwitchRestarted))
    while not lost.done():  # before the daemon has read it again
        await asyncio.sleep(0.01)
        if not mirror.readings(lab.world.clock.monotonic_ns()):
            lab.connect("ocs1:5A-5B")
    await asyncio.sleep(30)
    found = await desired(lab)
    assert lab.light() == {"5A-5B"}
    assert (found.crossconnects, found.missing) == (["1A-3B", "2A-4B", "5A-5B"], ["1A-3B", "2A-4B"])


@of_testbed(RESTORE)
async def test_power_cut_is_restored_by_the_policy_and_told_in_the_history(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B,2A-4B")
    lab.set_fault({"switch": "ocs1", "fault": "reboot", "seconds": 3})
    await lab.until(SwitchUp)
    await asyncio.sleep(30)
    assert lab.light() == {"1A-3B", "2A-4B"}
    newest = (await lab.service.light.history(limit=1))[0]
    assert (newest.who, newest.outcome, newest.what) == ("drift policy", "confirmed", "desired state of ocs1.1, ocs1.2")


@of_testbed(RESTORE)
async def test_what_changed_while_the_daemon_was_away_is_restored_too(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B,5A-none")
    lab.world.kill(DAEMON)
    lab.set_fault({"switch": "ocs1", "fault": "panel", "remove": ["1A-3B"], "add": ["5A-7B"]})
    await lab.start()
    await asyncio.sleep(30)
    assert lab.light() == {"1A-3B"}


@of_testbed(RESTORE)
async def test_policy_never_acts_under_the_lease_of_somebody_else_and_does_when_it_is_over(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B,2A-4B")
    lease = await lab.service.leases.take(LeaseBody(holder="ada", ports=["ocs1.3"], for_s=600))
    await lab.panel(remove=["1A-3B", "2A-4B"])
    await asyncio.sleep(40)
    assert lab.light() == {"2A-4B"}, "what nobody leases is restored"
    assert await restores(lab) == 1
    await lab.service.leases.release(lease.lease, EpochBody())
    await asyncio.sleep(5)
    assert lab.light() == {"1A-3B", "2A-4B"}


@of_testbed(RESTORE)
async def test_policy_gives_up_against_somebody_who_sets_it_again_and_again(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B")
    lab.without_agents()
    for _ in range(2 * TRIES_MOST):
        lab.set_fault({"switch": "ocs1", "fault": "panel", "remove": ["1A-3B"], "add": ["1A-7B"]})
        await asyncio.sleep(120)
    assert lab.light() == {"1A-7B"}
    assert await restores(lab) == TRIES_MOST
    assert lab.emitted(SwitchDrift)[-1].given_up == ["1A"]
    (alert,) = [one for one in (await lab.service.rack.status()).alerts if one.name == "SwitchDrift"]
    assert "the drift policy has given up at 1A" in alert.summary
    await lab.in_daemon(lab.apply("", restore=[]))
    await lab.panel(remove=["1A-3B"])
    await asyncio.sleep(30)
    assert lab.light() == {"1A-3B"}, "an operator has decided about it, so it begins anew"


@of_testbed(RESTORE)
async def test_policy_that_cannot_restore_gives_up(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B")
    lab.without_agents()
    await lab.panel(remove=["1A-3B"])
    lab.set_fault({"switch": "ocs1", "fault": "stick", "ends": ["1A", "3B"]})
    await asyncio.sleep(300)
    assert await restores(lab) == TRIES_MOST
    assert lab.emitted(SwitchDrift)[-1].given_up == ["1A"]


@of_testbed(f"{RESTORE}interlocks: {{rate: {{changes: {{ocs1: 1}}, per_s: 3600}}}}\n")
async def test_no_interlock_refuses_the_policy_and_what_would_have_is_recorded(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B")
    await lab.panel(remove=["1A-3B"], add=["1A-7B"])
    await asyncio.sleep(30)
    assert lab.light() == {"1A-3B"}
    assert await restores(lab) == 1
    overridden = lab.emitted(ReconfigurationStarted)[-1].overridden
    assert overridden is not UNSET
    assert [(one.name, one.reason) for one in overridden] == [("rate", WAY_BACK)]
    assert not lab.emitted(InterlockRefused)
    with pytest.raises(RefusedError, match="interlock rate"):
        await lab.apply("ocs1:1A-4B")


@of_testbed(RESTORE)
async def test_refused_restore_counts_as_none_and_is_tried_again_until_it_is_not_refused(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B")
    lab.without_agents()
    await lab.panel(remove=["1A-3B"])
    await lab.apply("ocs1:2A-4B", mode="overwrite", confirm_within_s=300)
    await asyncio.sleep(250)
    assert (lab.light(), await restores(lab)) == ({"2A-4B"}, 0), "the whole switch is taken"
    assert lab.emitted(SwitchDrift)[-1].given_up == []
    await asyncio.sleep(400)
    assert (lab.light(), await restores(lab)) == ({"1A-3B"}, 1)


async def test_stale_crossconnects_of_a_touched_switch_are_named_by_the_answer_of_an_apply(lab: Lab) -> None:
    clean = await lab.apply("ocs1:1A-3B,5A-none")
    assert (clean.stale, clean.unasked) == ([], [])
    await lab.panel(add=["5A-5B", "6A-6B"])
    answer = await lab.apply("ocs1:2A-4B")
    assert answer.outcome == "confirmed"
    assert (answer.stale, answer.unasked) == (["ocs1:5A-5B"], ["ocs1:6A-6B"])
