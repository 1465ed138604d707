"""Old documents outside of runs are deleted in batches, but for those that something still needs."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from hwd.model.daemon import BusDown, BusUp, JournalOpen
from hwd.model.host import HostEvent, HostSelection
from hwd.model.reconfiguration import HistoryEntry, ReconfigurationEnded, ReconfigurationStarted, WantedSwitch
from hwd.model.switch import SwitchAdopted
from hwd.model.timeline import Timeline
from hwd.records.gaps import HISTORY, DocumentGroup
from hwd.records.old_documents import ROWS, Batch, Cutoff
from hwd.records.reconfiguration_log import KINDS, ReconfigurationLog
from hwd.records.records import Records
from hwd_agents.wire import Selected
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.errors import FailedError, UnknownError

from ..texts import ends_of, pairs_of
from . import facts
from .conftest import Restart

DOCUMENTS, OF_HISTORY = DocumentGroup.DOCUMENTS, DocumentGroup.HISTORY


def ended(id: str, crossconnects: str = "") -> ReconfigurationEnded:
    wanted = [WantedSwitch(switch="ocs1", crossconnects=pairs_of(*crossconnects.split()), free=[])]
    return ReconfigurationEnded(
        reconfiguration=id, run=None, outcome="confirmed", why="", seconds=1.0, wanted=wanted if crossconnects else []
    )


def started(id: str) -> ReconfigurationStarted:
    return ReconfigurationStarted(reconfiguration=id, run=None, hash="", what="ring", moves=[], links=[])


def left_open(id: str) -> JournalOpen:
    """It names a reconfiguration, and is not of the history."""
    return JournalOpen(reconfiguration=id, run=None, what="ring", why="")


def selection(id: str) -> HostSelection:
    return HostSelection(
        host="h0",
        boot="b1",
        selection=id,
        outcome="up",
        why="",
        seconds=1.0,
        requested_ns=1,
        answered_ns=2,
        error_ns=0,
        switches={},
        ports={},
    )


def timeline(id: str) -> Timeline:
    return Timeline(reconfiguration=id, run=None, what="", commands=[], ends=[], links=[], breaches=[])


def event(seq: int) -> HostEvent:
    fact = facts.event(seq).fact
    assert isinstance(fact, HostEvent)
    return fact


def up(address: str = "") -> BusUp:
    return BusUp(address=address)


async def add(records: Records, *facts: tuple[int, Fact], run: str | None = None) -> None:
    await records.add_documents([Document(at_ns=at, wall_ns=at, fact=fact) for at, fact in facts], run=run)


async def delete(records: Records, *needed: str, **before: int) -> dict[str, int]:
    """Delete what is before these times, by group; returns how many of each."""
    cutoffs = {DocumentGroup(name): Cutoff(before_wall_ns=at, why="too old") for name, at in before.items()}
    batch, deleted = Batch(), dict.fromkeys(before, 0)
    while batch.groups:
        batch = await records.old_documents.delete(batch, cutoffs, frozenset(needed))
        for group, count in batch.deleted.items():
            deleted[group] += count
    return deleted


async def times(records: Records) -> Sequence[int]:
    return [stored.document.wall_ns for stored in await records.documents()]


async def upto(records: Records) -> dict[DocumentGroup, int]:
    return {group: gap.wall_ns for group, gap in (await records.gaps.all()).items()}


def test_all_that_the_history_is_read_from_is_retained_as_history() -> None:
    assert {fact.KIND for fact in KINDS} < HISTORY


async def test_each_group_has_its_own_age_and_documents_of_runs_stay(memory: Records) -> None:
    await add(memory, (1, up()), (2, ended("a")), (3, up()))
    await add(memory, (4, up()), (4, ended("r")), run="run1")
    await add(memory, (5, ended("b")), (6, up()), (7, ended("c")))
    assert await upto(memory) == {}
    assert await delete(memory, documents=6) == {"documents": 2}
    assert await times(memory) == [2, 4, 4, 5, 6, 7]
    assert await upto(memory) == {DOCUMENTS: 3}
    assert await delete(memory, documents=6, history=5) == {"documents": 0, "history": 1}
    assert await times(memory) == [4, 4, 5, 6, 7]
    assert await upto(memory) == {DOCUMENTS: 3, OF_HISTORY: 2}


async def test_newest_of_each_kind_stays(memory: Records) -> None:
    await add(memory, (1, up()), (2, BusDown(address="", cause="")), (3, up()), (4, started("a")), (5, ended("a")))
    assert await delete(memory, documents=99, history=99) == {"documents": 1, "history": 0}
    assert await times(memory) == [2, 3, 4, 5]


async def test_many_are_deleted_over_several_batches(memory: Records) -> None:
    for start in range(0, 280, 40):
        await add(memory, *((start + n, up()) for n in range(40)))
    assert ROWS < 280
    batch = await memory.old_documents.delete(
        Batch(), {DOCUMENTS: Cutoff(before_wall_ns=270, why="too old")}, frozenset()
    )
    assert batch.deleted == {DOCUMENTS: ROWS}
    assert await delete(memory, documents=270) == {"documents": 270 - ROWS}
    assert await times(memory) == [*range(270, 280)]


async def test_long_documents_end_a_batch_early(memory: Records) -> None:
    await add(memory, *((n, up("x" * 2_000_000)) for n in range(5)))
    batch = await memory.old_documents.delete(
        Batch(), {DOCUMENTS: Cutoff(before_wall_ns=9, why="too old")}, frozenset()
    )
    assert batch.deleted == {DOCUMENTS: 3}
    assert batch.groups


async def test_nothing_after_a_younger_document_is_deleted_though_a_wrong_clock_dated_it_older(memory: Records) -> None:
    await add(memory, (1, ended("a")), (90, ended("b")), (2, ended("c")), (91, ended("d")))
    assert await delete(memory, history=50) == {"history": 1}
    assert await times(memory) == [90, 2, 91]


async def test_what_has_not_ended_stays_in_both_groups(memory: Records) -> None:
    await add(memory, (1, started("open")), (2, started("over")), (3, left_open("open")), (4, left_open("over")))
    await add(memory, (5, started("new")), (6, left_open("new")))
    assert await delete(memory, "open", documents=9, history=9) == {"documents": 1, "history": 1}
    assert await times(memory) == [1, 3, 5, 6]


async def test_origin_of_a_desired_state_stays_until_something_else_is_desired(memory: Records) -> None:
    adopted = SwitchAdopted(
        switch="ocs1", crossconnects=pairs_of("5A-6B"), free=ends_of("7A"), by="found at the switch"
    )
    await add(memory, (1, started("a")), (2, ended("a", "1A-2B")), (3, adopted), (4, started("b")), (5, ended("b")))
    await add(memory, (6, started("c")), (7, ended("c")), (8, replace(adopted, free=[], switch="x")))
    assert await delete(memory, history=99) == {"history": 2}
    assert await times(memory) == [1, 2, 3, 6, 7, 8]
    await add(memory, (9, started("d")), (10, ended("d", "1A-2B 5A-6B")))
    assert await delete(memory, history=9) == {"history": 4}
    assert await times(memory) == [3, 8, 9, 10], "7A is as adopted still"


async def test_deletion_by_number_leaves_a_gap_too(restart: Restart) -> None:
    records = await restart(unowned_kept=5)
    await add(records, *((n, up()) for n in range(20)))
    assert await upto(records) == {DOCUMENTS: 15}
    (gap,) = (await records.gaps.all()).values()
    assert gap.why == "older than the newest 5 documents outside of runs"


async def test_history_is_known_to_be_missing_up_to_what_was_deleted(memory: Records) -> None:
    await add(memory, (0, up()), run="run1")
    assert await memory.reconfigurations.unowned_since_wall_ns() is None
    await add(memory, (1, up()), (2, started("a")), (5, ended("a")), (7, started("b")), (8, ended("b")))
    assert await memory.reconfigurations.unowned_since_wall_ns() == 1
    await delete(memory, history=6)
    assert await memory.reconfigurations.unowned_since_wall_ns() == 6


async def test_selection_whose_timeline_was_deleted_is_not_taken_for_unfinished(memory: Records) -> None:
    """The event, of a run, and the newest selection stay, and its timeline does not."""
    selected = Selected(outcome="up", selection="s1", requested_ns=1, answered_ns=2)
    of_selection = replace(event(1), type="selection", data=selected)
    await add(memory, (1, of_selection), run="run1")
    await add(memory, (2, selection("s1")), (3, timeline("s1")), (4, timeline("r2")))
    assert await memory.unfinished_selections.read() == ([], [of_selection])
    assert await delete(memory, documents=4) == {"documents": 1}
    assert await times(memory) == [1, 2, 4]
    assert (await memory.unfinished_selections.read())[0] == []
    await add(memory, (5, selection("s3")), (6, replace(of_selection, seq=2, data=replace(selected, selection="s3"))))
    assert len((await memory.unfinished_selections.read())[0]) == 1


# --- the history says where older ones were deleted, and never passes off what is left as the whole


S = 10**9


async def nothing_to_record() -> None:
    """All documents are in the records."""


async def add_whole(records: Records, id: str, at_s: int, *, run: str | None = None) -> None:
    await add(records, *((at_s * S, replace(fact, run=run)) for fact in (started(id), ended(id))), run=run)


def words(entries: list[HistoryEntry]) -> list[str | None]:
    return [one.id or one.outcome for one in entries]


async def test_place_of_what_was_deleted_is_an_entry_of_its_own(memory: Records) -> None:
    log = ReconfigurationLog(memory, nothing_to_record)
    await add_whole(memory, "a", 1)
    await add_whole(memory, "of-run", 2, run="run1")
    await add_whole(memory, "b", 3)
    await add_whole(memory, "c", 4)
    assert words(await log.newest(limit=9)) == ["c", "b", "of-run", "a"]
    await delete(memory, history=4 * S)
    found = await log.newest(limit=9)
    assert words(found) == ["c", "deleted", "of-run"]
    assert (found[1].wall_ns, found[1].what) == (3 * S, "up to here only those of runs are left: too old")
    assert words(await log.newest(limit=1)) == ["c"]
    assert words(await log.newest(limit=9, switch="ocs1")) == ["deleted"], "it may have been among these"
    assert words(await log.newest(limit=9, before="c")) == ["deleted", "of-run"]


async def test_newest_are_told_while_the_records_take_no_more_and_what_may_be_missing(memory: Records) -> None:
    async def full() -> None:
        raise FailedError("the disk of records.db is full")

    log = ReconfigurationLog(memory, full)
    with pytest.raises(FailedError, match=r"^history: the disk of records\.db is full"):
        await log.newest(limit=1)
    await add_whole(memory, "a", 1)
    await add_whole(memory, "b", 2)
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
    await add_whole(memory, "of-run", 1, run="run1")
    for number, id in enumerate(("a", "b", "c"), 2):
        await add_whole(memory, id, number)
    assert words(await log.since("of-run")) == ["of-run", "a", "b", "c"]
    await delete(memory, history=3 * S)
    assert words(await log.since("b")) == ["b", "c"]
    for id in ("a", "of-run", "nobody"):
        with pytest.raises(UnknownError) as refusal:
            await log.since(id)
        assert f"reconfiguration {id}: not in the records since 1970-01-01 00:00:02 UTC" in str(refusal.value)
        assert "was deleted: too old" in str(refusal.value)
    with pytest.raises(UnknownError, match=r"reconfiguration a: .*too old"):
        await log.newest(limit=1, before="a")
