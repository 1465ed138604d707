"""Syncer: syncs what the spool has written, so that it survives a power cut."""

import asyncio
from enum import StrEnum
from typing import Final

from hwd_agents.spool.spool import Spool
from hwd_drivers.core.offload import Offload

SECOND_S: Final = 1.0


class SpoolSync(StrEnum):
    """When the spool's file is synced. In each mode, an agent that is killed loses nothing that was written."""

    NEVER = "never"
    """The kernel writes it in its own time, usually within half a minute: a power cut loses that."""
    SECOND = "second"
    """Once a second if there is anything new: a power cut loses a second, plus the time of one sync."""
    BATCH = "batch"
    """After each write, or after the sync in progress: a power cut loses what was written during two syncs."""


class Syncer:
    """The syncer of a spool: `run` syncs what was written, in a thread, while events are still added and sent.

    An event that is sent before its sync is not lost: the daemon has it. After a failed sync the spool rewrites its
    file.
    """

    def __init__(self, mode: SpoolSync, spool: Spool, offload: Offload) -> None:
        self._mode = mode
        self._spool = spool
        self._offload = offload
        self._due = asyncio.Event()
        spool.on_written = self._due.set

    async def run(self) -> None:
        """Sync the spool until cancelled."""
        while self._mode is not SpoolSync.NEVER:
            await self._due.wait()
            if self._mode is SpoolSync.SECOND:
                await asyncio.sleep(SECOND_S)
            self._due.clear()
            try:
                await self._offload(self._spool.sync)
            except OSError as error:
                self._spool.sync_failed(error)
