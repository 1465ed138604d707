"""Selections of hosts that are recorded without a timeline, since the daemon ended in between."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from hwd.records.store_access import Access
from hwd.records.tables import documents

SELECTIONS_LOOKED_AT: Final = 200
"""The newest selections to read: a timeline follows its selection by two seconds, and hosts make fewer in that time."""
EVENTS_LOOKED_AT: Final = 4000

UNKNOWN: Final = "unknown"
"""The outcome of one that never gets a timeline: its agent was killed during it."""

EventData = Mapping[str, Any]
"""Data of a `host.event`."""


class UnfinishedSelections:
    """Read at a start of the daemon."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._store = access.store

    async def read(self) -> tuple[Sequence[EventData], Sequence[EventData]]:
        """The events of those selections, and the hosts' latest reports about their ports, each in the order in which
        they arrived.
        """
        return await self._access.read(self._read)

    # --- blocking, in the offload

    def _read(self) -> tuple[Sequence[EventData], Sequence[EventData]]:
        newest = self._newest("host.selection", SELECTIONS_LOOKED_AT)
        reported = {data["selection"] for data in newest if data["outcome"] != UNKNOWN}
        missing = reported - {data["reconfiguration"] for data in self._newest("timeline", 2 * SELECTIONS_LOOKED_AT)}
        if not missing:
            return (), ()
        events = self._newest("host.event", EVENTS_LOOKED_AT)
        unfinished = [
            data for data in events if data["type"] == "selection" and data["data"].get("selection") in missing
        ]
        return unfinished, [data for data in events if data["port"] is not None]

    def _newest(self, kind: str, limit: int) -> list[EventData]:
        query = sa.select(documents.c.data).where(documents.c.kind == kind).order_by(documents.c.id.desc()).limit(limit)
        with self._store.transaction(f"read the newest {kind}") as connection:
            return [json.loads(text) for text in connection.scalars(query)][::-1]
