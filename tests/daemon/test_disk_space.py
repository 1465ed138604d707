"""The free space of the data folder, as the daemon reports it."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from hwd.daemon.datadir import DataDirectory
from hwd.daemon.disk_space import Space, SpaceWatch
from hwd.model.documents.daemon import DISK_EACH_S, DaemonDisk
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.twins.virtual_time import run_virtual


def test_space_is_that_of_the_file_system_for_an_ordinary_user(tmp_path: Path) -> None:
    with DataDirectory(tmp_path) as data:
        before = os.statvfs(tmp_path)
        space = data.space()
        after = os.statvfs(tmp_path)
    assert space.total_bytes == before.f_blocks * before.f_frsize
    free = sorted(found.f_bavail * found.f_frsize for found in (before, after))
    slack = 2**26  # others write to that disk, too
    assert free[0] - slack <= space.free_bytes <= free[1] + slack


def test_folder_that_is_gone_cannot_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with DataDirectory(folder) as data:
        (folder / "lock").unlink()
        folder.rmdir()
        with pytest.raises(FileNotFoundError):
            data.space()


def test_it_is_reported_at_the_start_and_each_minute_and_a_failure_says_why() -> None:
    answers: list[Space | OSError] = [
        Space(free_bytes=5, total_bytes=9),
        OSError(errno.EIO, os.strerror(errno.EIO)),
        Space(free_bytes=4, total_bytes=9),
    ]
    told: list[tuple[int | None, int | None, str]] = []

    def read() -> Space:
        answer = answers[len(told)]
        if isinstance(answer, OSError):
            raise answer
        return answer

    def keep(document: Document) -> None:
        assert isinstance(document.fact, DaemonDisk)
        assert document.fact.path == "/data"
        told.append((document.fact.free_bytes, document.fact.total_bytes, document.fact.why))

    async def main() -> None:
        task = asyncio.create_task(SpaceWatch("/data", read, InlineOffload(), Emitter(SystemClock(), keep)).run())
        await asyncio.sleep(DISK_EACH_S / 2)
        assert len(told) == 1
        await asyncio.sleep(2 * DISK_EACH_S)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(main(), seed=1)
    assert told == [(5, 9, ""), (None, None, "Input/output error"), (4, 9, "")]
