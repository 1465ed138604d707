"""The deletion of old documents outside of runs, in batches that no other writer waits for."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec
import sqlalchemy as sa

from hwd.records.gaps import DocumentGroup, Gap, put_gap
from hwd.records.store_access import Access
from hwd.records.tables import desired, documents
from hwd_drivers.core.structs import from_json
from hwd_drivers.core.values import Crossconnect

ROWS: Final = 256
"""Documents that one batch looks at: deleting them takes some milliseconds of the disk's time."""
BYTES: Final = 4 * 1024 * 1024
"""After so many bytes a batch ends: timelines of a large rack are megabytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutoff:
    """Documents before this unix time are too old; `why` in words: `older than the retention of 90 days`."""

    before_wall_ns: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The result of a batch. `after`: the id up to which it looked. `groups`: those that may have more to delete."""

    after: int = 0
    groups: frozenset[DocumentGroup] = frozenset(DocumentGroup)
    deleted: Counter[DocumentGroup] = field(default_factory=Counter)


class _Old(NamedTuple):
    """A document, with its text only where what it names may matter."""

    id: int
    kind: str
    wall_ns: int
    length: int
    data: str | None


class OldDocuments:
    """Deletes in the order of recording, and of each group only up to its first document that is not too old.

    So what is left of a group is complete from its gap on, also where the machine's clock was wrong for a while. Never
    deleted: documents of runs, those that name something in `needed`, those that say what is desired now, and the
    newest of each kind.
    """

    def __init__(self, access: Access) -> None:
        self._access = access

    async def delete(self, last: Batch, cutoffs: Mapping[DocumentGroup, Cutoff], needed: Set[str]) -> Batch:
        """The batch after `last`. `needed`: ids of reconfigurations and prepared sets that have not ended."""
        attempt = "look for old documents"
        found, batch = await self._access.read(attempt, lambda connection: _find(connection, last, cutoffs, needed))
        if found:
            attempt = f"delete {len(found)} old documents"
            await self._access.write(attempt, lambda connection: _delete(connection, found, cutoffs))
        return batch


def _find(
    connection: sa.Connection, last: Batch, cutoffs: Mapping[DocumentGroup, Cutoff], needed: Set[str]
) -> tuple[list[_Old], Batch]:
    unowned = documents.c.run.is_(None)
    is_read = sa.true() if needed else DocumentGroup.HISTORY.has
    query = (
        sa.select(
            *(documents.c.id, documents.c.kind, documents.c.wall_ns),
            sa.func.length(documents.c.data).label("length"),
            sa.case((is_read, documents.c.data)).label("data"),
        )
        .where(unowned, documents.c.id > last.after)
        .order_by(documents.c.id)
        .limit(ROWS)
    )
    groups, after, length = set(last.groups & cutoffs.keys()), last.after, 0
    found: list[_Old] = []
    wanted = _Retention(connection, needed)
    rows = [_Old(*row) for row in connection.execute(query)]
    for row in rows:
        after, group = row.id, DocumentGroup.of(row.kind)
        if group in groups and row.wall_ns >= cutoffs[group].before_wall_ns:
            groups.discard(group)
        if group in groups and not wanted.names(row):
            found.append(row)
            length += row.length
        if not groups or length > BYTES:
            break
    newest = _newest(connection, found)
    if not rows:
        groups.clear()
    found = [row for row in found if row.id not in newest]
    deleted = Counter(DocumentGroup.of(row.kind) for row in found)
    return found, Batch(after=after, groups=frozenset(groups), deleted=deleted)


def _delete(connection: sa.Connection, rows: list[_Old], cutoffs: Mapping[DocumentGroup, Cutoff]) -> None:
    connection.execute(sa.delete(documents).where(documents.c.id.in_([row.id for row in rows])))
    for group, row in {DocumentGroup.of(row.kind): row for row in rows}.items():
        put_gap(connection, group, Gap(upto=row.id, wall_ns=row.wall_ns, why=cutoffs[group].why))


class _NamedParts(msgspec.Struct):
    """The parts that a document names; another version of hwd may have written it, so nothing is sure of its types."""

    reconfiguration: object = None
    prepared_set: object = None
    switch: object = None
    by: object = None
    crossconnects: object = None
    free: object = None


class _Retention:
    """The rules of retention: documents stay that name what has not ended, and those that made the desired state."""

    def __init__(self, connection: sa.Connection, needed: Set[str]) -> None:
        self._needed = needed
        rows = connection.execute(sa.select(desired.c.switch, desired.c.end, desired.c.by)).all()
        self._by = {(row.switch, row.end): row.by for row in rows}
        self._origins = {*self._by.values()}

    def names(self, row: _Old) -> bool:
        if row.data is None:
            return False
        named = from_json(row.data, _NamedParts)
        if self._needed & {one for one in (named.reconfiguration, named.prepared_set) if isinstance(one, str)}:
            return True
        if DocumentGroup.of(row.kind) is not DocumentGroup.HISTORY:
            return False
        return named.reconfiguration in self._origins or any(
            self._by.get((named.switch, end)) == named.by for end in _ends(named)
        )


def _ends(named: _NamedParts) -> Iterable[str]:
    """The fibre ends that a document about a switch wants something of."""
    if isinstance(named.free, list):
        yield from map(str, named.free)
    if isinstance(named.crossconnects, list):
        for one in named.crossconnects:
            yield from map(str, Crossconnect.parse(str(one)).ends)


def _newest(connection: sa.Connection, rows: Iterable[_Old]) -> frozenset[int]:
    """The newest of their kind outside of runs, among these documents, oldest first."""
    last = {row.kind: row.id for row in rows}
    newer = (
        sa.select(documents.c.id).where(documents.c.run.is_(None), documents.c.kind == kind, documents.c.id > id)
        for kind, id in last.items()
    )
    found = [connection.scalar(query.limit(1)) for query in newer]
    return frozenset(id for id, one in zip(last.values(), found, strict=True) if one is None)
