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
        self._store = access.store

    async def all(self) -> Mapping[str, frozenset[str]]:
        """Faults that are not cleared yet, by run."""
        return await self._access.read(self._all)

    async def add(self, run: str, subject: str) -> None:
        """Durable when it returns; no error where it is there already."""
        await self._access.write(self._add, run, subject)

    async def remove(self, run: str, subject: str) -> None:
        """Record that it is cleared; no error where it is not there."""
        await self._access.write(self._remove, run, subject)

    # --- blocking, in the offload

    def _all(self) -> Mapping[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        with self._store.transaction("read the faults of runs") as connection:
            for row in connection.execute(sa.select(twin_faults)):
                found.setdefault(row.run, set()).add(row.subject)
        return {run: frozenset(subjects) for run, subjects in found.items()}

    def _add(self, run: str, subject: str) -> None:
        with self._store.transaction(f"keep a fault of run {run}") as connection:
            mine = (twin_faults.c.run == run) & (twin_faults.c.subject == subject)
            connection.execute(sa.delete(twin_faults).where(mine))
            connection.execute(sa.insert(twin_faults), [{"run": run, "subject": subject}])

    def _remove(self, run: str, subject: str) -> None:
        with self._store.transaction(f"forget a fault of run {run}") as connection:
            mine = (twin_faults.c.run == run) & (twin_faults.c.subject == subject)
            connection.execute(sa.delete(twin_faults).where(mine))
