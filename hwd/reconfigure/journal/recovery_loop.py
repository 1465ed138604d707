"""The recovery of the journal: what it has open is tried when a document says that it may succeed, or by time."""

import asyncio
import logging
from typing import ClassVar

from hwd.model.daemon import JournalRefused, JournalWritten
from hwd.model.reconfiguration import ReconfigurationEnded
from hwd.reconfigure.apply.reconfiguration import Outcome
from hwd.reconfigure.apply.switches import Switches
from hwd.reconfigure.journal.identity import JournalIdentity
from hwd.reconfigure.journal.journal import Journal
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd_drivers.core.documents import Document
from hwd_drivers.devices.facts import SwitchUp

AGAIN_S = 5.0
"""The pause after a roll-back that failed with all its switches connected: they did not answer in time, or refused."""

log = logging.getLogger(__name__)


class JournalRecovery:
    """A `Sink`: a switch that connects, a roll-back that failed, what the journal refused or took."""

    TAKES: ClassVar = (ReconfigurationEnded, SwitchUp, JournalRefused, JournalWritten)

    def __init__(
        self, reconfigurer: Reconfigurer, *, journal: Journal, identity: JournalIdentity, switches: Switches
    ) -> None:
        self._reconfigurer = reconfigurer
        self._journal = journal
        self._identity = identity
        self._switches = switches
        self._changed = asyncio.Event()

    def __call__(self, document: Document) -> None:
        match document.fact:
            case ReconfigurationEnded(outcome=Outcome.FAILED) | JournalRefused() | JournalWritten():
                self._changed.set()
            case ReconfigurationEnded() if self._reconfigurer.journal_trouble:  # its begin could not be written
                self._changed.set()
            case SwitchUp() if self._journal.open:
                self._changed.set()

    async def run(self) -> None:
        """Recover, and store the journal's id where the records lack it, until cancelled."""
        while True:
            self._changed.clear()
            try:
                await self._reconfigurer.recover()
            except Exception:  # a supervisor: open entries stay open, and the daemon goes on
                log.exception("journal: cannot recover")
            await self._identity.store()
            try:
                async with asyncio.timeout(AGAIN_S if self._is_to_try_again() else None):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _is_to_try_again(self) -> bool:
        """Whether recovery must be tried again by time, since no document will announce that it can succeed.

        That is so where all switches of an open entry that the testbed has are connected, and where the journal does
        not take all.
        """
        away = {*self._switches.names} - self._switches.connected
        open_entries = [entry for entry in self._journal.open if not entry.doubt]
        there = any(away.isdisjoint(move.switch for move in entry.moves) for entry in open_entries)
        return there or bool(self._reconfigurer.journal_trouble)
