"""Records: documents and the acknowledged events of each agent, in SQL; the other tables are its parts."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa

from hwd.model.host import ClockAligned
from hwd.model.plural import plural
from hwd.records.alignments import AlignmentTable
from hwd.records.delegation_table import DelegationTable
from hwd.records.demand_table import DemandTable
from hwd.records.desired_table import DesiredTable, put_wanted
from hwd.records.entry import Entry, FactReader, entry
from hwd.records.gaps import DocumentGroup, Gap, GapTable, put_gap
from hwd.records.job_table import JobTable
from hwd.records.journal_id import JournalId
from hwd.records.lease_table import LeaseTable
from hwd.records.move_table import MoveTable, add_moves
from hwd.records.old_documents import OldDocuments
from hwd.records.queue_table import QueueTable
from hwd.records.reconfiguration_documents import ReconfigurationDocuments
from hwd.records.records_file import DatabaseUrl
from hwd.records.reserve import Reserve
from hwd.records.run_table import RunTable
from hwd.records.store import Store, insert_rows, put_row
from hwd.records.store_access import Access
from hwd.records.tables import alignments, documents, seen
from hwd.records.transfer_table import TransferTable
from hwd.records.twinfaults import TwinFaultTable
from hwd.records.unfinished_selections import UnfinishedSelections
from hwd_drivers.core.documents import Document
from hwd_drivers.core.offload import Offload

_SEE = sa.text(
    "INSERT INTO seen (host, boot, upto, wall_ns) VALUES (:host, :boot, :upto, :wall_ns) ON CONFLICT (host, boot) "
    "DO UPDATE SET upto = excluded.upto, wall_ns = excluded.wall_ns WHERE excluded.upto > seen.upto"
)
SEEN_BOOTS_KEPT = 1024
"""Newest boots of each host whose acknowledged events are recorded. Anybody with a host's password can invent more."""
SEEN_PRUNED_EVERY = 4096
"""Boots whose events arrive before the older ones are deleted: the table may have so many more."""
UNOWNED_KEPT = 200_000
"""Newest documents that belong to no run and are retained (a watched rack makes some thousand a day)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument:
    """A document in the records; `id` grows in the order of recording."""

    id: int
    run: str | None
    document: Document


class Records:
    """All methods but `close` go through `offload`. One writer at a time; a file's readers do not wait for it.

    With `read_only` nothing is created: see `Store`. `name`: for messages, by default the URL.
    `reserve` is released where the end of a run, or the start of the daemon after a crash, finds the disk full, and
    taken again when documents can be written.

    ```
    records = Records("sqlite:///data/records.db", offload)
    await records.open()
    ```
    """

    def __init__(
        self,
        url: DatabaseUrl,
        offload: Offload,
        *,
        read_only: bool = False,
        name: str | None = None,
        max_bytes: int | None = None,
        unowned_kept: int = UNOWNED_KEPT,
        reserve: Reserve | None = None,
    ) -> None:
        self._store = Store(url, max_bytes=max_bytes, read_only=read_only, name=name)
        self._access = Access(self._store, offload, reserve)
        self._read_fact = FactReader(self._store.name)
        self.alignments = AlignmentTable(self._access, self._read_fact)
        self.journal = JournalId(self._access)
        self.reconfigurations = ReconfigurationDocuments(self._access, self._read_fact)
        self.runs = RunTable(self._access, self.name)
        self.queue = QueueTable(self._access)
        self.jobs = JobTable(self._access)
        self.leases = LeaseTable(self._access)
        self.moves = MoveTable(self._access)
        self.demands = DemandTable(self._access)
        self.desired = DesiredTable(self._access)
        self.twin_faults = TwinFaultTable(self._access)
        self.delegations = DelegationTable(self._access)
        self.transfers = TransferTable(self._access)
        self.gaps = GapTable(self._access)
        self.old_documents = OldDocuments(self._access)
        self.unfinished_selections = UnfinishedSelections(self._access, self._read_fact)
        self._unowned_kept = unowned_kept
        self._unowned_since_pruning = 0
        self._boots_since_pruning: set[tuple[str, str]] = set()

    @property
    def name(self) -> str:
        """The URL without its password."""
        return self._store.name

    async def open(self) -> None:
        """Raises ConfigError for a file that is not ours or that a newer hwd wrote."""
        await self._access.open()

    def close(self) -> None:
        """No call may be in progress."""
        self._store.close()

    # --- documents

    async def add(self, entries: Sequence[Entry]) -> None:
        """Write documents and, in the same transaction, what follows from them: the acknowledged events of each boot,
        its alignment, counts of moves, and the desired state.
        """
        attempt = f"write {plural(len(entries), 'document')}"
        await self._access.write_and_reserve(attempt, partial(self._add, entries=entries))

    async def add_documents(self, batch: Iterable[Document], *, run: str | None = None) -> None:
        await self.add([entry(document, run=run) for document in batch])

    async def documents(
        self, *, run: str | None = None, kinds: Iterable[str] = (), after: int = 0, limit: int | None = None
    ) -> tuple[StoredDocument, ...]:
        """Read documents in the order of recording. `run` None: of all runs and of none; `kinds` empty: all; `after`:
        an id.
        """
        query = sa.select(documents).where(documents.c.id > after).order_by(documents.c.id).limit(limit)
        if run is not None:
            query = query.where(documents.c.run == run)
        if kinds := tuple(kinds):
            query = query.where(documents.c.kind.in_(kinds))
        return await self._stored("read documents", query)

    async def newest(
        self, kinds: Iterable[str], *, limit: int, before: int | None = None
    ) -> tuple[StoredDocument, ...]:
        """Read documents of these kinds, of all runs and of none, newest first. `before`: an id; only older ones."""
        query = sa.select(documents).where(documents.c.kind.in_([*kinds])).order_by(documents.c.id.desc())
        if before is not None:
            query = query.where(documents.c.id < before)
        return await self._stored("read the newest documents of some kinds", query.limit(limit))

    async def unbroken(self, kinds: Iterable[str], *, limit: int) -> list[Document]:
        """Read documents of these kinds, `limit` of each at most, oldest first, from where none of them can be missing:
        what is older than the oldest of a kind that has more, or than a gap, is left out.
        """
        found: list[StoredDocument] = []
        known_from = 1 + max((gap.upto for gap in (await self.gaps.all()).values()), default=-1)
        for kind in kinds:
            newest = await self.newest([kind], limit=limit)
            found += newest
            if len(newest) == limit:
                known_from = max(known_from, newest[-1].id)
        return [one.document for one in sorted(found, key=lambda one: one.id) if one.id >= known_from]

    async def last_document(self, run: str, kind: str) -> Document | None:
        """The newest document of a kind of one run."""
        query = sa.select(documents).where(documents.c.run == run, documents.c.kind == kind)
        query = query.order_by(documents.c.id.desc()).limit(1)
        found = await self._stored("read the last document of a kind", query)
        return found[0].document if found else None

    # --- agents

    async def event_positions(self) -> Mapping[tuple[str, str], int]:
        """Read the number up to which events are recorded, for each (host, boot). The newest boots of each host, the
        oldest of these first.
        """
        ranked = _seen_by_age()
        query = sa.select(ranked).where(ranked.c.place <= SEEN_BOOTS_KEPT).order_by(ranked.c.place.desc())
        return await self._access.read(
            "read how far events are held",
            lambda connection: {(row.host, row.boot): row.upto for row in connection.execute(query)},
        )

    async def _stored(self, attempt: str, query: sa.Select[Any]) -> tuple[StoredDocument, ...]:
        def read(connection: sa.Connection) -> tuple[StoredDocument, ...]:
            return tuple(
                StoredDocument(
                    id=row.id,
                    run=row.run,
                    document=Document(at_ns=row.at_ns, wall_ns=row.wall_ns, fact=self._read_fact(row.kind, row.data)),
                )
                for row in connection.execute(query)
            )

        return await self._access.read(attempt, read)

    # --- blocking, in the offload

    def _add(self, connection: sa.Connection, entries: Sequence[Entry]) -> None:
        held: dict[tuple[str, str], tuple[int, int]] = {}
        aligned: dict[tuple[str, str], Entry] = {}
        for one in entries:
            if one.boot is None:
                continue
            if one.kind == ClockAligned.KIND:
                aligned[one.boot] = one
            else:
                held[one.boot] = max(held.get(one.boot, (0, 0)), (one.seq, one.wall_ns))
        insert_rows(
            connection,
            "INSERT INTO documents (run, kind, at_ns, wall_ns, data)",
            [(one.run, one.kind, one.at_ns, one.wall_ns, one.data) for one in entries],
        )
        for (host, boot), (upto, wall_ns) in held.items():
            connection.execute(_SEE, {"host": host, "boot": boot, "upto": upto, "wall_ns": wall_ns})
        for (host, boot), one in aligned.items():
            put_row(connection, alignments, {"host": host, "boot": boot, "wall_ns": one.wall_ns, "data": one.data})
        add_moves(connection, (moved for one in entries for moved in one.moved))
        put_wanted(connection, [wanted for one in entries for wanted in one.wanted])
        self._prune(connection, sum(one.run is None for one in entries))
        self._prune_seen(connection, held.keys())

    def _prune(self, connection: sa.Connection, added: int) -> None:
        """Delete the oldest documents of no run; checked only after a hundredth of the retained number was added."""
        self._unowned_since_pruning += added
        if self._unowned_since_pruning <= self._unowned_kept // 100:
            return
        self._unowned_since_pruning = 0
        unowned = documents.c.run.is_(None)
        newest = sa.select(documents.c.id, documents.c.wall_ns).where(unowned).order_by(documents.c.id.desc())
        oldest_kept = connection.execute(newest.offset(max(0, self._unowned_kept - 1)).limit(1)).first()
        if oldest_kept is None:
            return
        why = f"older than the newest {plural(self._unowned_kept, 'document')} outside of runs"
        gap = Gap(upto=oldest_kept.id - 1, wall_ns=oldest_kept.wall_ns, why=why)
        for group in DocumentGroup:
            older = sa.delete(documents).where(unowned, documents.c.id <= gap.upto, group.has)
            if connection.execute(older).rowcount:
                put_gap(connection, group, gap)

    def _prune_seen(self, connection: sa.Connection, boots: Set[tuple[str, str]]) -> None:
        """Delete the oldest boots of each host; checked only when events of many boots came."""
        self._boots_since_pruning |= boots
        if len(self._boots_since_pruning) < SEEN_PRUNED_EVERY:
            return
        self._boots_since_pruning.clear()
        ranked = _seen_by_age()
        old = sa.select(ranked.c.host, ranked.c.boot).where(ranked.c.place > SEEN_BOOTS_KEPT)
        connection.execute(sa.delete(seen).where(sa.tuple_(seen.c.host, seen.c.boot).in_(old)))


def _seen_by_age() -> sa.Subquery:
    """`place`: 1 for the newest boot of a host."""
    place = sa.func.row_number().over(partition_by=seen.c.host, order_by=(seen.c.wall_ns.desc(), seen.c.boot))
    return sa.select(seen, place.label("place")).subquery()
