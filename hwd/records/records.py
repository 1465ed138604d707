"""Records: runs, documents and the acknowledged events of each agent, in SQL; the other tables are its parts."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa
from msgspec import UNSET
from msgspec.structs import asdict, replace

from hwd.model.host import ClockAligned
from hwd.model.plural import plural
from hwd.model.recorded_run import Run, RunOutcome, RunSummary
from hwd.model.run import TrialRun
from hwd.records.alignments import AlignmentTable
from hwd.records.delegation_table import DelegationTable
from hwd.records.demand_table import DemandTable
from hwd.records.desired_table import DesiredTable, put_wanted
from hwd.records.entry import Entry, entry
from hwd.records.fact_reader import FactReader
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
from hwd.records.store import Store, insert_rows
from hwd.records.store_access import Access
from hwd.records.tables import alignments, documents, queue, runs, seen
from hwd.records.transfer_table import TransferTable
from hwd.records.twinfaults import TwinFaultTable
from hwd.records.unfinished_selections import UnfinishedSelections
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import BugError, ConfigError, FailedError, UnknownError
from hwd_drivers.core.offload import Offload
from hwd_drivers.core.structs import from_json, to_json

T = TypeVar("T")

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
LONG_COLUMNS = frozenset({"playbook_text", "testbed_text", "inventory"})
"""Columns that a list of runs omits: some tens of kilobytes each."""


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
        self._access = Access(self._store, offload)
        self._read_fact = FactReader(self._store.name)
        self.alignments = AlignmentTable(self._access, self._last_resort, self._read_fact)
        self.journal = JournalId(self._access)
        self.reconfigurations = ReconfigurationDocuments(self._access, self._read_fact)
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
        self._reserve = reserve
        self._unowned_since_pruning = 0
        self._boots_since_pruning: set[tuple[str, str]] = set()

    @property
    def name(self) -> str:
        """The URL without its password."""
        return self._store.name

    async def open(self) -> None:
        """Raises ConfigError for a file that is not ours or that a newer hwd wrote."""
        await self._access.write(self._last_resort, self._store.open)

    def close(self) -> None:
        """No call may be in progress."""
        self._store.close()

    # --- runs

    async def start_run(self, run: Run) -> None:
        """Record the start of a run and remove it from the queue."""
        await self._access.write(self._insert_run, run)

    async def end_run(
        self, id: str, *, outcome: RunOutcome, why: str, ended_wall_ns: int, safe_state: str | None = None
    ) -> None:
        """Raises BugError where the run is not under way; a repetition of the same end, whose answer was
        lost, is no error.
        """

        def end() -> None:
            self._end_run(id, outcome, why, ended_wall_ns, safe_state)

        await self._access.write(self._last_resort, end)

    async def settle_run(self, id: str, safe_state: str) -> bool:
        """Record the state of the switches of a run that ended without knowing it; False while that
        end is not written.
        """
        return await self._access.write(self._settle_run, id, safe_state)

    async def crashed(self, now_wall_ns: int) -> tuple[Run, ...]:
        """Read the runs without an end at a start, as ended by the daemon's crash, oldest first. Nothing is written."""
        return await self._access.read(self._crashed, now_wall_ns)

    async def runs(self, *, limit: int | None = None, before: str | None = None) -> tuple[RunSummary, ...]:
        """Newest first, without their texts and inventories. `before`: the id of a run; only older ones.
        Raises UnknownError.
        """
        return await self._access.read(self._runs, limit, before)

    async def run(self, id: str) -> Run:
        """Read a run by its id or a prefix of it; raises UnknownError where that fits none, ConfigError where it fits
        several.
        """
        return await self._access.read(self._run, id)

    # --- documents

    async def add(self, entries: Sequence[Entry]) -> None:
        """Write documents and, in the same transaction, what follows from them: the acknowledged events of each boot,
        its alignment, counts of moves, and the desired state.
        """
        await self._access.write(self._add, entries)

    async def add_documents(self, batch: Iterable[Document], *, run: str | None = None) -> None:
        await self.add([entry(document, run=run) for document in batch])

    async def documents(
        self, *, run: str | None = None, kinds: Iterable[str] = (), after: int = 0, limit: int | None = None
    ) -> tuple[StoredDocument, ...]:
        """Read documents in the order of recording. `run` None: of all runs and of none; `kinds` empty: all; `after`:
        an id.
        """
        return await self._access.read(self._documents, run, tuple(kinds), after, limit)

    async def newest(
        self, kinds: Iterable[str], *, limit: int, before: int | None = None
    ) -> tuple[StoredDocument, ...]:
        """Read documents of these kinds, of all runs and of none, newest first. `before`: an id; only older ones."""
        return await self._access.read(self._newest, tuple(kinds), limit, before)

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
        return await self._access.read(self._last_document, run, kind)

    # --- agents

    async def event_positions(self) -> Mapping[tuple[str, str], int]:
        """Read the number up to which events are recorded, for each (host, boot). The newest boots of each host, the
        oldest of these first.
        """
        return await self._access.read(self._seen)

    # --- blocking, in the offload

    def _insert_run(self, run: Run) -> None:
        row = {
            "id": run.id,
            "playbook": run.playbook,
            "playbook_text": run.playbook_text,
            "parameters": _encode(run.parameters),
            "testbed": run.testbed,
            "testbed_text": run.testbed_text,
            "inventory": _encode(run.inventory),
            "version": run.version,
            "commit_id": run.commit,
            "virtual_time": run.virtual_time,
            "started_wall_ns": run.started_wall_ns,
            "ended_wall_ns": run.ended_wall_ns,
            "outcome": run.outcome,
            "why": run.why,
            "safe_state": run.safe_state,
            "trial": None if run.trial is UNSET else _encode(run.trial),
        }
        with self._store.transaction(f"start run {run.id}") as connection:
            connection.execute(sa.delete(queue).where(queue.c.id == run.id))
            connection.execute(sa.insert(runs), [row])

    def _last_resort(self, write: Callable[[], T]) -> T:
        """Write, with the room of the reserve where there is no other."""
        try:
            return write()
        except FailedError:
            if self._reserve is None or not self._reserve.release():
                raise
            written = write()
            self._reserve.hold()  # what is left of it, before documents use that
            return written

    def _settle_run(self, id: str, safe_state: str) -> bool:
        with self._store.transaction(f"settle run {id}") as connection:
            ended = sa.update(runs).where(runs.c.id == id, runs.c.outcome.is_not(None))
            return connection.execute(ended.values(safe_state=safe_state)).rowcount > 0

    def _end_run(self, id: str, outcome: RunOutcome, why: str, ended_wall_ns: int, safe_state: str | None) -> None:
        ended = {"outcome": str(outcome), "why": why, "ended_wall_ns": ended_wall_ns, "safe_state": safe_state}
        with self._store.transaction(f"end run {id}") as connection:
            changed = connection.execute(
                sa.update(runs).where(runs.c.id == id, runs.c.outcome.is_(None)).values(**ended)
            )
            if changed.rowcount == 1:
                return
            there = connection.execute(sa.select(*(runs.c[name] for name in ended)).where(runs.c.id == id)).first()
            if there is None or tuple(there) != tuple(ended.values()):
                raise BugError(f"run {id}: ended as {outcome}, and is not under way in {self.name}")

    def _crashed(self, now_wall_ns: int) -> tuple[Run, ...]:
        last_wall_ns = (
            sa.select(sa.func.max(documents.c.wall_ns)).where(documents.c.run == runs.c.id).scalar_subquery()
        ).label("heard")
        query = (
            sa.select(runs, last_wall_ns).where(runs.c.outcome.is_(None)).order_by(runs.c.started_wall_ns, runs.c.id)
        )
        with self._store.transaction("find crashed runs") as connection:
            return tuple(
                replace(
                    _to_run(row),
                    outcome=RunOutcome.CRASHED,
                    why="the daemon ended under it",
                    ended_wall_ns=now_wall_ns if row["heard"] is None else row["heard"],
                )
                for row in connection.execute(query).mappings()
            )

    def _runs(self, limit: int | None, before: str | None) -> tuple[RunSummary, ...]:
        began = runs.c.started_wall_ns
        query = sa.select(*(column for column in runs.c if column.name not in LONG_COLUMNS))
        query = query.order_by(began.desc(), runs.c.id).limit(limit)
        with self._store.transaction("list the runs") as connection:
            if before is not None:
                at = connection.scalar(sa.select(began).where(runs.c.id == before))
                if at is None:
                    raise UnknownError(f"run {before!r}: not in the records. `hwd runs` lists them")
                query = query.where((began < at) | ((began == at) & (runs.c.id > before)))
            return tuple(_to_summary(row) for row in connection.execute(query).mappings())

    def _run(self, id: str) -> Run:
        with self._store.transaction(f"find run {id}") as connection:
            starts = sa.func.substr(runs.c.id, 1, len(id)) == id
            query = sa.select(runs).where(starts).order_by(runs.c.started_wall_ns.desc())
            found = [_to_run(row) for row in connection.execute(query).mappings()] if id else []
        exact = [run for run in found if run.id == id]
        match exact or found:
            case [run]:
                return run
            case []:
                raise UnknownError(f"run {id!r}: not in the records. `hwd runs` lists them")
            case several:
                named = ", ".join(run.id for run in several[:5]) + (" ..." if len(several) > 5 else "")
                raise ConfigError(f"run {id!r}: {len(several)} runs start so ({named}). Write more of it")

    def _add(self, entries: Sequence[Entry]) -> None:
        held: dict[tuple[str, str], tuple[int, int]] = {}
        aligned: dict[tuple[str, str], Entry] = {}
        for one in entries:
            if one.boot is None:
                continue
            if one.kind == ClockAligned.KIND:
                aligned[one.boot] = one
            else:
                held[one.boot] = max(held.get(one.boot, (0, 0)), (one.seq, one.wall_ns))
        with self._store.transaction(f"write {plural(len(entries), 'document')}") as connection:
            insert_rows(
                connection,
                "INSERT INTO documents (run, kind, at_ns, wall_ns, data)",
                [(one.run, one.kind, one.at_ns, one.wall_ns, one.data) for one in entries],
            )
            for (host, name), (upto, wall_ns) in held.items():
                connection.execute(_SEE, {"host": host, "boot": name, "upto": upto, "wall_ns": wall_ns})
            for (host, name), one in aligned.items():
                _replace(
                    connection, alignments, {"host": host, "boot": name}, {"wall_ns": one.wall_ns, "data": one.data}
                )
            add_moves(connection, (moved for one in entries for moved in one.moved))
            put_wanted(connection, [wanted for one in entries for wanted in one.wanted])
            self._prune(connection, sum(one.run is None for one in entries))
            self._prune_seen(connection, held.keys())
        if self._reserve is not None:
            self._reserve.hold()

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

    def _documents(
        self, run: str | None, kinds: tuple[str, ...], after: int, limit: int | None
    ) -> tuple[StoredDocument, ...]:
        query = sa.select(documents).where(documents.c.id > after).order_by(documents.c.id).limit(limit)
        if run is not None:
            query = query.where(documents.c.run == run)
        if kinds:
            query = query.where(documents.c.kind.in_(kinds))
        with self._store.transaction("read documents") as connection:
            return tuple(map(self._stored, connection.execute(query)))

    def _newest(self, kinds: tuple[str, ...], limit: int, before: int | None) -> tuple[StoredDocument, ...]:
        query = sa.select(documents).where(documents.c.kind.in_(kinds)).order_by(documents.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(documents.c.id < before)
        with self._store.transaction("read the newest documents of some kinds") as connection:
            return tuple(map(self._stored, connection.execute(query)))

    def _last_document(self, run: str, kind: str) -> Document | None:
        mine = (documents.c.run == run) & (documents.c.kind == kind)
        with self._store.transaction("read the last document of a kind") as connection:
            row = connection.execute(sa.select(documents).where(mine).order_by(documents.c.id.desc()).limit(1)).first()
            return None if row is None else self._document(row)

    def _stored(self, row: sa.Row[Any]) -> StoredDocument:
        return StoredDocument(id=row.id, run=row.run, document=self._document(row))

    def _document(self, row: sa.Row[Any]) -> Document:
        return Document(at_ns=row.at_ns, wall_ns=row.wall_ns, fact=self._read_fact(row.kind, row.data))

    def _seen(self) -> Mapping[tuple[str, str], int]:
        with self._store.transaction("read how far events are held") as connection:
            ranked = _seen_by_age()
            query = sa.select(ranked).where(ranked.c.place <= SEEN_BOOTS_KEPT).order_by(ranked.c.place.desc())
            return {(row.host, row.boot): row.upto for row in connection.execute(query)}


def _seen_by_age() -> sa.Subquery:
    """`place`: 1 for the newest boot of a host."""
    place = sa.func.row_number().over(partition_by=seen.c.host, order_by=(seen.c.wall_ns.desc(), seen.c.boot))
    return sa.select(seen, place.label("place")).subquery()


def _replace(connection: sa.Connection, table: sa.Table, key: Mapping[str, str], row: Mapping[str, Any]) -> None:
    connection.execute(sa.delete(table).where(*(table.c[name] == value for name, value in key.items())))
    connection.execute(sa.insert(table), [{**key, **row}])


def _encode(value: object) -> str:
    return to_json(value).decode()


def _to_run(row: Mapping[Any, Any]) -> Run:
    return Run(
        **asdict(_to_summary(row))
        | {
            "playbook_text": row["playbook_text"],
            "testbed_text": row["testbed_text"],
            "inventory": json.loads(row["inventory"]),
        }
    )


def _to_summary(row: Mapping[Any, Any]) -> RunSummary:
    return RunSummary(
        id=row["id"],
        playbook=row["playbook"],
        parameters=json.loads(row["parameters"]),
        testbed=row["testbed"],
        version=row["version"],
        commit=row["commit_id"],
        virtual_time=row["virtual_time"],
        started_wall_ns=row["started_wall_ns"],
        ended_wall_ns=row["ended_wall_ns"],
        outcome=None if row["outcome"] is None else RunOutcome(row["outcome"]),
        why=row["why"],
        safe_state=row["safe_state"],
        trial=UNSET if row["trial"] is None else from_json(row["trial"], TrialRun),
    )
