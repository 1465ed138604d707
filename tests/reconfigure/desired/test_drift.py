"""Drift is reported, adopted or restored, as the testbed says: never under a lease of others, never in a loop."""

import asyncio
from typing import Any

import pytest
from msgspec import UNSET

from hwd.interlocks.overrides import WAY_BACK
from hwd.model.answers import ReconfigurationStatus, SwitchDesired
from hwd.model.documents.plans import InterlockRefused
from hwd.model.documents.reconfigurations import ReconfigurationStarted
from hwd.model.documents.switches import SwitchAdopted, SwitchDrift
from hwd.reconfigure.desired.drift import TRIES_MOST
from hwd.sim.world import DAEMON, agent_node
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices.facts import SwitchRead, SwitchRestarted, SwitchUp

from ..conftest import EXAMPLE, Lab, RunLab

ADOPT, RESTORE = (f"{EXAMPLE.read_text()}\ndrift: {policy}\n" for policy in ("adopt", "restore"))


async def apply(lab: Lab, what: str, **more: Any) -> ReconfigurationStatus:
    return await lab.world.nodes.run_in_node(DAEMON, lab.service.apply(lab.request(what, **more)))


def without_agents(lab: Lab) -> None:
    """They have no part in it, and would sample all the while."""
    for host in ("h0", "h1"):
        lab.world.kill(agent_node(host))


async def panel(lab: Lab, **change: list[str]) -> None:
    lab.set_fault({"switch": "ocs1", "fault": "panel", **change})
    await lab.until(SwitchRead, ours=False)


def light(lab: Lab) -> set[str]:
    return set(filter(None, lab.light().removeprefix("ocs1:").split(",")))


def desired(lab: Lab) -> SwitchDesired:
    (found,) = lab.service.status().desired
    return found


async def restores(lab: Lab) -> int:
    return sum(one.who == "drift policy" for one in await lab.service.history(limit=500))


def test_report_tells_and_touches_nothing_and_tells_again_when_it_is_over(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, "ocs1:1A-3B")
        await panel(lab, remove=["1A-3B"], add=["1A-7B", "5A-5B"])
        await asyncio.sleep(90)
        assert light(lab) == {"1A-7B", "5A-5B"}
        assert lab.emitted(SwitchDrift) == [SwitchDrift(switch="ocs1", missing=["1A-3B"], stale=["1A-7B"])]
        alerts = {alert.name: alert.summary for alert in lab.service.status().alerts}
        assert alerts["SwitchDrift"] == "differs from the desired state: 1A-3B is missing, 1A-7B is stale"
        await panel(lab, remove=["1A-7B"], add=["1A-3B"])
        await asyncio.sleep(5)
        assert lab.emitted(SwitchDrift)[-1] == SwitchDrift(switch="ocs1", missing=[], stale=[])
        assert await restores(lab) == 0

    run_lab(test)


def test_apply_that_is_in_progress_is_no_drift(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, "ocs1:1A-3B")
        one = await apply(lab, "ocs1:1A-4B", confirm_within_s=600)
        await asyncio.sleep(60)
        await lab.service.roll_back(one.id)
        await asyncio.sleep(60)
        assert lab.emitted(SwitchDrift) == []
        assert light(lab) == {"1A-3B"}

    run_lab(test, text=RESTORE)


def test_adopted_change_is_desired_and_in_the_history(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, "ocs1:1A-3B,2A-4B")
        await panel(lab, remove=["1A-3B"], add=["1A-7B"])
        await asyncio.sleep(5)
        found = desired(lab)
        assert (found.crossconnects, found.free, found.differs) == (["1A-7B", "2A-4B"], ["3B"], False)
        assert found.by["1A"] == "found at the switch"
        (newest, _) = await lab.service.history(limit=9)
        assert (newest.what, newest.who, newest.outcome) == ("ocs1:1A-7B,3B-none", "found at the switch", "adopted")
        lab.world.kill(DAEMON)
        lab.world.start_daemon()
        await lab.world.settled()
        assert desired(lab).crossconnects == ["1A-7B", "2A-4B"]

    run_lab(test, text=ADOPT)


def test_power_cut_is_never_adopted(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, "ocs1:1A-3B,2A-4B")
        lab.set_fault({"switch": "ocs1", "fault": "reboot", "seconds": 3})
        await lab.until(SwitchUp)
        await asyncio.sleep(30)
        assert light(lab) == set()
        assert (desired(lab).crossconnects, desired(lab).missing) == (["1A-3B", "2A-4B"], ["1A-3B", "2A-4B"])
        assert lab.emitted(SwitchAdopted) == []

    run_lab(test, text=ADOPT)


def test_what_somebody_sets_right_after_a_power_cut_is_adopted_and_the_loss_is_not(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, "ocs1:1A-3B,2A-4B")
        lab.set_fault({"switch": "ocs1", "fault": "reboot", "seconds": 3})
        mirror = lab.world.rack.switches["ocs1"].mirror
        lost = asyncio.create_task(lab.until(SwitchRestarted))
        while not lost.done():  # before the daemon has read it again
            await asyncio.sleep(0.01)
            if not mirror.readings(lab.world.clock.monotonic_ns()):
                mirror.connect([Crossconnect.parse("5A-5B")], lab.world.clock.monotonic_ns(), move=True)
        await asyncio.sleep(30)
        found = desired(lab)
        assert light(lab) == {"5A-5B"}
        assert (found.crossconnects, found.missing) == (["1A-3B", "2A-4B", "5A-5B"], ["1A-3B", "2A-4B"])

    run_lab(test, text=ADOPT)


def test_power_cut_is_restored_by_the_policy_and_told_in_the_history(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, "ocs1:1A-3B,2A-4B")
        lab.set_fault({"switch": "ocs1", "fault": "reboot", "seconds": 3})
        await lab.until(SwitchUp)
        await asyncio.sleep(30)
        assert light(lab) == {"1A-3B", "2A-4B"}
        newest = (await lab.service.history(limit=1))[0]
        assert (newest.who, newest.outcome, newest.what) == (
            "drift policy",
            "confirmed",
            "desired state of ocs1.1, ocs1.2",
        )

    run_lab(test, text=RESTORE)


def test_what_changed_while_the_daemon_was_away_is_restored_too(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, "ocs1:1A-3B,5A-none")
        lab.world.kill(DAEMON)
        lab.set_fault({"switch": "ocs1", "fault": "panel", "remove": ["1A-3B"], "add": ["5A-7B"]})
        lab.world.start_daemon()
        await lab.world.settled()
        await asyncio.sleep(30)
        assert light(lab) == {"1A-3B"}

    run_lab(test, text=RESTORE)


def test_policy_never_acts_under_the_lease_of_somebody_else_and_does_when_it_is_over(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, "ocs1:1A-3B,2A-4B")
        lease = await lab.service.take_lease(holder="ada", ports=["ocs1.3"], for_s=600)
        await panel(lab, remove=["1A-3B", "2A-4B"])
        await asyncio.sleep(120)
        assert light(lab) == {"2A-4B"}, "what nobody leases is restored"
        assert await restores(lab) == 1
        await lab.service.release_lease(lease.lease)
        await asyncio.sleep(5)
        assert light(lab) == {"1A-3B", "2A-4B"}

    run_lab(test, text=RESTORE)


def test_policy_gives_up_against_somebody_who_sets_it_again_and_again(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, "ocs1:1A-3B")
        without_agents(lab)
        for _ in range(20):
            lab.set_fault({"switch": "ocs1", "fault": "panel", "remove": ["1A-3B"], "add": ["1A-7B"]})
            await asyncio.sleep(120)
        assert light(lab) == {"1A-7B"}
        assert await restores(lab) == TRIES_MOST
        assert lab.emitted(SwitchDrift)[-1].given_up == ["1A"]
        (alert,) = [one for one in lab.service.status().alerts if one.name == "SwitchDrift"]
        assert "the drift policy has given up at 1A" in alert.summary
        await lab.world.nodes.run_in_node(DAEMON, lab.service.apply(lab.request("", restore=[])))
        await panel(lab, remove=["1A-3B"])
        await asyncio.sleep(30)
        assert light(lab) == {"1A-3B"}, "an operator has decided about it, so it begins anew"

    run_lab(test, text=RESTORE)


def test_policy_that_cannot_restore_gives_up(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, "ocs1:1A-3B")
        without_agents(lab)
        await panel(lab, remove=["1A-3B"])
        lab.set_fault({"switch": "ocs1", "fault": "stick", "ends": ["1A", "3B"]})
        await asyncio.sleep(1200)
        assert await restores(lab) == TRIES_MOST
        assert lab.emitted(SwitchDrift)[-1].given_up == ["1A"]

    run_lab(test, text=RESTORE)


def test_no_interlock_refuses_the_policy_and_what_would_have_is_recorded(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, "ocs1:1A-3B")
        await panel(lab, remove=["1A-3B"], add=["1A-7B"])
        await asyncio.sleep(60)
        assert light(lab) == {"1A-3B"}
        assert await restores(lab) == 1
        overridden = lab.emitted(ReconfigurationStarted)[-1].overridden
        assert overridden is not UNSET
        assert [(one.name, one.reason) for one in overridden] == [("rate", WAY_BACK)]
        assert not lab.emitted(InterlockRefused)
        with pytest.raises(RefusedError, match="interlock rate"):
            await apply(lab, "ocs1:1A-4B")

    run_lab(test, text=f"{RESTORE}interlocks: {{rate: {{changes: {{ocs1: 1}}, per_s: 3600}}}}\n")


def test_refused_restore_counts_as_none_and_is_tried_again_until_it_is_not_refused(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, "ocs1:1A-3B")
        without_agents(lab)
        await panel(lab, remove=["1A-3B"])
        await apply(lab, "ocs1:2A-4B", mode="overwrite", confirm_within_s=1200)
        await asyncio.sleep(1100)
        assert (light(lab), await restores(lab)) == ({"2A-4B"}, 0), "the whole switch is taken"
        assert lab.emitted(SwitchDrift)[-1].given_up == []
        await asyncio.sleep(800)
        assert (light(lab), await restores(lab)) == ({"1A-3B"}, 1)

    run_lab(test, text=RESTORE)


def test_stale_crossconnects_of_a_touched_switch_are_named_by_the_answer_of_an_apply(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        clean = await apply(lab, "ocs1:1A-3B,5A-none")
        assert (clean.stale, clean.unasked) == ([], [])
        await panel(lab, add=["5A-5B", "6A-6B"])
        answer = await apply(lab, "ocs1:2A-4B")
        assert answer.outcome == "confirmed"
        assert (answer.stale, answer.unasked) == (["ocs1:5A-5B"], ["ocs1:6A-6B"])

    run_lab(test)
