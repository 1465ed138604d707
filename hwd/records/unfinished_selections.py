"""Selections of hosts that are recorded without a timeline, since the daemon ended in between."""

from collections.abc import Sequence
from typing import Final, TypeVar

import sqlalchemy as sa

from hwd.model.host import HostEvent, HostSelection
from hwd.model.timeline import Timeline
from hwd.records.entry import FactReader
from hwd.records.gaps import DocumentGroup, read_gap
from hwd.records.store_access import Access
from hwd.records.tables import documents
from hwd_agents.wire import Selected
from hwd_drivers.core.documents import Fact

FactT = TypeVar("FactT", bound=Fact)

SELECTIONS_LOOKED_AT: Final = 200
"""The newest selections to read: a timeline follows its selection by two seconds, and hosts make fewer in that time."""
EVENTS_LOOKED_AT: Final = 4000

UNKNOWN: Final = "unknown"
"""The outcome of one that never gets a timeline: its agent was killed during it."""


class UnfinishedSelections:
    """Read at a start of the daemon."""

    def __init__(self, access: Access, read_fact: FactReader) -> None:
        self._access = access
        self._read_fact = read_fact

    async def read(self) -> tuple[Sequence[HostEvent], Sequence[HostEvent]]:
        """The events of those selections, and the hosts' latest reports about their ports, each in the order in which
        they arrived. Documents that this version cannot read are left out.

        The reports are those of selections too that come from the agents only after this start.
        """
        return await self._access.read("read up to where documents were deleted", self._read)

    def _read(self, connection: sa.Connection) -> tuple[Sequence[HostEvent], Sequence[HostEvent]]:
        gap = read_gap(connection, DocumentGroup.DOCUMENTS)
        newest = self._newest(connection, HostSelection, SELECTIONS_LOOKED_AT, after=0 if gap is None else gap.upto)
        reported = {fact.selection for fact in newest if fact.outcome != UNKNOWN}
        timelines = self._newest(connection, Timeline, 2 * SELECTIONS_LOOKED_AT)
        missing = reported - {fact.reconfiguration for fact in timelines}
        events = self._newest(connection, HostEvent, EVENTS_LOOKED_AT)
        unfinished = [one for one in events if isinstance(one.data, Selected) and one.data.selection in missing]
        return unfinished, [one for one in events if one.port is not None]

    def _newest(self, connection: sa.Connection, type: type[FactT], limit: int, *, after: int = 0) -> list[FactT]:
        mine = (documents.c.kind == type.KIND) & (documents.c.id > after)
        query = sa.select(documents.c.data).where(mine).order_by(documents.c.id.desc()).limit(limit)
        facts = [self._read_fact(type.KIND, text) for text in connection.scalars(query)][::-1]
        return [fact for fact in facts if isinstance(fact, type)]
