"""The free space of the data folder, read and reported."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from hwd.model.documents.daemon import DISK_EACH_S, DaemonDisk
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.offload import Offload
from hwd_drivers.core.reason import reason_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Of a file system: what an ordinary user may still write, and its size."""

    free_bytes: int
    total_bytes: int


ReadSpace = Callable[[], Space]
"""Raises OSError. It may block: a file system of the network does where its server is away."""


class SpaceWatch:
    """Emits `daemon.disk` at the start and then each minute. `path`: of the folder that `read` reads."""

    def __init__(self, path: str, read: ReadSpace, offload: Offload, emit: Emitter) -> None:
        self._path = path
        self._read = read
        self._offload = offload
        self._emit = emit

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                space = await self._offload(self._read)
            except OSError as error:
                self._emit(DaemonDisk(path=self._path, free_bytes=None, total_bytes=None, why=reason_of(error)))
            else:
                self._emit(
                    DaemonDisk(path=self._path, free_bytes=space.free_bytes, total_bytes=space.total_bytes, why="")
                )
            await asyncio.sleep(DISK_EACH_S)
