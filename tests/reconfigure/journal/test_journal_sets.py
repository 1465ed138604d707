"""Prepared sets in the journal: what a power cut, damage, a full disk and a rewrite leave of them."""

import errno

import pytest

from hwd.model.link import Link
from hwd.model.prepared_set import BEFORE, PreparedLink, PreparedSet, PreparedTarget
from hwd.reconfigure.journal import journal as journal_module
from hwd.reconfigure.journal.journal import Journal
from hwd.reconfigure.journal.sets import StoredSet, SwitchEntry
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.switching.moves import ApplyMode

from ...texts import ends_of, pairs_of, switch_pairs_of


def target(name: str, *crossconnects: str) -> PreparedTarget:
    return PreparedTarget(
        name=name,
        what=f"ocs1:{','.join(crossconnects)}",
        state={"ocs1": pairs_of(*crossconnects)},
        free={},
        links=[
            PreparedLink(
                link=Link.parse("h0.eth0<->h1.eth0"), crossconnects=switch_pairs_of(*crossconnects, switch="ocs1")
            )
        ],
        lit=[],
    )


def prepared(id: str = "s1", rule: str = "finish") -> PreparedSet:
    return PreparedSet(
        id=id,
        lease="l1",
        lease_epoch=3,
        holder="ada",
        run=None,
        rule=rule,
        mode=ApplyMode.UPDATE,
        ready_within_s=None,
        targets=[target(BEFORE), target("a", "1A-2B", "2A-1B"), target("b", "1A-3B", "2A-1B")],
        ends={"ocs1": ends_of("1A", "2A", "1B", "2B", "3B")},
        ports=["h0.eth0", "ocs1.1", "ocs1.2", "ocs1.3"],
        wall_ns=1_700_000_000_000_000_000,
        expires_wall_ns=None,
    )


def entry(id: str, origin: str, to: str, of: str = "s1") -> SwitchEntry:
    return SwitchEntry(
        reconfiguration=id,
        prepared_set=of,
        origin=origin,
        target=to,
        hash="0123456789ab",
        wall_ns=1_700_000_000_000_000_000,
        by="ada",
    )


def written(*, rule: str = "finish") -> tuple[MemoryDisk, Journal]:
    disk = MemoryDisk()
    journal = Journal(disk)
    journal.load(known=None, fresh="j1")
    journal.prepare(prepared(rule=rule), at=BEFORE)
    return disk, journal


def at(journal: Journal) -> list[tuple[str, str]]:
    return [(one.prepared.id, one.at) for one in journal.sets]


def again(disk: MemoryDisk) -> Journal:
    journal = Journal(disk)
    journal.load(known="j1")
    assert journal.damage is None
    return journal


def test_set_is_there_after_a_power_cut_and_gone_after_its_release() -> None:
    disk, journal = written()
    disk.crash()
    (stored,) = again(disk).sets
    assert (stored.prepared, stored.at, stored.doubt) == (prepared(), BEFORE, "")
    journal.release("s1")
    disk.crash()
    assert again(disk).sets == ()


def test_switch_is_lost_by_a_power_cut_until_it_is_synced() -> None:
    disk, journal = written()
    journal.switch(entry("r1", BEFORE, "a"))
    disk.crash()
    cut = again(disk)
    assert (cut.open, at(cut)) == ((), [("s1", BEFORE)])
    cut.switch(entry("r2", BEFORE, "a"))
    cut.sync()
    disk.crash()
    (open_entry,) = again(disk).open
    assert (open_entry.reconfiguration, open_entry.what) == ("r2", "prepared set s1 to a")


def test_power_cut_at_any_byte_of_a_switch_leaves_the_set() -> None:
    """Torn frames and lost sectors at the end are no damage: the entry was not on the disk."""
    whole, journal = written()
    before = whole.size()
    journal.switch(entry("r1", BEFORE, "a"))
    data, end = whole.read(), whole.size()
    for cut in range(before, end + 1):
        disk = MemoryDisk()
        disk.append(data[:cut] + bytes(len(data) - cut))
        disk.sync()
        left = again(disk)
        assert (at(left), len(left.open)) == ([("s1", BEFORE)], int(cut == end))


@pytest.mark.parametrize(("rule", "forward"), [("finish", True), (BEFORE, False), ("b", False)])
def test_switch_says_in_short_what_a_begin_says_at_length(rule: str, forward: bool) -> None:
    disk, journal = written(rule=rule)
    journal.switch(entry("r1", "a", "b"))
    (live,) = journal.open
    (read,) = again(disk).open
    assert read == live
    assert read.of_set is not None
    assert (read.of_set.id, read.of_set.target, read.of_set.forward) == ("s1", "b", forward)
    (move,) = read.moves
    assert ([*map(str, move.remove)], [*map(str, move.add)], [*map(str, move.keep)]) == (
        ["1A-2B"],
        ["1A-3B"],
        ["2A-1B"],
    )
    assert read.started is not None
    started = read.started.fact
    assert (started.prepared_set, started.target, started.by, started.lease_epoch) == ("s1", "b", "ada", 3)
    assert [one.kept for one in started.links] == [False]
    assert [(one.switch, one.crossconnects, one.free) for one in read.wanted] == [("ocs1", ["1A-3B", "2A-1B"], ["2B"])]


def test_set_is_at_the_target_of_its_last_confirmed_switch() -> None:
    disk, journal = written()
    journal.switch(entry("r1", BEFORE, "a"))
    journal.end("r1", outcome="confirmed")
    journal.switch(entry("r2", "a", "b"))
    journal.end("r2", outcome="rolled-back")
    assert at(journal) == at(again(disk)) == [("s1", "a")]
    journal.stand("s1", at="b")
    assert at(journal) == at(again(disk)) == [("s1", "b")]


def test_second_switch_syncs_the_first_which_is_not_on_the_disk() -> None:
    disk, journal = written()
    journal.prepare(prepared("s2"), at=BEFORE)
    journal.switch(entry("r1", BEFORE, "a"))
    journal.switch(entry("r2", BEFORE, "a", of="s2"))
    disk.crash()
    assert [one.reconfiguration for one in again(disk).open] == ["r1"]


@pytest.mark.parametrize("is_released", [False, True])
def test_rewrite_keeps_sets_their_targets_and_what_is_open_of_them(
    monkeypatch: pytest.MonkeyPatch, is_released: bool
) -> None:
    monkeypatch.setattr(journal_module, "COMPACT_BYTES", 0)
    disk, journal = written()
    journal.prepare(prepared("s2"), at=BEFORE)
    journal.switch(entry("open", BEFORE, "b", of="s2"))
    if is_released:
        journal.release("s2")
    for number in range(30):
        origin, to = (("a", "b"), ("b", "a"))[number % 2] if number else (BEFORE, "b")
        journal.switch(entry(f"r{number}", origin, to))
        journal.end(f"r{number}", outcome="confirmed")
    left = again(disk)
    assert sorted(at(left)) == sorted(at(journal)) == [("s1", "a"), *([] if is_released else [("s2", BEFORE)])]
    assert [one.reconfiguration for one in left.open] == ["open"]
    assert [one.of_set for one in left.open] == [one.of_set for one in journal.open]
    assert disk.read().count(b'"entry":"switch"') < 30


def test_switch_reserves_nothing_before_its_first_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its room comes with the set, and again with the end of each switch: a reservation is synced."""
    monkeypatch.setattr(journal_module, "ROOM_BYTES", 0)
    disk, journal = written()
    journal.switch(entry("r1", BEFORE, "a"))
    journal.end("r1", outcome="confirmed")
    disk.capacity_bytes = disk.size() + disk.room()
    journal.switch(entry("r2", "a", "b"))
    journal.end("r2", outcome="confirmed")
    assert at(again(disk)) == [("s1", "b")]
    with pytest.raises(OSError, match="No space"):
        journal.prepare(prepared("s2"), at=BEFORE)
    assert at(journal) == [("s1", "b")]


def test_sync_that_fails_is_made_good_by_a_rewrite() -> None:
    disk, journal = written()
    journal.switch(entry("r1", BEFORE, "a"))
    disk.refusal = (errno.EIO, 0)
    with pytest.raises(OSError, match="Input/output"):
        journal.sync()
    disk.refusal = None
    assert journal.write_again() == ""
    disk.crash()
    assert [one.reconfiguration for one in again(disk).open] == ["r1"]


def test_damage_that_may_hide_the_end_of_a_set_holds_it() -> None:
    disk, journal = written()
    journal.switch(entry("r1", BEFORE, "a"))
    size = disk.size()
    journal.end("r1", outcome="confirmed")
    data = bytearray(disk.read())
    data[size + 20] ^= 0xFF
    broken = MemoryDisk()
    broken.append(bytes(data))
    broken.sync()
    after = Journal(broken)
    after.load(known="j1")
    (stored,) = after.sets
    assert isinstance(stored, StoredSet)
    assert "journal was damaged" in stored.doubt
    after.release("s1")
    once_more = Journal(broken)
    once_more.load(known="j1")
    assert once_more.sets == ()
