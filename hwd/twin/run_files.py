"""RunFiles: the files of a running rack that others find it by, which are made again where a clean-up removed them."""

import asyncio
import logging
from collections.abc import Iterable

from hwd.config.run_files.announcement import Announcement
from hwd.twin.truth import TruthFile
from hwd_drivers.core.reason import reason_of
from hwd_drivers.transports.dial import Listener
from hwd_drivers.transports.unix_listener import RESTORE_EVERY_S, UnixListener

log = logging.getLogger(__name__)


class RunFiles:
    """The files of a running rack: its announcement, its Unix sockets, and the file of its true times. Of the listeners
    only those on Unix sockets have a file.
    """

    def __init__(
        self, announcement: Announcement, listeners: Iterable[Listener], truths: TruthFile | None = None
    ) -> None:
        self._announcement = announcement
        self._sockets = [one for one in listeners if isinstance(one, UnixListener)]
        self._truths = truths
        self._is_in_trouble = False

    async def watch(self) -> None:
        """Restore what is gone, until cancelled."""
        while True:
            await asyncio.sleep(RESTORE_EVERY_S)
            if self._announcement.restore():  # with the folder, which it checks
                await self._restore_files()

    async def _restore_files(self) -> None:
        try:
            again = [one.address for one in self._sockets if await one.restore()]
            if self._truths is not None and self._truths.restore():
                again.append("the file of true times")
        except OSError as error:
            if not self._is_in_trouble:
                log.warning("files of the twin rack are gone and cannot be made again: %s", reason_of(error))
            self._is_in_trouble = True
            return
        self._is_in_trouble = False
        if again:
            log.warning("files of the twin rack were gone, and were made again: %s", ", ".join(again))
