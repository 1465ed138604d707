"""The identity of the journal: its id is in the records too, so that a lost journal does not look like a new one."""

import logging

from hwd.reconfigure.journal.journal import Journal
from hwd.records.journal_id import KnownJournal
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import HwdError

log = logging.getLogger(__name__)


class JournalIdentity:
    """The id of the journal. `load` the journal first; call `store` until the records have the id of a new one.

    `known`: the id in the records.
    """

    def __init__(self, journal: Journal, known: KnownJournal, clock: Clock) -> None:
        self._journal = journal
        self._known = known
        self._clock = clock
        self._is_known = False

    async def load(self) -> None:
        """Load the journal and compare it with the id in the records. Raises ConfigError as `Journal.load` does."""
        known = await self._known.read()
        self._journal.load(known=known, fresh=f"{self._clock.wall_ns():x}")
        self._is_known = known is not None
        await self.store()

    async def store(self) -> None:
        """Write the id of a new journal to the records, but not before the journal itself is on the disk.

        An id without a journal would look like damage at the next start. A failed write is logged: call it again.
        """
        if self._is_known or not self._journal.is_written:
            return
        try:
            await self._known.write(self._journal.id)
        except HwdError as error:
            log.warning("journal: the records cannot be told of it, that is tried again: %s", error)
        else:
            self._is_known = True
