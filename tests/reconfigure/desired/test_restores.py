"""The way back to the desired state, planned, leased and journaled as any other."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from hwd.cli.commands.status import all_await_confirm
from hwd.model.bodies import LeaseBody
from hwd.model.plan_summary import PlanSummary
from hwd.model.reconfiguration import HistoryEntry, ReconfigurationStatus
from hwd.model.request import Caller
from hwd.records.gaps import DocumentGroup
from hwd.records.old_documents import Batch, Cutoff
from hwd.records.records import Records
from hwd.sim.world import DAEMON
from hwd_drivers.core.errors import ConfigError, HwdError, RefusedError, UnknownError
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.devices.facts import SwitchDown, SwitchUp

from ..conftest import CROSSED, STRAIGHT, Lab, wanted


async def plan(lab: Lab, *ports: str, **more: Any) -> PlanSummary:
    return await lab.plan("", restore=[*ports], **more)


async def restore(lab: Lab, *ports: str, **more: Any) -> ReconfigurationStatus:
    return await lab.apply("", restore=[*ports], **more)


def moves(plan: PlanSummary) -> tuple[set[str], set[str]]:
    (move,) = plan.moves
    return set(move.remove), set(move.add)


async def test_way_back_that_makes_no_sense_is_bad_input_and_none_is_known_where_nothing_was_confirmed(
    lab: Lab,
) -> None:
    no_mode = "mode overwrite: a way back replaces what is in its way and nothing else"
    for why, what, asked in (
        (no_mode, "", {"mode": "overwrite", "restore": []}),
        (no_mode, "", {"mode": "overwrite", "before": "r1"}),
        ("restore: ocs9 is no port and no switch of testbed", "", {"restore": ["ocs9"]}),
        ("what, restore: only one of them says what is wanted", STRAIGHT, {"restore": []}),
    ):
        with pytest.raises(ConfigError, match=why):
            await lab.plan(what, **asked)
    made = await plan(lab)
    assert (made.empty, made.moves, made.away) == (True, [], [])
    assert made.warnings == [
        "desired state: no confirmed reconfiguration has named any port so far: nothing is desired there"
    ]
    with pytest.raises(RefusedError, match="desired state: nothing to do"):
        await restore(lab)
    with pytest.raises(RefusedError, match=r"reconfiguration gone: not in the records.*before it is not known"):
        await go_before(lab, "gone")


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


async def test_power_cut_of_the_switch_is_restored_by_one_request_and_links_are_ready_again(lab: Lab) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    lab.set_fault({"switch": "ocs1", "fault": "reboot", "seconds": 3})
    await lab.until(SwitchUp)
    await asyncio.sleep(10)
    assert lab.light() == set()
    assert len((await lab.service.rack.status()).unlit) == 2, "wanted links stay in the status"
    ended = await restore(lab, ready_within_s=15)
    assert (ended.outcome, ended.not_ready, len(ended.links)) == ("confirmed", [], 2)
    assert lab.light() == wanted(STRAIGHT)
    assert (await plan(lab)).empty
    assert (await lab.service.rack.status()).unlit == []


@pytest.mark.parametrize("awaits", [False, True])
async def test_what_a_switch_carries_that_is_not_read_yet_is_unknown_and_not_missing(lab: Lab, awaits: bool) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    left: list[str] = []
    if awaits:
        left.append((await lab.apply(CROSSED, ready_within_s=15, confirm_within_s=20)).id)
        assert all_await_confirm(await lab.service.rack.status())
    lab.set_fault({"switch": "ocs1", "fault": "refuse", "on": True})
    lab.set_fault({"switch": "ocs1", "fault": "reset"})
    lab.world.kill(DAEMON)
    await asyncio.sleep(30)
    lab.world.start_daemon()
    await asyncio.sleep(10)
    now = await lab.service.rack.status()
    (desired,) = now.desired
    assert desired.unknown is not None
    assert (now.unlit, desired.missing) == ([], None)
    assert [one.reconfiguration for one in now.open] == left
    assert not all_await_confirm(now), "its time was over while the daemon was away"
    lab.set_fault({"switch": "ocs1", "fault": "refuse", "on": False})
    await lab.until(SwitchUp)
    await asyncio.sleep(10)
    assert ((await lab.service.rack.status()).unlit, lab.light()) == ([], wanted(STRAIGHT))


async def test_wanted_link_stays_in_the_status_when_somebody_takes_its_crossconnects(lab: Lab) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    lit = (await lab.service.rack.status()).lit
    await lab.panel(remove=["1A-3B"], add=["1A-7B"])
    now = await lab.service.rack.status()
    (gone,) = now.unlit
    assert {gone.link, *now.links} == {one.link for one in lit}
    assert (gone.missing, gone.instead) == (["ocs1:1A-3B"], ["ocs1:1A-7B"])
    assert str(gone) == "wanted, and ocs1:1A-3B is missing; there is ocs1:1A-7B instead"


async def test_while_a_confirm_is_awaited_the_status_and_the_history_say_so_of_all_that_it_took_away(lab: Lab) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    taken = {one.link for one in (await lab.service.rack.status()).lit}
    id = (await lab.apply(CROSSED, confirm_within_s=20)).id
    now = await lab.service.rack.status()
    assert {one.link: one.reconfiguration for one in now.unlit} == dict.fromkeys(taken, id)
    assert str(now.unlit[0]) == f"taken away by reconfiguration {id}, which is under way"
    (change,) = [one.last_change for one in now.switches if one.last_change is not None]
    assert (change.reconfiguration, change.outcome) == (id, "awaiting-confirm")
    newest, older = await lab.service.light.history(limit=2)
    assert (newest.id, newest.outcome, newest.outcome_or_state) == (id, None, "awaiting-confirm")
    assert (older.outcome, older.state) == ("confirmed", None)
    await asyncio.sleep(30)
    (newest, _), now = await lab.service.light.history(limit=2), await lab.service.rack.status()
    assert (newest.outcome_or_state, newest.state, now.unlit) == ("rolled-back", None, [])
    assert [one.last_change.outcome for one in now.switches if one.last_change is not None] == ["rolled-back"]


async def test_restore_moves_what_differs_and_nothing_else_and_ports_say_what_of_it(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B,2A-4B,5A-none")
    await lab.panel(remove=["1A-3B"], add=["1A-7B", "5A-8B", "6A-6B"])
    made = await plan(lab)
    assert moves(made) == ({"1A-7B", "5A-8B"}, {"1A-3B"})
    assert (await restore(lab)).outcome == "confirmed"
    assert lab.light() == {"1A-3B", "2A-4B", "6A-6B"}, "what nobody ever named stays"
    (desired,) = (await lab.service.rack.status()).desired
    assert desired.free == ["5A"], "a restore wants nothing new of the partners of what it removes"
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
    lease = await lab.service.leases.take(LeaseBody(holder="ada", ports=["ocs1.1"], for_s=600))
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
    (found,) = (await lab.service.rack.status()).desired
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


# --- `hwd history` and `hwd rollback --to`: who applied what, and the way to the state before any of it


async def go_before(lab: Lab, id: str, **more: Any) -> ReconfigurationStatus:
    return await lab.in_daemon(lab.apply("", before=id, **more))


def words(entries: list[HistoryEntry]) -> list[tuple[str, str, str | None]]:
    return [(one.what, one.who, one.outcome) for one in entries]


async def test_history_says_who_applied_what_with_what_outcome_after_a_restart_too(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B", by="ada@lab")
    await lab.apply("ocs1:2A-4B", Caller(name="night-shift", is_verified=True), by="somebody else")
    with pytest.raises(HwdError):
        await lab.apply("ocs1:1A-4B", mode="safe", by="grace@lab")  # refused before it began
    third = await lab.apply("ocs1:5A-5B", confirm_within_s=600)
    expected = [
        ("ocs1:5A-5B", "not stated", None),
        ("ocs1:2A-4B", "night-shift", "confirmed"),
        ("ocs1:1A-3B", "ada@lab (unverified)", "confirmed"),
    ]
    assert words(await lab.service.light.history(limit=50)) == expected
    await lab.restart()
    await lab.service.light.roll_back(third.id)
    found = await lab.service.light.history(limit=50)
    assert words(found) == [("ocs1:5A-5B", "not stated", "rolled-back"), *expected[1:]]
    assert found[0].why == "roll-back asked for"
    assert words(await lab.service.light.history(limit=1)) == words(found)[:1]
    assert words(await lab.service.light.history(limit=9, before=found[0].id)) == expected[1:]
    assert words(await lab.service.light.history(limit=9, port="ocs1.4")) == expected[1:2]
    assert words(await lab.service.light.history(limit=9, switch="ocs1")) == words(found)
    with pytest.raises(UnknownError, match="reconfiguration nobody: not in the records"):
        await lab.service.light.history(limit=9, before="nobody")


async def test_apply_of_a_hash_is_of_who_applies_it(lab: Lab) -> None:
    made = await lab.plan("ocs1:1A-3B")
    await lab.apply("", hash=made.hash, by="ada@lab")
    assert words(await lab.service.light.history(limit=9)) == [("ocs1:1A-3B", "ada@lab (unverified)", "confirmed")]


async def test_state_before_a_reconfiguration_undoes_it_and_all_after_it_and_leaves_the_rest(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B,2A-4B,6A-6B")
    second = await lab.apply("ocs1:1A-4B")
    await lab.apply("ocs1:1A-none,2A-3B,7A-7B")
    await lab.panel(add=["8A-8B"])
    await lab.restart()
    back = await go_before(lab, second.id)
    assert back.outcome == "confirmed"
    assert lab.light() == {"1A-3B", "2A-4B", "6A-6B", "8A-8B"}
    (desired,) = (await lab.service.rack.status()).desired
    assert sorted(desired.crossconnects) == ["1A-3B", "2A-4B", "6A-6B"]
    assert not desired.differs
    assert (await lab.service.light.history(limit=1))[0].what == f"state before {second.id}"
    again = await go_before(lab, back.id)
    assert again.outcome == "confirmed"
    assert lab.light() == {"2A-3B", "7A-7B", "6A-6B", "8A-8B"}, "and forth again"


async def test_rolled_back_one_undoes_nothing(lab: Lab) -> None:
    first = await lab.apply("ocs1:1A-3B")
    undone = await lab.apply("ocs1:1A-4B", confirm_within_s=60)
    await lab.service.light.roll_back(undone.id)
    made = await lab.plan("", before=undone.id)
    assert made.empty
    assert not (await lab.plan("", before=first.id)).empty
    await lab.panel(remove=["1A-3B"], add=["1A-7B"])
    made = await lab.plan("", before=undone.id)
    assert made.empty, "what somebody else did since is not its doing"


async def delete_old(folder: Path, before_wall_ns: int) -> None:
    """What the daemon's retention does, days later."""
    records = Records(f"sqlite:///{folder / 'records.db'}", InlineOffload())
    await records.open()
    cutoff = Cutoff(before_wall_ns=before_wall_ns, why="older than the retention of 30 days")
    batch = Batch()
    while batch.groups:
        batch = await records.old_documents.delete(batch, dict.fromkeys(DocumentGroup, cutoff), frozenset())
    records.close()


async def test_state_before_what_the_retention_deleted_is_refused_and_what_is_left_works(
    lab: Lab, tmp_path: Path
) -> None:
    first = await lab.apply("ocs1:1A-3B")
    second = await lab.apply("ocs1:1A-4B")
    await asyncio.sleep(10.0)
    await delete_old(tmp_path, lab.world.clock.wall_ns())
    expected = [
        ("ocs1:1A-4B", "not stated", "confirmed"),
        ("up to here only those of runs are left: older than the retention of 30 days", "the daemon", "deleted"),
    ]
    assert words(await lab.service.light.history(limit=9)) == expected
    with pytest.raises(RefusedError, match=r"older than the retention of 30 days.*before it is not known"):
        await go_before(lab, first.id)
    await lab.restart()
    await asyncio.sleep(10.0)
    assert words(await lab.service.light.history(limit=9)) == expected, "the journal does not tell the first one again"
    assert (await go_before(lab, second.id)).outcome == "confirmed"
    assert lab.light() == {"1A-3B"}


async def test_state_that_somebody_else_changed_in_between_is_not_known(lab: Lab) -> None:
    first = await lab.apply("ocs1:1A-3B")
    await lab.panel(remove=["1A-3B"], add=["1A-7B"])
    await lab.apply("ocs1:2A-7B")
    with pytest.raises(RefusedError, match="1A-7B was found at 7B and not at 1A, so that somebody else changed it"):
        await go_before(lab, first.id)
