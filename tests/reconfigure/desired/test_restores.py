"""The way back to the desired state, planned, leased and journaled as any other."""

import asyncio
import re
from typing import Any

import pytest

from hwd.cli.commands.status import all_await_confirm
from hwd.model.answers import ReconfigurationStatus
from hwd.model.documents.plans import PlanSummary
from hwd.sim.world import DAEMON
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.devices.facts import SwitchDown, SwitchUp

from ..conftest import CROSSED, STRAIGHT, Lab, wanted


async def plan(lab: Lab, *ports: str, **more: Any) -> PlanSummary:
    return await lab.plan("", restore=[*ports], **more)


async def restore(lab: Lab, *ports: str, **more: Any) -> ReconfigurationStatus:
    return await lab.apply("", restore=[*ports], **more)


def moves(plan: PlanSummary) -> tuple[set[str], set[str]]:
    (move,) = plan.moves
    return set(move.remove), set(move.add)


async def test_way_back_that_makes_no_sense_is_bad_input(lab: Lab) -> None:
    no_mode = "mode overwrite: a way back replaces what is in its way and nothing else"
    for why, what, asked in (
        (no_mode, "", {"mode": "overwrite", "restore": []}),
        (no_mode, "", {"mode": "overwrite", "before": "r1"}),
        ("restore: ocs9 is no port and no switch of testbed", "", {"restore": ["ocs9"]}),
        ("what, restore: only one of them says what is wanted", STRAIGHT, {"restore": []}),
    ):
        with pytest.raises(ConfigError, match=why):
            await lab.plan(what, **asked)


async def test_restore_names_the_reconfiguration_whose_ports_it_leaves_out(lab: Lab) -> None:
    await lab.apply(STRAIGHT)
    await lab.panel(remove=["1A-3B"])
    under_way = await lab.apply("ocs1:1A-4B", confirm_within_s=60.0, by="ada")
    said = (
        f"reconfiguration {under_way.id} (ocs1:1A-4B) is under way, asked for by ada, and its ports are left out. "
        "`hwd status` shows how long it lasts; restore them when it is over"
    )
    assert any(said in warning for warning in (await plan(lab)).warnings)
    with pytest.raises(RefusedError, match=f"nothing to do, .*; {re.escape(said)}"):
        await restore(lab)


async def test_rack_without_a_confirmed_reconfiguration_has_nothing_to_restore_and_says_why(lab: Lab) -> None:
    made = await plan(lab)
    assert (made.empty, made.moves, made.away) == (True, [], [])
    assert made.warnings == [
        "desired state: no confirmed reconfiguration has named any port so far: nothing is desired there"
    ]
    with pytest.raises(RefusedError, match="desired state: nothing to do"):
        await restore(lab)


async def test_power_cut_of_the_switch_is_restored_by_one_request_and_links_are_ready_again(lab: Lab) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    lab.set_fault({"switch": "ocs1", "fault": "reboot", "seconds": 3})
    await lab.until(SwitchUp)
    await asyncio.sleep(10)
    assert lab.light() == set()
    assert len(lab.service.status().unlit) == 2, "wanted links stay in the status"
    ended = await restore(lab, ready_within_s=15)
    assert (ended.outcome, ended.not_ready, len(ended.links)) == ("confirmed", [], 2)
    assert lab.light() == wanted(STRAIGHT)
    assert (await plan(lab)).empty
    assert lab.service.status().unlit == []


@pytest.mark.parametrize("awaits", [False, True])
async def test_what_a_switch_carries_that_is_not_read_yet_is_unknown_and_not_missing(lab: Lab, awaits: bool) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    left: list[str] = []
    if awaits:
        left.append((await lab.apply(CROSSED, ready_within_s=15, confirm_within_s=20)).id)
        assert all_await_confirm(lab.service.status())
    lab.set_fault({"switch": "ocs1", "fault": "refuse", "on": True})
    lab.set_fault({"switch": "ocs1", "fault": "reset"})
    lab.world.kill(DAEMON)
    await asyncio.sleep(30)
    lab.world.start_daemon()
    await asyncio.sleep(10)
    now = lab.service.status()
    (desired,) = now.desired
    assert desired.unknown is not None
    assert (now.unlit, desired.missing) == ([], None)
    assert [one.reconfiguration for one in now.open] == left
    assert not all_await_confirm(now), "its time was over while the daemon was away"
    lab.set_fault({"switch": "ocs1", "fault": "refuse", "on": False})
    await lab.until(SwitchUp)
    await asyncio.sleep(10)
    assert (lab.service.status().unlit, lab.light()) == ([], wanted(STRAIGHT))


async def test_wanted_link_stays_in_the_status_when_somebody_takes_its_crossconnects(lab: Lab) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    lit = lab.service.status().lit
    await lab.panel(remove=["1A-3B"], add=["1A-7B"])
    now = lab.service.status()
    (gone,) = now.unlit
    assert {gone.link, *now.links} == {one.link for one in lit}
    assert (gone.missing, gone.instead) == (["ocs1:1A-3B"], ["ocs1:1A-7B"])
    assert str(gone) == "wanted, and ocs1:1A-3B is missing; there is ocs1:1A-7B instead"


async def test_while_a_confirm_is_awaited_the_status_and_the_history_say_so_of_all_that_it_took_away(lab: Lab) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    taken = {one.link for one in lab.service.status().lit}
    id = (await lab.apply(CROSSED, confirm_within_s=60)).id
    now = lab.service.status()
    assert {one.link: one.reconfiguration for one in now.unlit} == dict.fromkeys(taken, id)
    assert str(now.unlit[0]) == f"taken away by reconfiguration {id}, which is under way"
    (change,) = [one.last_change for one in now.switches if one.last_change is not None]
    assert (change.reconfiguration, change.outcome) == (id, "awaiting-confirm")
    newest, older = await lab.service.history(limit=2)
    assert (newest.id, newest.outcome, newest.outcome_or_state) == (id, None, "awaiting-confirm")
    assert (older.outcome, older.state) == ("confirmed", None)
    await asyncio.sleep(70)
    (newest, _), now = await lab.service.history(limit=2), lab.service.status()
    assert (newest.outcome_or_state, newest.state, now.unlit) == ("rolled-back", None, [])
    assert [one.last_change.outcome for one in now.switches if one.last_change is not None] == ["rolled-back"]


async def test_restore_moves_what_differs_and_nothing_else(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B,2A-4B,5A-none")
    await lab.panel(remove=["1A-3B"], add=["1A-7B", "5A-8B", "6A-6B"])
    made = await plan(lab)
    assert moves(made) == ({"1A-7B", "5A-8B"}, {"1A-3B"})
    assert (await restore(lab)).outcome == "confirmed"
    assert lab.light() == {"1A-3B", "2A-4B", "6A-6B"}, "what nobody ever named stays"
    (desired,) = lab.service.status().desired
    assert desired.free == ["5A"], "a restore wants nothing new of the partners of what it removes"


async def test_ports_say_what_of_it_is_restored(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B,2A-4B,5A-none")
    await lab.panel(remove=["1A-3B", "2A-4B"], add=["2A-7B", "5A-8B"])
    for port, expected in {
        "ocs1.2": ({"2A-7B"}, {"2A-4B"}),
        "ocs1.7": ({"2A-7B"}, {"2A-4B"}),
        "ocs1.8": ({"5A-8B"}, set()),
        "ocs1": ({"2A-7B", "5A-8B"}, {"1A-3B", "2A-4B"}),
        "h0.eth0": (set(), {"1A-3B"}),
    }.items():
        assert moves(await plan(lab, port)) == expected, port


async def test_restore_does_not_touch_what_others_lease_and_acts_under_its_own_lease(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B,2A-4B")
    await lab.panel(remove=["1A-3B", "2A-4B"])
    lease = await lab.service.take_lease(holder="ada", ports=["ocs1.1"], for_s=600)
    with pytest.raises(RefusedError, match=r"ocs1.1: leased to ada"):
        await restore(lab)
    assert (await restore(lab, "ocs1.2")).outcome == "confirmed"
    assert (await restore(lab, lease=lease.lease)).outcome == "confirmed"
    assert lab.light() == {"1A-3B", "2A-4B"}


async def test_switch_that_is_away_is_left_out_and_named(lab: Lab) -> None:
    await lab.apply(STRAIGHT)
    lab.cut_switch()
    await lab.until(SwitchDown)
    made = await plan(lab)
    assert made.empty
    assert [one.partition(":")[0] for one in made.away] == ["ocs1"]
    (found,) = lab.service.status().desired
    assert found.unknown is not None
    assert (found.missing, found.stale) == (None, None)


async def test_plan_of_a_restore_is_applied_by_its_hash_and_refused_when_the_switch_has_changed(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B")
    await lab.panel(remove=["1A-3B"])
    made = await plan(lab)
    await lab.panel(add=["1A-7B"])
    with pytest.raises(RefusedError, match="the switches differ from what it was made for"):
        await lab.apply("", hash=made.hash)
    assert (await lab.apply("", hash=(await plan(lab)).hash, by="ada")).outcome == "confirmed"
