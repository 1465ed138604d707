"""The retention of the records: deletes, once an hour, what the testbed file says is too old."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from hwd.fabric.in_use import InUse
from hwd.model.daemon import RecordsDropped
from hwd.model.plural import plural
from hwd.reconfigure.journal.journal import Journal
from hwd.records.gaps import DocumentGroup
from hwd.records.old_documents import Batch, Cutoff, OldDocuments
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import HwdError

EACH_S: Final = 3600.0
"""Retentions are days, so an hour more does not matter. The first time is an hour after the start too: the clock of a
machine that has just started may be wrong until something sets it.
"""
PAUSE_S: Final = 0.05
"""Between two batches, for those who wait to write. 200,000 documents take about a minute so."""
DAY_NS: Final = 24 * 3600 * 10**9

log = logging.getLogger(__name__)


class Retention:
    """Deletes documents outside of runs, and emits one `records.dropped` each time that there were any.

    `needed()`: ids of reconfigurations and prepared sets that have not ended.
    """

    def __init__(
        self,
        in_use: InUse,
        documents: OldDocuments,
        *,
        needed: Callable[[], Iterable[str]],
        clock: Clock,
        emit: Emitter,
    ) -> None:
        self._in_use = in_use
        self._documents = documents
        self._needed = needed
        self._clock = clock
        self._emit = emit
        self._failure: HwdError | None = None

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EACH_S)
            await self._delete()

    async def _delete(self) -> None:
        batch, deleted = Batch(), Counter[DocumentGroup]()
        try:
            while batch.groups and (cutoffs := self._cutoffs()):
                batch = await self._documents.delete(batch, cutoffs, frozenset(self._needed()))
                deleted += batch.deleted
                await asyncio.sleep(PAUSE_S)
        except HwdError as error:
            if self._failure is None:
                log.warning("old documents are not deleted; the next attempt is in an hour: %s", error)
            self._failure = error
        else:
            if self._failure is not None:
                log.info("old documents are deleted again")
            self._failure = None
        finally:
            if deleted:
                self._tell(deleted)

    def _cutoffs(self) -> dict[DocumentGroup, Cutoff]:
        rules = self._in_use.testbed.retention
        days = {
            DocumentGroup.DOCUMENTS: rules.documents_days,
            DocumentGroup.HISTORY: rules.history_days,
        }
        now_ns = self._clock.wall_ns()
        return {
            group: Cutoff(
                before_wall_ns=now_ns - number * DAY_NS,
                why=f"older than the retention of {plural(number, 'day')}",
            )
            for group, number in days.items()
            if number is not None
        }

    def _tell(self, deleted: Counter[DocumentGroup]) -> None:
        counts = {str(group): deleted[group] for group in DocumentGroup}
        rules = self._in_use.testbed.retention
        log.info("deleted %(documents)d old documents and %(history)d of the history", counts)
        self._emit(RecordsDropped(**counts, documents_days=rules.documents_days, history_days=rules.history_days))


def unfinished(journal: Journal) -> Iterable[str]:
    """Reconfigurations and prepared sets that the journal has open, or whose end the records may lack."""
    yield from (entry.reconfiguration for entry in journal.open)
    yield from (ended.begun.reconfiguration for ended in journal.ended)
    yield from (stored.prepared.id for stored in journal.sets)
