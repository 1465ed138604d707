"""What the spool took is there after any crash, in order and without gaps, or its loss is told."""

import asyncio
import errno
import itertools
import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.settings.setting_journal import SettingJournal
from hwd_agents.spool.ranges import BOOTS_MOST, RANGES_MOST, Ranges
from hwd_agents.spool.spool import LIMIT_LEAST_BYTES, Spool
from hwd_agents.wire import EVENTS_MAX, Event
from hwd_agents.wire.events import LostData
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.disk import Disk, FileDisk, MemoryDisk
from hwd_drivers.core.errors import ConfigError

from ..wire import golden

LIMIT_BYTES = 64 * 1024


def spool(disk: Disk, boot: str = "b1", limit_bytes: int = LIMIT_BYTES) -> Spool:
    return Spool(disk, boot=boot, clock=SystemClock(), limit_bytes=limit_bytes)


def event(number: int = 0, *, kind: str = "carrier") -> Event:
    return golden.event(at_ns=number, kind=kind, data={"n": number})


def fill(into: Spool, count: int) -> None:
    for number in range(count):
        into.add(event(number))
    into.flush()


def numbers(from_: Spool, boot: str) -> list[int]:
    found: list[int] = []
    while batch := from_.batch(boot, after=found[-1] if found else 0):
        assert len(batch) <= EVENTS_MAX
        found += [one.seq for one in batch]
    return found


def test_numbers_run_from_one_without_gaps_and_are_one_append_each_flush() -> None:
    disk = MemoryDisk()
    one = spool(disk)
    assert [one.add(event()) for _ in range(3)] == [1, 2, 3]
    assert disk.size() == 0
    one.flush()
    assert disk.size() > 0
    assert numbers(one, "b1") == [1, 2, 3]
    assert one.next_seq == 4
    with pytest.raises(UnicodeEncodeError):  # it is no JSON, and takes no number
        one.add(event(kind="\udc80"))
    fill(one, 297)
    assert [each.seq for each in one.batch("b1", after=2, upto=5)] == [3, 4, 5]
    assert len(one.batch("b1", after=0)) == EVENTS_MAX
    assert one.batch("b1", after=300) == one.batch("nobody", after=0) == []
    with pytest.raises(ConfigError, match="16384 bytes or more"):
        spool(MemoryDisk(), limit_bytes=LIMIT_LEAST_BYTES - 1)


def test_events_of_earlier_boots_come_first_and_acknowledged_ones_are_gone_also_after_a_restart() -> None:
    disk = MemoryDisk()
    one = spool(disk)
    one.add(event(), marks={"link:eth0": {"changes": 7}})
    fill(one, 4)
    fill(spool(disk, "b2"), 2)
    third = spool(disk, "b3")
    fill(third, 1)
    assert third.ack("b1", 3) == 3
    assert [(boot, numbers(third, boot)) for boot in third.events] == [("b1", [4, 5]), ("b2", [1, 2]), ("b3", [1])]
    assert numbers(spool(disk, "b4"), "b1") == [4, 5]
    for boot in ("b1", "b2"):
        third.ack(boot, 5 if boot == "b1" else 2)
    assert tuple(third.events) == ("b3",)
    last = spool(disk, "b5")
    assert (tuple(last.events), last.marks) == (("b3", "b5"), {"link:eth0": {"changes": 7}})


def test_the_file_stays_within_the_limit_and_is_rewritten_without_what_is_acknowledged() -> None:
    disk = MemoryDisk()
    one = spool(disk)
    for _ in range(200):
        fill(one, 10)
        one.ack("b1", one.next_seq - 1)
        assert disk.size() <= LIMIT_BYTES
    assert one.lost == 0
    assert numbers(spool(disk, "b2"), "b1") == []


def test_beyond_the_limit_the_oldest_are_dropped_counted_and_told() -> None:
    disk = MemoryDisk()
    one = spool(disk)
    for _ in range(300):
        fill(one, 10)
        assert disk.size() <= LIMIT_BYTES
    held = numbers(one, "b1")
    assert held == list(range(held[0], one.next_seq))
    stored = [each for start in range(0, one.next_seq, EVENTS_MAX) for each in one.batch("b1", after=start)]
    losses = {each.seq: each.event for each in stored if each.kind == "lost"}.values()
    assert losses
    # Every number was an event, and each is here, or told by a loss that is here.
    assert sum(each.data["count"] for each in losses) == held[0] - 1
    named = Ranges()
    for loss in losses:
        assert sum(named.add(*each) for each in loss.data["ranges"]) == loss.data["count"]
    assert list(named) == [("b1", 1, held[0] - 1)]
    assert all("limit is 65536 bytes" in each.data["why"] for each in losses)


def test_a_full_disk_is_counted_and_its_events_are_put_down_when_there_is_room() -> None:
    disk = MemoryDisk(capacity_bytes=2000)
    one = spool(disk)
    for _ in range(20):
        fill(one, 5)
    assert one.disk_failures > 0
    assert "cannot write" in one.disk_why
    assert numbers(one, "b1") == list(range(1, 101))
    disk.capacity_bytes = None
    for _ in range(100):
        fill(one, 1)
    assert one.disk_why == ""
    assert numbers(spool(disk, "b2"), "b1") == list(range(1, 201))
    disk.capacity_bytes = disk.size()
    fill(one, 5)
    disk.capacity_bytes = None
    one.close()
    disk.crash()
    assert numbers(spool(disk, "b2"), "b1") == list(range(1, 206)), "it is whole when it is closed"


def test_an_event_that_no_message_may_carry_counts_as_lost_and_holds_up_nothing_behind_it() -> None:
    disk = MemoryDisk()
    one = spool(disk)
    for number in range(3):
        one.add(msgspec.structs.replace(event(number), sampling_ns=-1 if number == 1 else 0))
    one.flush()
    for each in (one, spool(disk, "b2")):
        found = each.batch("b1", after=0)
        assert [(other.seq, other.kind) for other in found] == [(1, "carrier"), (2, "lost"), (3, "carrier")]
        assert found[1].event.data["count"] == 1


@given(data=st.data())
def test_a_crash_at_any_byte_leaves_a_prefix_and_the_next_boot_continues(data: st.DataObject) -> None:
    disk = MemoryDisk()
    one = spool(disk)
    ends: list[tuple[int, int, int]] = [(0, 1, 0)]  # file size, oldest held, newest held
    for step in data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=12)):
        if step:
            fill(one, step)
        elif one.next_seq > 1:
            one.ack("b1", (one.oldest_seq + one.next_seq) // 2)
        ends.append((disk.size(), one.oldest_seq, one.next_seq - 1))
    cut = data.draw(st.integers(0, disk.size()))
    disk.truncate(cut)
    second = spool(disk, "b2")
    expected = max((end for end in ends if end[0] <= cut), key=lambda end: (end[0], end[1]))
    assert numbers(second, "b1") == list(range(expected[1], expected[2] + 1))
    fill(second, 3)
    third = spool(disk, "b3")
    assert numbers(third, "b1") == numbers(second, "b1")
    assert numbers(third, "b2") == [1, 2, 3]


def test_what_stands_behind_damage_is_found_and_what_it_took_is_told_in_its_place() -> None:
    disk = MemoryDisk()
    one = spool(disk)
    for _ in range(6):
        fill(one, 2)  # a frame each
    data = bytearray(disk.read())
    third = [at for at in range(len(data)) if data.startswith(b'{"type":"events"', at)][2]
    data[third + 40] ^= 0xFF
    disk.replace(bytes(data))
    second = spool(disk, "b2")
    assert disk.asides == [bytes(data)], "as it was before it is written anew"
    assert numbers(second, "b1") == list(range(1, 13))
    events = second.batch("b1", after=0)
    assert [each.seq for each in events if each.kind == "lost"] == [5, 6]
    assert {each.event.data["count"] for each in events if each.kind == "lost"} == {1}
    assert "could not be read" in second.trouble
    assert "Look at its disk" in second.trouble
    fill(second, 1)
    again = spool(disk, "b3")
    assert again.trouble == ""  # the file was written anew
    assert [each.kind for each in again.batch("b1", after=0)].count("lost") == 2


def test_events_lost_to_damage_count_once_also_if_a_later_boot_drops_them() -> None:
    disk = MemoryDisk()
    first = spool(disk, limit_bytes=LIMIT_LEAST_BYTES)
    starts = []
    for _ in range(10):
        starts.append(disk.size())
        fill(first, 1)
    data = bytearray(disk.read())
    data[starts[4] + 20] ^= 0xFF
    disk.replace(bytes(data))
    fill(spool(disk, "b2", LIMIT_LEAST_BYTES), 1)
    third = spool(disk, "b3", LIMIT_LEAST_BYTES)
    assert [each.seq for each in third.batch("b1", after=0) if each.kind == "lost"] == [5]
    while not third.lost:
        fill(third, 1)
    (told,) = [each.event.data for each in third.batch("b3", after=0) if each.kind == "lost"]
    assert ["b1", 1, 10] in told["ranges"]
    assert told["count"] == sum(last - begin + 1 for _, begin, last in told["ranges"])


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "Free space on its file system"),
        (errno.EROFS, "Mount its file system writable again"),
        (errno.EACCES, "Give it to the user that the agent runs as: chown -R"),
        (errno.ENXIO, "Look at its file system"),
        (errno.EIO, "Look at its disk"),
    ],
)
def test_a_disk_that_refuses_says_what_to_do_and_says_when_it_is_well(number: int, words: str) -> None:
    class Refusing(MemoryDisk):
        refuses = True

        def append(self, data: bytes) -> None:
            if self.refuses:
                raise OSError(number, os.strerror(number), "events")
            super().append(data)

        def replace(self, data: bytes, *, reserve: int = 0) -> None:
            self.append(data)

    disk, told = Refusing(), list[str]()
    one = Spool(
        disk, boot="b1", clock=SystemClock(), limit_bytes=LIMIT_BYTES, on_trouble=lambda: told.append(one.trouble)
    )
    fill(one, 1)
    fill(one, 1)
    assert len(told) == 1
    assert os.strerror(number) in told[0]
    assert words in told[0]
    assert "64 KiB" in told[0]
    disk.refuses = False
    for _ in range(8):
        fill(one, 1)
    assert told[1:] == [""]


def test_a_boot_keeps_the_name_of_its_clock_as_long_as_events_of_it_are_here() -> None:
    disk = MemoryDisk()

    def life(boot: str, clock_name: str) -> Spool:
        return Spool(disk, boot=boot, clock=SystemClock(), limit_bytes=LIMIT_BYTES, clock_name=clock_name)

    fill(life("b1", "machine-1"), 3)
    second = life("b2", "machine-2")
    fill(second, 1)
    assert (second.clock_of("b1"), second.clock_of("b2")) == ("machine-1", "machine-2")
    while second.size_bytes < LIMIT_BYTES // 2:  # more than once written anew
        fill(second, 20)
        second.ack("b2", second.next_seq - 1)
    fill(second, 1)
    third = life("b3", "machine-2")
    assert [third.clock_of(boot) for boot in third.events] == ["machine-1", "machine-2", "machine-2"]


@pytest.mark.parametrize(("name", "open_it"), [("events", spool), ("settings", SettingJournal)])
def test_file_that_the_disk_does_not_read_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, open_it: Callable[[Disk], object]
) -> None:
    disk = FileDisk(tmp_path / name)

    def refuse(*_: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", refuse)
    words = rf"/{name}: .* cannot be read: Input/output error\. Look at its disk; .* move"
    with pytest.raises(ConfigError, match=words):
        open_it(disk)


@given(st.binary(max_size=400))
def test_any_rubbish_for_a_file_is_no_reason_to_stop(rubbish: bytes) -> None:
    disk = MemoryDisk()
    disk.append(rubbish)
    one = spool(disk)
    fill(one, 2)
    assert numbers(spool(disk, "b2"), "b1") == [1, 2]


@given(st.lists(st.tuples(st.sampled_from(["fill", "ack", "full", "room"]), st.integers(1, 8)), max_size=40))
def test_whatever_happens_numbers_have_no_gap_and_losses_are_counted(steps: list[tuple[str, int]]) -> None:
    disk = MemoryDisk()
    one = spool(disk, limit_bytes=LIMIT_LEAST_BYTES)
    for what, much in steps:
        match what:
            case "fill":
                fill(one, 8 * much)
            case "ack":
                one.ack("b1", one.oldest_seq + much)
            case "full":
                disk.capacity_bytes = disk.size()
            case _:
                disk.capacity_bytes = None
        held = numbers(one, "b1")
        assert held == list(range(one.oldest_seq, one.next_seq))
        assert all(a + 1 == b for a, b in itertools.pairwise(held))
        if disk.capacity_bytes is None and not one.disk_why:
            assert disk.size() <= LIMIT_LEAST_BYTES


def test_next_agent_counts_from_the_marks_that_the_disk_took() -> None:
    disk = MemoryDisk()
    one = spool(disk)

    def change(number: int) -> int:
        seq = one.add(event(number), marks={"link:eth0": {"changes": number}})
        one.flush()
        return seq

    change(1)
    disk.capacity_bytes = disk.size()
    one.ack("b1", change(2))
    assert spool(disk, "b2").marks["link:eth0"] == {"changes": 1}  # killed: the second was in memory alone
    disk.capacity_bytes = None
    change(3)
    one.try_again()
    assert spool(disk, "b3").marks["link:eth0"] == {"changes": 3}


def test_an_unfinished_end_is_no_damage_and_cut_off_though_the_disk_was_full_at_first() -> None:
    whole, disk = MemoryDisk(), MemoryDisk()
    one = spool(whole)
    fill(one, 2)
    fill(one, 2)
    disk.append(whole.read()[:-3])
    disk.capacity_bytes = 0
    two = spool(disk, "b2")
    assert (numbers(two, "b1"), two.trouble, two.damaged_bytes) == ([1, 2], "", 0)
    fill(two, 1)
    disk.capacity_bytes = None
    fill(two, 1)
    three = spool(disk, "b3")
    assert (numbers(three, "b2"), three.trouble) == ([1, 2], "")


# --- ranges of numbers by boot


SPANS = st.tuples(st.sampled_from(["b1", "b2"]), st.integers(1, 40), st.integers(0, 10))


@given(spans=st.lists(SPANS, max_size=30))
def test_each_number_is_new_once(spans: list[tuple[str, int, int]]) -> None:
    ranges, held = Ranges(), set[tuple[str, int]]()
    for boot, first, more in spans:
        numbers = {(boot, number) for number in range(first, first + more + 1)}
        assert ranges.add(boot, first, first + more) == len(numbers - held)
        held |= numbers
    assert {(boot, number) for boot, first, last in ranges for number in range(first, last + 1)} == held
    for (boot, _, last), (next_boot, first, _) in zip(list(ranges), list(ranges)[1:], strict=False):
        assert boot != next_boot or last + 1 < first


def test_made_up_boots_and_numbers_are_bounded_and_the_newest_are_kept() -> None:
    ranges = Ranges()
    for number in range(1, 3 * RANGES_MOST, 2):
        ranges.add("b", number, number)
    assert len(list(ranges)) == RANGES_MOST
    assert ranges.add("b", 3 * RANGES_MOST - 1, 3 * RANGES_MOST - 1) == 0
    for boot in range(2 * BOOTS_MOST):
        ranges.add(f"b{boot}", 1, 9)
    assert [boot for boot, _, _ in ranges] == [f"b{boot}" for boot in range(BOOTS_MOST, 2 * BOOTS_MOST)]


def test_a_message_full_of_forged_ranges_costs_little() -> None:
    draw, ranges = random.Random(1), Ranges()
    spans = [(first, first + draw.randrange(3)) for first in (draw.randrange(1, 1 << 60) for _ in range(50_000))]
    began_s = time.process_time()
    for first, last in spans:
        ranges.add("b", first, last)
    assert time.process_time() - began_s < 2.0, "it was 4 s, for one message, in which the daemon did nothing else"


# --- a process that writes a spool is killed at random times


SCRIPT = Path(__file__).with_name("spool_process.py")


@pytest.mark.parametrize("lives", [40, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
async def test_nothing_that_was_flushed_is_lost_to_sigkill(tmp_path: Path, lives: int) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(SCRIPT),
        str(tmp_path / "events"),
        str(lives),
        str(lives),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    found = [json.loads(line) for line in out.splitlines()]
    assert len(found) == lives
    for life in found:
        seqs, flushed, acked = life["seqs"], life["flushed"], life["acked"]
        first, last = (seqs[0], seqs[-1]) if seqs else (max(acked) + 1, max(acked))
        assert seqs == list(range(first, last + 1)), life
        dropped = {seq for start, end in life["dropped"] for seq in range(start, end + 1)}
        assert not seqs or any(dropped.issuperset(range(one + 1, first)) for one in acked), (
            f"what comes before the first was acknowledged, or dropped by a full spool that says so: {life}"
        )
        assert last >= flushed, life
        assert life["mark"] == last, f"events and the marks that go with them are there together: {life}"
        assert life["damaged"] == 0, life
    assert sum(len(life["seqs"]) for life in found) > 10 * lives
    assert any(len(life["acked"]) == 2 for life in found), "some were killed while they acknowledged"


def test_all_ranges_that_are_kept_can_be_told_in_one_event() -> None:
    ranges = Ranges()
    for boot in range(BOOTS_MOST):
        for number in range(1, 2 * RANGES_MOST, 2):
            ranges.add(f"b{boot}", number, number)
    told = LostData(count=BOOTS_MOST * RANGES_MOST, ranges=[*ranges])
    assert told.ranges == [*ranges]
    assert len([*ranges]) == told.count
