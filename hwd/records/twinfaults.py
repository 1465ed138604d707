"""Faults that runs injected into twins, in the records: a daemon that crashed during a run clears them at
its next start.
"""

from collections.abc import Mapping

import sqlalchemy as sa

from hwd.records.store_access import Access
from hwd.records.tables import twin_faults


class TwinFaultTable:
    """Subjects by run. A subject is the JSON of the fault that clears it."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def all(self) -> Mapping[str, frozenset[str]]:
        """Faults that are not cleared yet, by run."""

        def read(connection: sa.Connection) -> Mapping[str, frozenset[str]]:
            found: dict[str, set[str]] = {}
            for row in connection.execute(sa.select(twin_faults)):
                found.setdefault(row.run, set()).add(row.subject)
            return {run: frozenset(subjects) for run, subjects in found.items()}

        return await self._access.read("read the faults of runs", read)

    async def add(self, run: str, subject: str) -> None:
        """Durable when it returns; no error where it is there already."""
        await self._access.put(f"keep a fault of run {run}", twin_faults, {"run": run, "subject": subject})

    async def remove(self, run: str, subject: str) -> None:
        """Record that it is cleared; no error where it is not there."""
        delete = sa.delete(twin_faults).where(twin_faults.c.run == run, twin_faults.c.subject == subject)
        await self._access.write(f"forget a fault of run {run}", lambda connection: connection.execute(delete))
