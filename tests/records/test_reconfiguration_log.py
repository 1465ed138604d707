"""The history says where older ones were deleted, and never passes off what is left as the whole."""

import pytest

from hwd.model.answers import HistoryEntry
from hwd.model.documents.reconfigurations import ReconfigurationEnded, ReconfigurationStarted
from hwd.records.gaps import DocumentGroup
from hwd.records.old_documents import Batch, Cutoff
from hwd.records.reconfiguration_log import ReconfigurationLog
from hwd.records.records import Records
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import FailedError, UnknownError

WHY = "older than the retention of 3 days"
S = 10**9


async def nothing_to_record() -> None:
    """All documents are in the records."""


async def add(records: Records, id: str, at_s: int, *, run: str | None = None) -> None:
    started = ReconfigurationStarted(reconfiguration=id, run=run, hash="", what=id, links=[], moves=[])
    ended = ReconfigurationEnded(reconfiguration=id, run=run, outcome="confirmed", why="", seconds=1.0)
    both = [Document(at_ns=at_s * S, wall_ns=at_s * S, fact=fact) for fact in (started, ended)]
    await records.add_documents(both, run=run)


async def delete_before(records: Records, at_s: int) -> None:
    cutoffs = {DocumentGroup.HISTORY: Cutoff(before_wall_ns=at_s * S, why=WHY)}
    batch = Batch()
    while batch.groups:
        batch = await records.old_documents.delete(batch, cutoffs, frozenset())


def words(entries: list[HistoryEntry]) -> list[str | None]:
    return [one.id or one.outcome for one in entries]


async def test_place_of_what_was_deleted_is_an_entry_of_its_own(memory: Records) -> None:
    log = ReconfigurationLog(memory, nothing_to_record)
    await add(memory, "a", 1)
    await add(memory, "of-run", 2, run="run1")
    await add(memory, "b", 3)
    await add(memory, "c", 4)
    assert words(await log.newest(limit=9)) == ["c", "b", "of-run", "a"]
    await delete_before(memory, 4)
    found = await log.newest(limit=9)
    assert words(found) == ["c", "deleted", "of-run"]
    assert (found[1].wall_ns, found[1].what) == (3 * S, f"up to here only those of runs are left: {WHY}")
    assert words(await log.newest(limit=1)) == ["c"]
    assert words(await log.newest(limit=9, switch="ocs1")) == ["deleted"], "it may have been among these"
    assert words(await log.newest(limit=9, before="c")) == ["deleted", "of-run"]


async def test_newest_are_told_while_the_records_take_no_more_and_what_may_be_missing(memory: Records) -> None:
    async def full() -> None:
        raise FailedError("the disk of records.db is full")

    log = ReconfigurationLog(memory, full)
    with pytest.raises(FailedError, match=r"^history: the disk of records\.db is full"):
        await log.newest(limit=1)
    await add(memory, "a", 1)
    await add(memory, "b", 2)
    found = await log.newest(limit=1)
    assert words(found) == ["unrecorded", "b"]
    assert (found[0].wall_ns, found[0].what) == (
        2 * S,
        "what came after this may be missing: the disk of records.db is full",
    )
    assert words(await log.newest(limit=9, before="b")) == ["a"]
    with pytest.raises(FailedError, match="is full"):
        await log.since("a")


async def test_all_since_a_reconfiguration_is_refused_where_some_of_it_was_deleted(memory: Records) -> None:
    log = ReconfigurationLog(memory, nothing_to_record)
    await add(memory, "of-run", 1, run="run1")
    for number, id in enumerate(("a", "b", "c"), 2):
        await add(memory, id, number)
    assert words(await log.since("of-run")) == ["of-run", "a", "b", "c"]
    await delete_before(memory, 3)
    assert words(await log.since("b")) == ["b", "c"]
    for id in ("a", "of-run", "nobody"):
        with pytest.raises(UnknownError) as refusal:
            await log.since(id)
        assert f"reconfiguration {id}: not in the records since 1970-01-01 00:00:02 UTC" in str(refusal.value)
        assert f"was deleted: {WHY}" in str(refusal.value)
    with pytest.raises(UnknownError, match=r"reconfiguration a: .*older than the retention of 3 days"):
        await log.newest(limit=1, before="a")
