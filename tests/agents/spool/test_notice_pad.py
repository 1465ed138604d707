"""Notices that are on the pad after the death of whoever put them down, on a real file."""

import contextlib
import logging
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.spool.notice_pad import RAW_MOST_BYTES, SLOT_BYTES, SLOTS, Notice, NoticePad


@contextlib.contextmanager
def pad(folder: Path, clock_name: str = "c") -> Iterator[NoticePad]:
    with contextlib.closing(NoticePad(folder / "notices", clock_name=clock_name)) as opened:
        yield opened


def put(into: NoticePad, at_ns: int, raw: bytes) -> None:
    into.room[: len(raw)] = raw
    into.put(at_ns, len(raw))
    into.keep()


def notices(folder: Path, clock_name: str = "c") -> list[tuple[str, int, bytes]]:
    with pad(folder, clock_name) as opened:
        return [(each.life, each.at_ns, each.raw) for each in opened.notices]


def test_what_was_put_is_there_for_all_later_lives_by_the_same_clock(tmp_path: Path) -> None:
    with pad(tmp_path) as one:
        one.begin("1")
        put(one, 5, b"\0\xff")
        one.begin("2")
        put(one, 7, b"more")
        assert one.notices == []
    with pad(tmp_path) as two:
        assert two.notices == [
            Notice(clock="c", life="1", at_ns=5, raw=b"\0\xff"),
            Notice(clock="c", life="2", at_ns=7, raw=b"more"),
        ]
        two.begin("2")
        put(two, 9, b"")
    assert notices(tmp_path) == [("1", 5, b"\0\xff"), ("2", 7, b"more"), ("2", 9, b"")]
    assert notices(tmp_path, "after the machine slept") == []


def test_what_was_not_kept_is_replaced_by_the_next_and_stays_where_there_is_none(tmp_path: Path) -> None:
    with pad(tmp_path) as one:
        put(one, 5, b"kept")
        for at_ns in (6, 7):
            one.room[:4] = b"else"
            one.put(at_ns, 4)
        put(one, 8, b"kept too")
        one.put(9, 8)
    assert [at_ns for _, at_ns, _ in notices(tmp_path)] == [5, 8, 9]


def test_a_stamp_of_a_clock_that_is_behind_its_zero_is_kept(tmp_path: Path) -> None:
    with pad(tmp_path) as one:
        put(one, -5, b"raw")
    assert notices(tmp_path) == [("", -5, b"raw")]


def test_a_clock_without_a_name_is_not_believed(tmp_path: Path) -> None:
    with pad(tmp_path, "") as one:
        put(one, 5, b"raw")
    assert notices(tmp_path, "") == []


def test_the_latest_stay_and_the_file_does_not_grow(tmp_path: Path) -> None:
    with pad(tmp_path) as one:
        one.begin("1" * 200)
        for number in range(3 * SLOTS + 1):
            put(one, number, bytes([number]) * 2000)
    kept = notices(tmp_path)
    assert [at_ns for _, at_ns, _ in kept] == list(range(2 * SLOTS + 1, 3 * SLOTS + 1))
    assert kept[-1][2] == bytes([3 * SLOTS]) * RAW_MOST_BYTES
    assert (tmp_path / "notices").stat().st_size == SLOTS * SLOT_BYTES


@given(at=st.integers(0, 2 * SLOT_BYTES - 1), data=st.binary(max_size=200), size=st.integers(0, SLOTS * SLOT_BYTES))
def test_a_damaged_or_torn_slot_takes_no_other_with_it(
    tmp_path_factory: pytest.TempPathFactory, at: int, data: bytes, size: int
) -> None:
    folder = tmp_path_factory.mktemp("pad")
    with pad(folder) as one:
        for number in range(1, 4):
            put(one, number, b"raw %d" % number)
    with (folder / "notices").open("r+b") as file:
        file.seek(SLOT_BYTES + at)
        file.write(data)
        file.truncate(size)
    found = {(life, at_ns, raw) for life, at_ns, raw in notices(folder)}
    assert found <= {("", number, b"raw %d" % number) for number in range(1, 4)}
    if size == SLOTS * SLOT_BYTES and at + len(data) <= 2 * SLOT_BYTES:
        assert ("", 3, b"raw 3") in found
    with pad(folder) as two:
        put(two, 9, b"next")
    assert ("", 9, b"next") in notices(folder)


def test_a_full_disk_takes_notices_all_the_same_and_says_where_it_has_no_room_for_a_pad(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: a tmpfs is mounted")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "hwd-test", tmp_path], check=True)
    try:
        with caplog.at_level(logging.WARNING), pad(tmp_path) as one:
            with pytest.raises(OSError, match="No space left"):
                (tmp_path / "fill").write_bytes(bytes(1 << 20))
            for number in range(SLOTS):
                put(one, number, bytes(RAW_MOST_BYTES))
        assert (len(notices(tmp_path)), caplog.messages) == (SLOTS, [])
        (tmp_path / "notices").unlink()
        (tmp_path / "more").write_bytes(bytes(SLOTS * SLOT_BYTES - 8192))
        with pytest.raises(OSError, match="No space left"), pad(tmp_path):
            pass
        assert (tmp_path / "notices").stat().st_size == 0
    finally:
        subprocess.run(["umount", tmp_path], check=True)
