"""Which documents of single reconfigurations the records have."""

from typing import Final

import sqlalchemy as sa

from hwd.model.daemon import DaemonRecovered, JournalGivenUp
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationStarted
from hwd.records.entry import FactReader
from hwd.records.gaps import DocumentGroup, read_gap
from hwd.records.store_access import Access
from hwd.records.tables import documents
from hwd_drivers.core.documents import Fact
from hwd_drivers.core.structs import to_json

LOOKED_AT: Final = 16
"""The newest documents of one kind that name a reconfiguration: it has one or two of them."""
BEGINS_LOOKED_AT: Final = 200
"""The newest begins to read: those under way when a daemon died are among its last."""
ENDS: Final = (ReconfigurationEnded, DaemonRecovered, JournalGivenUp)


class ReconfigurationDocuments:
    """Read at a start of the daemon, for the few reconfigurations that its last process may not have recorded."""

    def __init__(self, access: Access, read_fact: FactReader) -> None:
        self._access = access
        self._read_fact = read_fact

    async def of(self, id: str, kind: str) -> tuple[Fact, ...]:
        """The documents of one kind of a reconfiguration, newest first."""
        named = documents.c.data.contains(f'"reconfiguration":{to_json(id).decode()}', autoescape=True)
        query = sa.select(documents.c.data).where(documents.c.kind == kind, named)
        query = query.order_by(documents.c.id.desc()).limit(LOOKED_AT)

        def read(connection: sa.Connection) -> tuple[Fact, ...]:
            facts = [self._read_fact(kind, text) for text in connection.scalars(query)]
            return tuple(fact for fact in facts if getattr(fact, "reconfiguration", None) == id)

        return await self._access.read(f"read {kind} of {id}", read)

    async def unended(self) -> tuple[ReconfigurationStarted, ...]:
        """The first documents of the newest reconfigurations of the daemon that have no end, oldest first."""
        return await self._access.read("read reconfigurations without an end", self._unended)

    async def unowned_since_wall_ns(self) -> int | None:
        """The unix time since when the records have all of the history outside of runs: older ones may be deleted. None
        where they have no document outside of runs.
        """
        query = sa.select(documents.c.wall_ns).where(documents.c.run.is_(None)).order_by(documents.c.id).limit(1)

        def read(connection: sa.Connection) -> int | None:
            oldest_wall_ns = connection.scalar(query)
            gap = read_gap(connection, DocumentGroup.HISTORY)
            return oldest_wall_ns if gap is None else max(oldest_wall_ns or 0, gap.wall_ns + 1)

        return await self._access.read("read since when documents are held", read)

    def _unended(self, connection: sa.Connection) -> tuple[ReconfigurationStarted, ...]:
        columns, newest = sa.select(documents.c.id, documents.c.kind, documents.c.data), documents.c.id.desc()
        begins = columns.where(documents.c.kind == ReconfigurationStarted.KIND).order_by(newest)
        found = connection.execute(begins.limit(BEGINS_LOOKED_AT)).all()[::-1]
        if not found:
            return ()
        ends = columns.where(documents.c.kind.in_([kind.KIND for kind in ENDS]), documents.c.id > found[0].id)
        facts = [self._read_fact(row.kind, row.data) for row in (*found, *connection.execute(ends))]
        ended = {fact.reconfiguration for fact in facts if isinstance(fact, ENDS)}
        begun = [one for one in facts if isinstance(one, ReconfigurationStarted) and not one.host]
        return tuple(one for one in begun if one.reconfiguration not in ended)
