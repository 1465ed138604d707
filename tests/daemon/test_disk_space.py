"""The free space of the data folder, as the daemon reports it."""

import asyncio
import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from hwd.daemon.datadir import DataDirectory
from hwd.daemon.disk_space import Space, SpaceWatch
from hwd.model.documents.daemon import DISK_EACH_S, DaemonDisk
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.twins.virtual_time import VirtualLoop


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


def watched(read: Callable[[], Space], told: Callable[[Document], None]) -> asyncio.Task[None]:
    return asyncio.create_task(SpaceWatch("/data", read, InlineOffload(), Emitter(SystemClock(), told)).run())


async def test_disk_that_does_not_change_is_told_at_the_start_and_each_minute(virtual_loop: VirtualLoop) -> None:
    times: list[float] = []
    began_s = virtual_loop.time()
    read = partial(Space, free_bytes=5 * 10**9, total_bytes=9 * 10**9)
    task = watched(read, lambda _: times.append(virtual_loop.time() - began_s))
    await asyncio.sleep(2.5 * DISK_EACH_S)
    task.cancel()
    await asyncio.wait([task])
    assert times == pytest.approx([0.0, DISK_EACH_S, 2 * DISK_EACH_S], abs=0.1)


async def test_disk_that_fills_up_or_cannot_be_read_is_told_within_seconds(virtual_loop: VirtualLoop) -> None:
    gigabyte = 10**9
    steps: list[int | None] = [9 * gigabyte, 9 * gigabyte - 1, 2 * gigabyte, gigabyte - 1, None, None, 2 * gigabyte]
    told: list[tuple[float, int | None]] = []
    left, began_s = iter(steps), virtual_loop.time()

    def read() -> Space:
        free = next(left, steps[-1])
        if free is None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return Space(free_bytes=free, total_bytes=10 * gigabyte)

    def note(document: Document) -> None:
        assert isinstance(document.fact, DaemonDisk)
        assert document.fact.why == ("Input/output error" if document.fact.free_bytes is None else "")
        told.append((virtual_loop.time() - began_s, document.fact.free_bytes))

    task = watched(read, note)
    await asyncio.sleep(DISK_EACH_S)
    task.cancel()
    await asyncio.wait([task])
    assert [free for _, free in told] == [9 * gigabyte, 2 * gigabyte, gigabyte - 1, None, 2 * gigabyte]
    assert [at_s for at_s, _ in told] == pytest.approx([0.0, 10.0, 15.0, 20.0, 30.0], abs=0.1)
