"""The catch-up of the records: what the journal has of reconfigurations, and the records lost with the last process.

The records write in batches, some 50 ms behind the journal. A daemon that dies in between has answered, and moved
light, and its records say nothing of it. The journal is the truth, so the next start tells it, once.

What the records have begun and the journal does not have can end no more: the next start says so too.
"""

import logging
from dataclasses import dataclass

from msgspec.structs import replace

from hwd.model.daemon import CRASHED, DaemonRecovered
from hwd.model.reconfiguration import EndFact, ReconfigurationStarted, outcome_of
from hwd.reconfigure.journal.facts import DatedFact
from hwd.reconfigure.journal.journal import Journal
from hwd.records.reconfiguration_documents import ReconfigurationDocuments
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Sink

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MissingDocument:
    """A document that the records lack."""

    reconfiguration: str
    dated: DatedFact[EndFact] | DatedFact[ReconfigurationStarted]


class RecordsCatchUp:
    """The catch-up of the records with the journal. `read` when journal and records are open, before the recorder
    writes; `tell` when the sinks listen.

    What `tell` emits is in the journal until the recorder has committed it: a daemon that dies before tells it again.
    """

    def __init__(self, journal: Journal, documents: ReconfigurationDocuments, clock: Clock) -> None:
        self._journal = journal
        self._documents = documents
        self._clock = clock
        self._missing: list[_MissingDocument] = []
        self._cut_off: list[DaemonRecovered] = []

    async def read(self) -> None:
        """Compare the journal with the records. Touches neither."""
        since_wall_ns = await self._documents.unowned_since_wall_ns()
        of_journal = {entry.reconfiguration for entry in self._journal.open}
        of_journal.update(ended.begun.reconfiguration for ended in self._journal.ended)
        for ended in self._journal.ended:
            entry, dated = ended.begun, ended.dated
            recorded = await self._documents.of(entry.reconfiguration, dated.fact.KIND)
            if any(isinstance(fact, EndFact) and outcome_of(fact) == ended.outcome for fact in recorded):
                self._journal.note_recorded(dated.fact)
            elif entry.run is None and since_wall_ns is not None and dated.wall_ns < since_wall_ns:
                self._journal.note_recorded(dated.fact)  # it was recorded, and deleted with others of its age
            else:
                await self._add_start(entry.reconfiguration, entry.started)
                self._missing.append(_MissingDocument(reconfiguration=entry.reconfiguration, dated=dated))
        for entry in self._journal.open:
            await self._add_start(entry.reconfiguration, entry.started)
        unended = await self._documents.unended()
        self._cut_off = [_cut_off(started) for started in unended if started.reconfiguration not in of_journal]

    def tell(self, sink: Sink) -> None:
        """Emit what the records lack, each with the time of its entry in the journal, and the ends of what was cut off
        without one.
        """
        now_ns, now_wall_ns = self._clock.monotonic_ns(), self._clock.wall_ns()
        for one in self._missing:
            fact, wall_ns = one.dated.fact, one.dated.wall_ns
            log.info("journal: %s: the records lack that it is %s; it is told now", one.reconfiguration, fact.KIND)
            at_ns = now_ns - max(0, now_wall_ns - wall_ns)
            sink(Document(at_ns=at_ns, wall_ns=wall_ns, fact=replace(fact, from_journal=True)))
        for recovered in self._cut_off:
            log.info("%s: is %s: %s", recovered.reconfiguration, recovered.outcome, recovered.why)
            sink(Document(at_ns=now_ns, wall_ns=now_wall_ns, fact=recovered))
        self._missing.clear()
        self._cut_off.clear()

    async def _add_start(self, id: str, started: DatedFact[ReconfigurationStarted] | None) -> None:
        if started is not None and not await self._documents.of(id, started.fact.KIND):
            self._missing.append(_MissingDocument(reconfiguration=id, dated=started))


def _cut_off(started: ReconfigurationStarted) -> DaemonRecovered:
    """The end of one that the journal does not have: what moves something is there before its first command."""
    moves = any(move.add or move.remove for move in started.moves)
    found = "The journal that had it is gone: look at its switches" if moves else "It had moved nothing"
    why = f"the daemon ended before the records had its end. {found}"
    return DaemonRecovered(reconfiguration=started.reconfiguration, run=started.run, outcome=CRASHED, why=why)
