"""The room that is kept for saying how runs ended."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hwd.records.reserve import BYTES, LEAST_BYTES, Reserve

PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root: a tmpfs is mounted")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={BYTES}", "hwd-test", tmp_path], check=True)
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)


def free_bytes(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_bsize


def test_reserve_takes_its_room_and_gives_it_up_once(small_disk: Path) -> None:
    reserve = Reserve(small_disk / "reserve")
    reserve.hold()
    assert free_bytes(small_disk) == 0
    assert reserve.release()
    assert free_bytes(small_disk) == BYTES
    assert not reserve.release()


def test_reserve_takes_what_there_is_and_the_rest_when_there_is_more(small_disk: Path) -> None:
    (small_disk / "other").write_bytes(b"x" * (BYTES // 2 + 1))
    reserve = Reserve(small_disk / "reserve")
    reserve.hold()
    assert (small_disk / "reserve").stat().st_size == BYTES // 2 - PAGE
    assert free_bytes(small_disk) == 0
    (small_disk / "other").unlink()
    reserve.hold()
    assert (small_disk / "reserve").stat().st_size == BYTES


def test_reserve_on_a_full_disk_holds_nothing(small_disk: Path) -> None:
    (small_disk / "other").write_bytes(b"x" * (BYTES - LEAST_BYTES + 1))
    reserve = Reserve(small_disk / "reserve")
    reserve.hold()
    assert not reserve.release()
    assert not (small_disk / "reserve").exists()
