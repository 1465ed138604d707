"""The free space of the data folder, read and reported."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from hwd.model.daemon import DISK_EACH_S, DISK_MOVED, DISK_READ_EACH_S, DaemonDisk
from hwd.model.status import LITTLE_FREE_BYTES
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.offload import Offload
from hwd_drivers.core.reason import reason_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The space of a file system: what an ordinary user may still write, and its size."""

    free_bytes: int
    total_bytes: int


ReadSpace = Callable[[], Space]
"""Raises OSError. It may block: a file system of the network does where its server is away."""


async def watch_space(path: str, read: ReadSpace, offload: Offload, emit: Emitter) -> None:
    """Read the disk every few seconds, until cancelled. Emits `daemon.disk` at the start, each minute, and at once
    where much has changed: little is left or no longer, it cannot be read or can again. `path`: of the folder that
    `read` reads.
    """
    last: DaemonDisk | None = None
    last_s = 0.0
    while True:
        now, now_s = await _read_now(path, read, offload), asyncio.get_running_loop().time()
        if last is None or now_s - last_s >= DISK_EACH_S or _is_much(last, now):
            emit(now)
            last, last_s = now, now_s
        await asyncio.sleep(DISK_READ_EACH_S)


async def _read_now(path: str, read: ReadSpace, offload: Offload) -> DaemonDisk:
    try:
        space = await offload(read)
    except OSError as error:
        return DaemonDisk(path=path, free_bytes=None, total_bytes=None, why=reason_of(error))
    return DaemonDisk(path=path, free_bytes=space.free_bytes, total_bytes=space.total_bytes, why="")


def _is_much(last: DaemonDisk, now: DaemonDisk) -> bool:
    """Whether the disk has changed so much that it is told at once."""
    before, after = last.free_bytes, now.free_bytes
    if before is None or after is None:
        return before is not after
    return (before < LITTLE_FREE_BYTES) is not (after < LITTLE_FREE_BYTES) or abs(after - before) > DISK_MOVED * before
