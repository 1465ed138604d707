"""`hwd history` and `hwd rollback --to`: who applied what, and the way to the state before any of it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hwd.model.answers import HistoryEntry, ReconfigurationStatus
from hwd.model.request import Caller
from hwd.records.gaps import DocumentGroup
from hwd.records.old_documents import Batch, Cutoff
from hwd.records.records import Records
from hwd_drivers.core.errors import HwdError, RefusedError, UnknownError
from hwd_drivers.core.offload import InlineOffload

from ..conftest import Lab


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
    assert words(await lab.service.history(limit=50)) == expected
    await lab.restart()
    await lab.service.roll_back(third.id)
    found = await lab.service.history(limit=50)
    assert words(found) == [("ocs1:5A-5B", "not stated", "rolled-back"), *expected[1:]]
    assert found[0].why == "roll-back asked for"
    assert words(await lab.service.history(limit=1)) == words(found)[:1]
    assert words(await lab.service.history(limit=9, before=found[0].id)) == expected[1:]
    assert words(await lab.service.history(limit=9, port="ocs1.4")) == expected[1:2]
    assert words(await lab.service.history(limit=9, switch="ocs1")) == words(found)
    with pytest.raises(UnknownError, match="reconfiguration nobody: not in the records"):
        await lab.service.history(limit=9, before="nobody")


async def test_apply_of_a_hash_is_of_who_applies_it(lab: Lab) -> None:
    made = await lab.plan("ocs1:1A-3B")
    await lab.apply("", hash=made.hash, by="ada@lab")
    assert words(await lab.service.history(limit=9)) == [("ocs1:1A-3B", "ada@lab (unverified)", "confirmed")]


async def test_state_before_a_reconfiguration_undoes_it_and_all_after_it_and_leaves_the_rest(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B,2A-4B,6A-6B")
    second = await lab.apply("ocs1:1A-4B")
    await lab.apply("ocs1:1A-none,2A-3B,7A-7B")
    await lab.panel(add=["8A-8B"])
    await lab.restart()
    back = await go_before(lab, second.id)
    assert back.outcome == "confirmed"
    assert lab.light() == {"1A-3B", "2A-4B", "6A-6B", "8A-8B"}
    (desired,) = lab.service.status().desired
    assert sorted(desired.crossconnects) == ["1A-3B", "2A-4B", "6A-6B"]
    assert not desired.differs
    assert (await lab.service.history(limit=1))[0].what == f"state before {second.id}"
    again = await go_before(lab, back.id)
    assert again.outcome == "confirmed"
    assert lab.light() == {"2A-3B", "7A-7B", "6A-6B", "8A-8B"}, "and forth again"


async def test_rolled_back_one_undoes_nothing(lab: Lab) -> None:
    first = await lab.apply("ocs1:1A-3B")
    undone = await lab.apply("ocs1:1A-4B", confirm_within_s=60)
    await lab.service.roll_back(undone.id)
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
    assert words(await lab.service.history(limit=9)) == expected
    with pytest.raises(RefusedError, match=r"older than the retention of 30 days.*before it is not known"):
        await go_before(lab, first.id)
    await lab.restart()
    await asyncio.sleep(10.0)
    assert words(await lab.service.history(limit=9)) == expected, "the journal does not tell the first one again"
    assert (await go_before(lab, second.id)).outcome == "confirmed"
    assert lab.light() == {"1A-3B"}


async def test_state_before_what_the_records_lack_is_refused_in_words(lab: Lab) -> None:
    with pytest.raises(RefusedError, match=r"reconfiguration gone: not in the records.*before it is not known"):
        await go_before(lab, "gone")


async def test_state_that_somebody_else_changed_in_between_is_not_known(lab: Lab) -> None:
    first = await lab.apply("ocs1:1A-3B")
    await lab.panel(remove=["1A-3B"], add=["1A-7B"])
    await lab.apply("ocs1:2A-7B")
    with pytest.raises(RefusedError, match="1A-7B was found at 7B and not at 1A, so that somebody else changed it"):
        await go_before(lab, first.id)
