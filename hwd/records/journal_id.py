"""Which journal belongs to the records: one that is gone beside them is damage, and not a new one."""

from typing import Final, Protocol

import sqlalchemy as sa

from hwd.records.access import Access
from hwd.records.schema import about

JOURNAL: Final = "journal"


class KnownJournal(Protocol):
    """The id that the journal has in its first entry, as its daemon learnt it in a life before."""

    async def read(self) -> str | None: ...

    async def write(self, id: str) -> None: ...


class MemoryJournalId:
    """For a journal in memory: records on a disk outlast it, and would miss it."""

    def __init__(self) -> None:
        self._id: str | None = None

    async def read(self) -> str | None:
        return self._id

    async def write(self, id: str) -> None:
        self._id = id


class JournalId:
    """In the records."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._store = access.store

    async def read(self) -> str | None:
        """None where the records are new, or older than journals with an id."""
        return await self._access.read(self._read)

    async def write(self, id: str) -> None:
        """Once, when there is none."""
        await self._access.write(self._write, id)

    # --- blocking, in the offload

    def _read(self) -> str | None:
        with self._store.transaction("read which journal is theirs") as connection:
            return connection.scalar(sa.select(about.c.value).where(about.c.key == JOURNAL))

    def _write(self, id: str) -> None:
        with self._store.transaction("write which journal is theirs") as connection:
            connection.execute(sa.insert(about).values(key=JOURNAL, value=id))
