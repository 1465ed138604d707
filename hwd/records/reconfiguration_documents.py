"""Which documents of single reconfigurations the records have."""

from typing import Final

import msgspec
import sqlalchemy as sa

from hwd.records.fact_reader import FactReader
from hwd.records.gaps import DocumentGroup, read_gap
from hwd.records.store_access import Access
from hwd.records.tables import documents
from hwd_drivers.core.documents import Fact

LOOKED_AT: Final = 16
"""The newest documents of one kind that name a reconfiguration: it has one or two of them."""


class ReconfigurationDocuments:
    """Read at a start of the daemon, for the few reconfigurations that its last process may not have recorded."""

    def __init__(self, access: Access, read_fact: FactReader) -> None:
        self._access = access
        self._store = access.store
        self._read_fact = read_fact

    async def of(self, id: str, kind: str) -> tuple[Fact, ...]:
        """The documents of one kind of a reconfiguration, newest first."""
        return await self._access.read(self._of, id, kind)

    async def unowned_since_wall_ns(self) -> int | None:
        """The unix time since when the records have all of the history outside of runs: older ones may be deleted. None
        where they have no document outside of runs.
        """
        return await self._access.read(self._unowned_since)

    # --- blocking, in the offload

    def _of(self, id: str, kind: str) -> tuple[Fact, ...]:
        named = documents.c.data.contains(f'"reconfiguration":{msgspec.json.encode(id).decode()}', autoescape=True)
        query = sa.select(documents.c.data).where(documents.c.kind == kind, named)
        with self._store.transaction(f"read {kind} of {id}") as connection:
            rows = connection.scalars(query.order_by(documents.c.id.desc()).limit(LOOKED_AT))
            facts = [self._read_fact(kind, text) for text in rows]
        return tuple(fact for fact in facts if getattr(fact, "reconfiguration", None) == id)

    def _unowned_since(self) -> int | None:
        query = sa.select(documents.c.wall_ns).where(documents.c.run.is_(None)).order_by(documents.c.id).limit(1)
        with self._store.transaction("read since when documents are held") as connection:
            oldest_wall_ns = connection.scalar(query)
            gap = read_gap(connection, DocumentGroup.HISTORY)
        return oldest_wall_ns if gap is None else max(oldest_wall_ns or 0, gap.wall_ns + 1)
