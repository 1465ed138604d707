import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.model.plan import ApplyMode, CrashRule, Plan, SwitchMoves
from hwd.reconfigure import journal as journal_module
from hwd.reconfigure.journal import Journal
from hwd_drivers.kit.disk import MemoryDisk
from hwd_drivers.kit.values import Crossconnect


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


def plan(rule: CrashRule = CrashRule.ROLL_BACK) -> Plan:
    return Plan(
        what="ring",
        mode=ApplyMode.UPDATE,
        moves=(MOVES,),
        links=(),
        dark=(),
        touches=frozenset(),
        expected_s=0.0,
        expected_from="nothing",
        warnings=(),
        lease=None,
        crash_rule=rule,
        ready_within_s=None,
        confirm_within_s=None,
    )


def test_what_was_begun_is_open_after_a_crash() -> None:
    disk = MemoryDisk()
    Journal(disk).begin(plan(CrashRule.FINISH), reconfiguration="r1", run="run1")
    disk.crash()
    (entry,) = Journal(disk).load()
    assert (entry.reconfiguration, entry.run, entry.what, entry.moves, entry.crash_rule) == (
        "r1",
        "run1",
        "ring",
        (MOVES,),
        CrashRule.FINISH,
    )


def test_without_sync_a_crash_may_forget() -> None:
    disk = MemoryDisk()
    Journal(disk, sync=False).begin(plan(), reconfiguration="r1", run=None)
    disk.crash()
    assert Journal(disk).load() == ()


def test_what_ended_is_not_open() -> None:
    disk = MemoryDisk()
    journal = Journal(disk)
    journal.begin(plan(), reconfiguration="r1", run=None)
    journal.begin(plan(), reconfiguration="r2", run=None)
    journal.end("r1", outcome="confirmed")
    assert [entry.reconfiguration for entry in Journal(disk).load()] == ["r2"]


def test_full_disk_leaves_no_half_frame() -> None:
    disk = MemoryDisk(capacity_bytes=700)
    journal = Journal(disk)
    journal.begin(plan(), reconfiguration="r1", run=None)
    with pytest.raises(OSError, match="No space"):
        for number in range(10):
            journal.begin(plan(), reconfiguration=f"more{number}", run=None)
    loaded = [entry.reconfiguration for entry in Journal(disk).load()]
    assert loaded == [entry.reconfiguration for entry in journal.open]
    journal.end("r1", outcome="confirmed")
    assert "r1" not in [entry.reconfiguration for entry in Journal(disk).load()]


def test_journal_is_begun_anew_when_large_and_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "COMPACT_BYTES", 100)
    disk = MemoryDisk()
    journal = Journal(disk)
    journal.begin(plan(), reconfiguration="r1", run=None)
    journal.begin(plan(), reconfiguration="r2", run=None)
    journal.end("r1", outcome="confirmed")
    assert disk.size() > 100
    journal.end("r2", outcome="confirmed")
    assert disk.size() == 0


def test_what_stays_open_does_not_let_the_journal_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "COMPACT_BYTES", 2_000)
    disk = MemoryDisk()
    journal = Journal(disk)
    journal.begin(plan(CrashRule.FINISH), reconfiguration="away", run="run1")
    one_bytes, largest_bytes = disk.size(), 0
    for number in range(100):
        journal.begin(plan(), reconfiguration=f"r{number}", run=None)
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


@given(cut=st.integers(min_value=0, max_value=2000))
def test_torn_tail_is_cut_and_the_rest_is_read(cut: int) -> None:
    disk = MemoryDisk()
    journal = Journal(disk)
    journal.begin(plan(), reconfiguration="r1", run=None)
    first = disk.size()
    journal.begin(plan(), reconfiguration="r2", run=None)
    disk.truncate(min(cut, disk.size()))
    whole = disk.size()
    names = [entry.reconfiguration for entry in Journal(disk).load()]
    assert names == ["r1", "r2"][: (whole >= first) + (whole >= 2 * first)]
    again = Journal(disk)
    again.load()
    again.begin(plan(), reconfiguration="r3", run=None)
    assert "r3" in [entry.reconfiguration for entry in Journal(disk).load()]
