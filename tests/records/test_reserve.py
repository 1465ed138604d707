"""The room that is kept for saying how runs ended."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hwd.model.recorded_run import Run, RunOutcome
from hwd.records import Records
from hwd.records.recorder import RecordingSink
from hwd.records.reserve import BYTES, LEAST_BYTES, Reserve
from hwd_drivers.core.offload import InlineOffload

from .facts import power

PAGE = os.sysconf("SC_PAGE_SIZE")


OwnDisk = Callable[[int], Path]
"""A file system of so many bytes, gone with the test."""


@pytest.fixture
def own_disk(tmp_path: Path) -> Iterator[OwnDisk]:
    if os.geteuid() != 0:
        pytest.skip("needs root: a tmpfs is mounted")
    with contextlib.ExitStack() as stack:

        def mount(size_bytes: int) -> Path:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "hwd-test", tmp_path], check=True)
            stack.callback(lambda: subprocess.run(["umount", "--lazy", tmp_path], check=True))
            return tmp_path

        yield mount


@pytest.fixture
def small_disk(own_disk: OwnDisk) -> Path:
    return own_disk(BYTES)


def free_bytes(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_bsize


def test_reserve_takes_its_room_and_gives_it_up_once_to_the_next_process_too(small_disk: Path) -> None:
    Reserve(small_disk / "reserve").hold()
    assert free_bytes(small_disk) == 0
    risen = Reserve(small_disk / "reserve")
    risen.hold()
    assert free_bytes(small_disk) == 0
    assert risen.release()
    assert free_bytes(small_disk) == BYTES
    assert not risen.release()


def test_reserve_takes_what_there_is_and_the_rest_when_there_is_more(small_disk: Path) -> None:
    other, path = small_disk / "other", small_disk / "reserve"
    other.write_bytes(b"x" * (BYTES - LEAST_BYTES + 1))
    reserve = Reserve(path)
    reserve.hold()
    assert not reserve.release()
    assert not path.exists()
    other.write_bytes(b"x" * (BYTES // 2 + 1))
    reserve.hold()
    assert path.stat().st_size == BYTES // 2 - PAGE
    assert free_bytes(small_disk) == 0
    other.unlink()
    reserve.hold()
    assert path.stat().st_size == BYTES


async def test_what_a_crash_left_open_is_closed_on_a_full_disk(started: Run, own_disk: OwnDisk) -> None:
    disk = own_disk(2 << 20)

    async def alive() -> Records:
        records = Records(f"sqlite:///{disk}/records.db", InlineOffload(), reserve=Reserve(disk / "reserve"))
        await records.open()
        return records

    dead = await alive()
    await dead.runs.start(started)
    await dead.add_documents([power(7_000)], run=started.id)
    with (disk / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while True:
            ballast.write(b"x" * PAGE)
    assert free_bytes(disk) == 0

    risen = await alive()
    (crashed,) = await RecordingSink(risen).close_crashed(99_000)
    assert (crashed.id, crashed.outcome) == (started.id, RunOutcome.CRASHED)
    assert (await risen.runs.get(started.id)).outcome is RunOutcome.CRASHED
    for records in (risen, dead):
        records.close()
