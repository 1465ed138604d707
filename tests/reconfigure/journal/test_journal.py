import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace as changed

from hwd.model.daemon import JournalGivenUp
from hwd.model.desired_state import wanted_of
from hwd.model.link import Link
from hwd.model.plan import Plan
from hwd.model.reconfiguration import EndFact, ReconfigurationEnded, WantedSwitch
from hwd.reconfigure.apply.confirm_wait import ConfirmTerms, ConfirmWait
from hwd.reconfigure.journal import journal as journal_module
from hwd.reconfigure.journal.facts import DatedFact
from hwd.reconfigure.journal.journal import Journal
from hwd_drivers.core.disk import SECTOR_BYTES, FileDisk, MemoryDisk
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.frames import decode_frames, encode_frame
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves

from ...texts import ends_of, pairs_of
from ..conftest import entry_of, plan_of


def crossconnects(*texts: str) -> tuple[Crossconnect, ...]:
    return tuple(map(Crossconnect.parse, texts))


MOVES = SwitchMoves(
    switch="ocs1",
    remove=crossconnects("1A-2B"),
    add=crossconnects("1A-3B", "3A-1B"),
    keep=crossconnects("7A-8B"),
    before=crossconnects("1A-2B", "7A-8B"),
    failed=crossconnects("1A-2B"),
    lasting=crossconnects("1A-3B"),
)


def plan() -> Plan:
    return plan_of(MOVES)


TERMS = ConfirmTerms(
    mode=ApplyMode.SAFE,
    lease="l7",
    ready_within_s=15.0,
    confirm_within_s=60.0,
    links=((Link.parse("h0.eth0<->h1.eth0"), False), (Link.parse("h0.eth1<->h1.eth1"), True)),
    owner="an apply",
    ports=("h0.eth0", "ocs1.1", "ocs1.3"),
    relies_on=("ocs1.7",),
    switches=("ocs1",),
    whole=True,
)


def disk_of(data: bytes) -> MemoryDisk:
    """As a daemon finds it at its start."""
    disk = MemoryDisk()
    disk.append(data)
    disk.close()
    return disk


def journal_of(*ids: str, terms: ConfirmTerms | None = None) -> tuple[MemoryDisk, Journal]:
    """A journal in which these are open."""
    disk = MemoryDisk()
    journal = Journal(disk)
    journal.load(fresh="j1")
    for id in ids:
        journal.begin(entry_of(plan(), id, terms=terms))
    return disk, journal


def ids_in(disk: MemoryDisk, *, known: str | None = "j1") -> list[str]:
    """What is open in it at the next start."""
    return [entry.reconfiguration for entry in Journal(disk).load(known=known)]


WAIT = ConfirmWait(started_wall_ns=1_700_000_000_000_000_000, until_wall_ns=1_700_000_070_000_000_000, within_s=60.0)


def test_what_stays_open_does_not_let_the_journal_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "COMPACT_BYTES", 2_000)
    disk = MemoryDisk()
    journal = Journal(disk)
    journal.begin(entry_of(plan(), "away", run="run1"))
    one_bytes, largest_bytes = disk.size(), 0
    for number in range(100):
        journal.begin(entry_of(plan(), f"r{number}"))
        journal.end(f"r{number}", outcome="confirmed")
        largest_bytes = max(largest_bytes, disk.size())
    assert largest_bytes < 2_000 + 6 * one_bytes
    disk.crash()
    (entry,) = Journal(disk).load()
    assert (entry.reconfiguration, entry.run, entry.moves) == ("away", "run1", (MOVES,))
    again = Journal(disk)
    again.load()
    again.end("away", outcome="confirmed")
    disk.crash()
    assert Journal(disk).load() == ()


def ended(id: str, outcome: str, why: str = "") -> DatedFact[EndFact]:
    wanted = wanted_of([MOVES]) if outcome == "confirmed" else UNSET
    fact = ReconfigurationEnded(
        reconfiguration=id, run=None, what="ring", outcome=outcome, why=why, seconds=0.1, wanted=wanted
    )
    return DatedFact(wall_ns=1_700_000_000_000_000_000, fact=fact)


def written() -> tuple[MemoryDisk, Journal]:
    """Begun anew with r1 open, then r2 and r3 that ended, and r4 open."""
    disk = MemoryDisk()
    older = Journal(disk)
    older.load(fresh="j1")
    for id in ("r0", "r1"):
        older.begin(entry_of(plan(), id))
    older.end("r0", outcome="confirmed", dated=ended("r0", "confirmed"))
    disk.append(b"\0damage\0")
    journal = Journal(disk)
    journal.load(known="j1")
    for lost in [entry.reconfiguration for entry in journal.open if entry.doubt]:
        journal.end(lost, outcome="given-up")
    journal.begin(entry_of(plan(), "r1"))
    journal.begin(entry_of(plan(), "r2", run="run2"))
    journal.end("r2", outcome="confirmed", dated=ended("r2", "confirmed"))
    journal.begin(entry_of(plan(), "r3"))
    journal.begin(entry_of(plan(), "r4"))
    journal.end("r3", outcome="rolled-back", dated=ended("r3", "rolled-back", "aborted"))
    for id in ("r5", "r6"):
        journal.begin(entry_of(plan(), id, terms=TERMS))
        journal.await_confirm(id, WAIT)
    journal.go_back("r6")
    journal.end("r6", outcome="rolled-back")
    return disk, journal


OPEN, ENDED = {"r1", "r4", "r5"}, {"r0", "r2", "r3", "r6"}


def found(data: bytes) -> set[str]:
    """Load a damaged journal and return what is recovered.

    Nothing that had ended is brought back, and nothing that was open is dropped silently.
    """
    disk = disk_of(data)
    journal = Journal(disk)
    opened = {entry.reconfiguration: entry for entry in journal.load(known="j1")}
    brought_back = {id for id, entry in opened.items() if not entry.doubt}
    assert brought_back <= OPEN, f"{brought_back - OPEN} had ended"
    assert not any(entry.doubt and entry.awaits_confirm for entry in opened.values()), "what is held is not waited for"
    lost = [entry for entry in opened.values() if entry.doubt and not entry.moves]
    assert opened.keys() >= OPEN or lost, f"{OPEN - opened.keys()} are dropped"
    assert all(entry.concerns("any") for entry in lost)
    damage = journal.damage
    assert damage is not None or brought_back == OPEN
    assert disk.asides == ([data] if damage is not None and any(data) else [])
    if damage is not None:
        assert damage.held == tuple(id for id, entry in opened.items() if entry.doubt)

    again = Journal(disk)
    assert {entry.reconfiguration: entry for entry in again.load(known="j1")} == opened, "until somebody decides"
    assert again.damage is None, "said once"
    again.begin(entry_of(plan(), "later"))
    for id in opened:
        again.end(id, outcome="given-up")
    assert ids_in(disk) == ["later"]
    return brought_back


PARTS = 23
"""So many tests share the bytes; the first of them is quick enough for `make test`."""
IN_PARTS = pytest.mark.parametrize(
    "first", [0, *(pytest.param(one, marks=pytest.mark.slow) for one in range(1, PARTS))]
)


@IN_PARTS
def test_flipped_bit_of_every_byte_is_noticed_and_neither_drops_nor_brings_back_what_it_must_not(first: int) -> None:
    disk, _ = written()
    whole = disk.read()
    brought_back: list[set[str]] = []
    for at in range(first, disk.size() + 80, PARTS):
        data = bytearray(whole)
        data[at] ^= 1 << at * 5 % 8
        brought_back.append(found(bytes(data)))
    assert brought_back.count(OPEN) > len(brought_back) / 4, "what is sure is brought back all the same"


@IN_PARTS
def test_file_that_is_cut_off_anywhere_is_noticed_and_neither_drops_nor_brings_back_what_it_must_not(
    first: int,
) -> None:
    disk, _ = written()
    whole = disk.read()
    for size in range(first, disk.size() + 80, PARTS):
        brought_back = found(whole[:size])
        assert size >= disk.size() or not brought_back, "any of them may have ended behind the cut"


@given(st.data())
def test_bytes_that_are_overwritten_anywhere_neither_drop_nor_bring_back_what_they_must_not(
    data: st.DataObject,
) -> None:
    disk, _ = written()
    damaged = bytearray(disk.read())
    at = data.draw(st.integers(0, disk.size() - 1))
    damaged[at : at + 20] = data.draw(st.binary(min_size=20, max_size=20).filter(lambda new: new[-1]))
    found(bytes(damaged))


def test_damage_of_an_entry_that_ended_holds_nothing() -> None:
    disk, _ = written()
    data = bytearray(disk.read())
    data[data.index(b'"run2"') + 2] ^= 1
    assert found(bytes(data)) == OPEN


@pytest.mark.parametrize("zeros", [0, 1, 5000])
def test_journal_that_is_gone_or_emptied_beside_records_that_know_it_is_damage_and_a_new_one_is_not(zeros: int) -> None:
    assert found(bytes(zeros)) == set()
    disk = MemoryDisk()
    journal = Journal(disk)
    assert (journal.load(known=None, fresh="j1"), journal.damage, journal.id) == ((), None, "j1")
    again = Journal(disk)
    assert (again.load(known="j1"), again.damage) == ((), None)


def test_journal_of_other_records_is_held_and_its_ends_are_not_for_these() -> None:
    disk, journal = written()
    assert {one.begun.reconfiguration for one in journal.ended} == {"r0", "r2", "r3"}
    other = Journal(disk)
    assert all(entry.doubt for entry in other.load(known="other"))
    assert other.ended == ()
    assert other.damage is not None
    assert "it is journal j1, and the records belong to journal other" in other.damage.why


@pytest.mark.parametrize(("version", "who"), [(1, "an older"), (4, "an older"), (6, "a newer")])
def test_journal_of_another_version_is_refused_and_left_as_it_is(version: int, who: str) -> None:
    stated = b'"v":%d,' % version if version > 1 else b""
    disk = disk_of(encode_frame(b'{"entry":"journal",%s"id":"j1"}' % stated))
    before = disk.read()
    with pytest.raises(ConfigError, match=rf"by {who} hwd \(version {version}, this one knows 5\), and left as"):
        Journal(disk).load(known="j1")
    assert (disk.read(), disk.asides) == (before, [])


def test_end_that_was_written_and_not_synced_before_its_writer_died_is_not_taken_back_after_it_was_believed() -> None:
    disk, _ = journal_of("r1")
    dying = Journal(disk, sync=False)
    dying.load()
    dying.end("r1", outcome="confirmed")
    assert disk.unsynced()
    assert Journal(disk).load() == ()
    disk.crash()
    assert Journal(disk).load() == ()


def test_disk_that_does_not_sync_what_was_read_takes_nothing_before_it_has_all_anew() -> None:
    disk, _ = journal_of("r1")
    dying = Journal(disk, sync=False)
    dying.load()
    dying.end("r1", outcome="confirmed")
    disk.close()
    disk.refusal = (errno.EIO, 0)
    journal = Journal(disk)
    assert (journal.load(), journal.is_written) == ((), False)
    disk.refusal = None
    journal.begin(entry_of(plan(), "r2"))
    disk.crash()
    assert ids_in(disk, known=None) == ["r2"]


def test_journal_that_the_disk_does_not_read_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FileDisk(tmp_path / "journal")

    def refuse(*_: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", refuse)
    with pytest.raises(
        ConfigError, match=r"/journal: the journal cannot be read: Input/output error\. Copy its folder"
    ):
        Journal(disk).load(known="j1")


@pytest.mark.parametrize("open_too", [False, True])
def test_write_that_a_crash_cut_off_at_any_byte_is_no_damage_and_the_rest_is_read(open_too: bool) -> None:
    def begun() -> tuple[MemoryDisk, Journal]:
        disk, journal = journal_of()
        if open_too:
            journal.begin(entry_of(plan(), "r1"))
        return disk, journal

    disk, journal = begun()
    before = disk.size()
    journal.begin(entry_of(plan(), "r2"))
    for kept in range(disk.size() - before):
        disk, journal = begun()
        unsynced = Journal(disk, sync=False)
        unsynced.load(known="j1")
        unsynced.begin(entry_of(plan(), "r2"))
        disk.crash(keep_unsynced=kept)
        again = Journal(disk)
        assert [entry.reconfiguration for entry in again.load(known="j1")] == ["r1"] * open_too
        assert (again.damage, disk.asides) == (None, [])
        again.begin(entry_of(plan(), "r3"))
        assert "r3" in ids_in(disk)


@pytest.mark.parametrize("starts", [40, 200, *range(504, 512)])
def test_sectors_of_a_write_that_reached_the_disk_in_any_order_are_no_damage(starts: int) -> None:
    """Pages of one sync are not ordered. `starts`: where in a sector the entry begins; its header may be in two."""

    def begun(size: int) -> tuple[MemoryDisk, int]:
        disk, journal = journal_of()
        journal.begin(entry_of(replace(plan(), what="x" * size), "r1"))
        return disk, disk.size()

    _, ends = begun(1)
    padded = 1 + (starts - ends) % SECTOR_BYTES
    large = replace(plan(), what="large " * 150)
    for kept in range(2**4):
        disk, at = begun(padded)
        assert at % SECTOR_BYTES == starts
        unsynced = Journal(disk, sync=False)
        unsynced.load(known="j1")
        unsynced.begin(entry_of(large, "r2"))
        first, last = at // SECTOR_BYTES, (disk.size() - 1) // SECTOR_BYTES
        assert last - first in (2, 3)
        disk.crash(keep_sectors=[first + number for number in range(4) if kept >> number & 1])
        again = Journal(disk)
        there = {entry.reconfiguration: entry.doubt for entry in again.load(known="j1")}
        all_there = all(kept >> number & 1 for number in range(last - first + 1))
        assert (there, again.damage) == ({"r1": "", **({"r2": ""} if all_there else {})}, None), (kept, again.damage)
        again.begin(entry_of(plan(), "r3"))
        assert "r3" in ids_in(disk)


def test_zeros_over_an_entry_with_others_behind_it_are_damage() -> None:
    disk, journal = journal_of("r1")
    at = disk.size()
    journal.begin(entry_of(replace(plan(), what="large " * 300), "r2"))
    ends = disk.size()
    journal.begin(entry_of(plan(), "r3"))
    for cut in (0, 40):  # of the last one too
        for zeros in range(at, ends - 1024, 100):
            data = bytearray(disk.read())
            data[zeros : zeros + 1024] = bytes(1024)
            if cut:
                data[disk.size() - cut] ^= 1
            damaged = disk_of(bytes(data))
            again = Journal(damaged)
            again.load(known="j1")
            assert again.damage is not None, (cut, zeros)
            assert again.damage.held


def test_wait_for_a_confirm_is_read_as_it_was_written_and_ends_with_the_roll_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk, journal = journal_of("r1", terms=TERMS)
    disk.crash()
    (begun,) = Journal(disk).load()
    assert (begun.terms, begun.wait, begun.awaits_confirm) == (TERMS, None, False)
    journal.await_confirm("r1", WAIT)
    disk.crash()
    waiting = replace(begun, wait=WAIT)
    assert (Journal(disk).load(), waiting.awaits_confirm) == ((waiting,), True)

    monkeypatch.setattr(journal_module, "COMPACT_BYTES", 0)  # rewritten at each end
    other = Journal(disk)
    other.load()
    for number in range(9):
        other.begin(entry_of(replace(plan(), what="x" * 1000), f"more{number}"))
        other.end(f"more{number}", outcome="confirmed")
    again = Journal(disk)
    assert (again.load(known=other.id), again.damage) == ((waiting,), None)
    again.go_back("r1")
    disk.crash()
    last = Journal(disk)
    assert (last.load(known=other.id), last.damage) == ((begun,), None)
    last.end("r1", outcome="rolled-back")
    assert Journal(disk).load() == ()


@pytest.mark.parametrize("step", ["awaits", "goes-back", "end"])
def test_power_cut_at_any_byte_of_a_wait_or_of_its_end_leaves_what_was_before(step: str) -> None:
    def begun() -> tuple[MemoryDisk, Journal]:
        disk, journal = journal_of("r1", terms=TERMS)
        if step != "awaits":
            journal.await_confirm("r1", WAIT)
        return disk, journal

    def do(journal: Journal) -> None:
        match step:
            case "awaits":
                journal.await_confirm("r1", WAIT)
            case "goes-back":
                journal.go_back("r1")
            case _:
                journal.end("r1", outcome="confirmed", dated=ended("r1", "confirmed"))

    disk, journal = begun()
    before, size = journal.open, disk.size()
    do(journal)
    for kept in range(disk.size() - size):
        disk, _ = begun()
        unsynced = Journal(disk, sync=False)
        unsynced.load()
        do(unsynced)
        disk.crash(keep_unsynced=kept)
        again = Journal(disk)
        assert (again.load(), again.damage, disk.asides) == (before, None, [])
        assert again.ended == (), "half an end is none"
        do(again)
        last = Journal(disk)
        assert (last.load(), last.ended) == (journal.open, journal.ended)


def test_room_for_the_wait_its_roll_back_and_its_end_is_reserved_with_the_begin() -> None:
    disk = MemoryDisk(capacity_bytes=4_000)
    journal = Journal(disk)
    begun: list[str] = []
    with pytest.raises(OSError, match="No space"):
        for number in range(10):
            journal.begin(entry_of(plan(), f"r{number}", terms=TERMS))
            begun.append(f"r{number}")
    assert begun
    disk.capacity_bytes = 0
    longest = changed(WAIT, started_wall_ns=-(10**18), until_wall_ns=2**63, within_s=86_399.123456789012)
    for id in begun:
        journal.await_confirm(id, longest)
    again = Journal(disk)
    assert [entry.wait for entry in again.load()] == [longest] * len(begun)
    assert (again.trouble, again.damage) == ("", None)
    for id in begun:
        again.go_back(id)
    last = Journal(disk)
    last.load()
    for id in begun:
        last.end(id, outcome="rolled-back")
    assert Journal(disk).load() == ()


def test_entry_with_another_crash_rule_is_held_until_somebody_decides() -> None:
    """No hwd has written one: this one cannot tell where it would have to go."""
    data = journal_of("r1")[0].read()
    (payload,) = (one for one in decode_frames(data.rstrip(b"\0")).payloads if b"roll-back" in one)
    journal = Journal(
        disk_of(data.replace(encode_frame(payload), encode_frame(payload.replace(b"roll-back", b"finish"))))
    )
    (entry,) = journal.load(known="j1")
    assert "may have held a reconfiguration that was cut off" in entry.doubt
    assert journal.damage is not None
    assert journal.damage.held == (entry.reconfiguration,)


def test_damaged_journal_on_a_full_disk_is_left_as_it_is_until_it_can_be_set_aside() -> None:
    disk, _ = written()
    data = bytearray(disk.read())
    data[20] ^= 1
    disk.replace(bytes(data))
    disk.refusal = (errno.ENOSPC, 0)
    journal = Journal(disk)
    held = {entry.reconfiguration for entry in journal.load(known="j1") if entry.doubt}
    assert held
    assert disk.read() == bytes(data)
    with pytest.raises(OSError, match="No space"):
        journal.begin(entry_of(plan(), "later"))
    disk.refusal = None
    journal.begin(entry_of(plan(), "later"))
    assert disk.asides[-1] == bytes(data)
    assert held < {entry.reconfiguration for entry in Journal(disk).load(known="j1")}


def test_torn_tail_that_could_not_be_cut_off_is_gone_before_anything_is_written_behind_it() -> None:
    disk, journal = journal_of("r1")
    data = disk.read().rstrip(b"\0")
    disk.replace(data + encode_frame(b'{"entry":"end"}')[:-3], reserve=100)
    disk.close()
    disk.refusal = (errno.EIO, 0)
    journal = Journal(disk)
    assert [entry.reconfiguration for entry in journal.load(known="j1")] == ["r1"]
    disk.refusal = None
    journal.begin(entry_of(plan(), "r2"))
    again = Journal(disk)
    assert [(entry.reconfiguration, entry.doubt) for entry in again.load(known="j1")] == [("r1", ""), ("r2", "")]
    assert again.damage is None


def test_disk_that_failed_while_room_was_held_takes_the_next_entry_as_large_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed sync a file refuses to go on until it is replaced."""
    disk = FileDisk(tmp_path / "journal")
    journal = Journal(disk)
    journal.load(fresh="j1")
    large = replace(plan(), what="ring " * 10_000)

    def refuse(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", refuse)
        with pytest.raises(OSError, match="Input/output"):
            journal.begin(entry_of(replace(plan(), what="ring " * 4_000), "r1"))
    journal.begin(entry_of(large, "r2"))
    journal.end("r2", outcome="confirmed")
    disk.close()
    again = Journal(FileDisk(tmp_path / "journal"))
    assert (again.load(known="j1"), again.damage) == ((), None)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_after_any_write_that_failed_what_is_read_is_what_was_answered(number: int) -> None:
    for calls in range(20):
        disk, journal = journal_of("r1")
        disk.refusal = (number, calls)
        took: list[str] = []
        for id in ("r1", "r2"):
            for attempt in (journal.begin, journal.end):
                try:
                    if attempt == journal.end:
                        journal.end(id, outcome="confirmed")
                    elif id != "r1":
                        journal.begin(entry_of(plan(), id))
                    took.append(f"{attempt.__name__} {id}")
                except OSError:
                    continue
        disk.refusal = None
        disk.crash()
        wanted = {"r1"} if "end r1" not in took else set()
        wanted |= {"r2"} if "begin r2" in took and "end r2" not in took else set()
        there = Journal(disk)
        assert {entry.reconfiguration for entry in there.load(known="j1")} == wanted, (calls, took)
        assert there.damage is None


def test_end_that_the_records_lack_outlives_every_rewrite_and_is_gone_when_they_have_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal_module, "COMPACT_BYTES", 0)  # rewritten at each end
    disk = MemoryDisk()
    journal = Journal(disk)
    told = ended("r0", "rolled-back", "aborted")
    journal.begin(entry_of(plan(), "r0"))
    journal.end("r0", outcome="rolled-back", dated=told)
    for number in range(9):
        journal.begin(entry_of(replace(plan(), what="x" * 1000), f"more{number}"))
        journal.end(f"more{number}", outcome="confirmed")
    disk.crash()
    again = Journal(disk)
    assert (again.load(known=journal.id), again.damage) == ((), None)
    (one,) = again.ended
    assert (one.begun.reconfiguration, one.outcome, one.dated) == ("r0", "rolled-back", told)
    again.note_recorded(told.fact)
    again.begin(entry_of(plan(), "r1"))
    disk.crash()
    last = Journal(disk)
    assert [entry.reconfiguration for entry in last.load(known=journal.id)] == ["r1"]
    assert (last.ended, last.damage) == ((), None)


def test_document_in_the_records_stands_for_an_end_and_one_that_says_it_failed_does_not() -> None:
    for recorded, kept in (("failed", ["rolled-back"]), ("rolled-back", [])):
        disk, journal = journal_of("r1")
        journal.note_recorded(ended("r1", recorded).fact)
        journal.end("r1", outcome="rolled-back", dated=ended("r1", "rolled-back"))
        assert [one.outcome for one in journal.ended] == kept, recorded
        journal.note_recorded(ended("r1", "failed").fact)
        assert len(Journal(disk).load()) == 0
        assert [one.outcome for one in journal.ended] == kept, recorded


@pytest.mark.parametrize("why", ["switch away " * 1000, "\u00b5" * 5000, "\U0001f52d" * 3000, '"\\' * 3000])
def test_end_with_any_reason_has_room_on_a_disk_that_got_full(why: str) -> None:
    disk = MemoryDisk()
    journal = Journal(disk)
    for id in ("r1", "r2"):
        journal.begin(entry_of(plan(), id, run="run1"))
    disk.capacity_bytes = 0
    facts: tuple[EndFact, ...] = (
        ReconfigurationEnded(
            reconfiguration="r1", run="run1", what="ring", outcome="rolled-back", why=why, seconds=0.1, remarks=[why]
        ),
        JournalGivenUp(reconfiguration="r2", run="run1", what="ring", why=why, by=why, left=[why]),
    )
    for fact, outcome in zip(facts, ("rolled-back", "given-up"), strict=True):
        journal.end(fact.reconfiguration, outcome=outcome, dated=DatedFact(wall_ns=2**62, fact=fact))
    again = Journal(disk)
    assert (again.load(), again.damage) == ((), None)
    for one, fact in zip(again.ended, facts, strict=True):
        assert type(one.dated.fact) is type(fact)
        cut = one.dated.fact.why
        assert (why[: len(cut) - 3], cut[-3:]) == (cut[:-3], "...")
        assert len(cut) > 40


def test_desired_state_of_an_end_is_whole_however_long_it_is_and_on_a_full_disk() -> None:
    crossconnects = pairs_of(*(f"{port}A-{port + 200}B" for port in range(1, 200)))
    wanted = [WantedSwitch(switch="ocs1", crossconnects=crossconnects, free=ends_of("7B"))]
    fact = changed(ended("r1", "confirmed", "x" * 2000).fact, wanted=wanted, stale=["ocs1:1A-2B"] * 200)
    undone = ended("r2", "rolled-back")
    disk = MemoryDisk()
    journal = Journal(disk)
    for id in ("r1", "r2"):
        journal.begin(entry_of(plan(), id, wanted=wanted))
    disk.capacity_bytes = len(disk.read())
    journal.end("r1", outcome="confirmed", dated=DatedFact(wall_ns=1, fact=fact))
    journal.end("r2", outcome="rolled-back", dated=undone)
    again = Journal(disk)
    again.load()
    first, second = [one.dated.fact for one in again.ended]
    assert isinstance(first, ReconfigurationEnded)
    assert (first.wanted, first.stale) == (wanted, UNSET)
    assert second == undone.fact, "what was undone wants nothing"


def test_retained_end_that_is_damaged_leaves_its_begin_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a rewrite begin and end stand alone: a begin without its end must not be rolled back."""
    monkeypatch.setattr(journal_module, "COMPACT_BYTES", 0)
    disk, journal = journal_of("r0")
    journal.end("r0", outcome="confirmed", dated=ended("r0", "confirmed"))
    whole = disk.read()
    assert whole.count(b'"entry"') == 3
    for at in range(len(whole.rstrip(b"\0"))):
        damaged = disk_of(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        again = Journal(damaged)
        assert [entry.reconfiguration for entry in again.load(known="j1") if not entry.doubt] == []
        assert again.damage is not None
