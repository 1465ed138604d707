"""The id of the journal that belongs to the records: if that journal is missing, it was lost, and must not be replaced
by a new one.
"""

from typing import Final, Protocol

import sqlalchemy as sa

from hwd.records.store_access import Access
from hwd.records.tables import about

JOURNAL: Final = "journal"


class KnownJournal(Protocol):
    """The id in the first entry of the journal, as an earlier process of the daemon stored it."""

    async def read(self) -> str | None: ...

    async def write(self, id: str) -> None: ...


class MemoryJournalId:
    """The id of a journal in memory: records on a disk outlive it, and would report it missing."""

    def __init__(self) -> None:
        self._id: str | None = None

    async def read(self) -> str | None:
        return self._id

    async def write(self, id: str) -> None:
        self._id = id


class JournalId:
    """The id in the records."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def read(self) -> str | None:
        """Read the id; None where the records are new, or older than journals with an id."""
        query = sa.select(about.c.value).where(about.c.key == JOURNAL)
        return await self._access.read("read which journal is theirs", lambda connection: connection.scalar(query))

    async def write(self, id: str) -> None:
        """Store it, once, when there is none."""
        insert = sa.insert(about).values(key=JOURNAL, value=id)
        await self._access.write("write which journal is theirs", lambda connection: connection.execute(insert))
