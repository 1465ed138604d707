"""The syncer: makes what the spool has put down survive a power cut, too, as soon as it was asked to."""

import asyncio
from enum import StrEnum
from typing import Final

from hwd_agents.spool.spool import Spool
from hwd_drivers.core.offload import Offload

SECOND_S: Final = 1.0


class SpoolSync(StrEnum):
    """When the spool's file is synced. Whatever it is, nothing that was put down is lost where only the agent dies."""

    NEVER = "never"
    """The kernel writes it when it likes, within half a minute as a rule: a power cut takes that."""
    SECOND = "second"
    """Once a second, where there is anything new: a power cut takes a second and what one sync lasts."""
    BATCH = "batch"
    """As soon as something is put down, or the sync before it is over: a power cut takes what came within two syncs."""


class Syncer:
    """`run` syncs what the spool has put down, in a thread, while events go on to come and to be sent.

    An event that is sent before it is synced is no loss: the daemon has it. After a sync that failed the spool's file is written anew.
    """

    def __init__(self, mode: SpoolSync, spool: Spool, offload: Offload) -> None:
        self._mode = mode
        self._spool = spool
        self._offload = offload
        self._due = asyncio.Event()
        spool.on_written = self._due.set

    async def run(self) -> None:
        """Until cancelled."""
        while self._mode is not SpoolSync.NEVER:
            await self._due.wait()
            if self._mode is SpoolSync.SECOND:
                await asyncio.sleep(SECOND_S)
            self._due.clear()
            try:
                await self._offload(self._spool.sync)
            except OSError as error:
                self._spool.sync_failed(error)
