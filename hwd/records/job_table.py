"""The jobs in the records: they survive a restart of the daemon, with all that their planes were told."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from hwd.model.job import JobEvent, JobRecord
from hwd.records.store_access import Access
from hwd.records.tables import job_events, jobs
from hwd_drivers.core.structs import from_json, to_json

KEPT = 1000
"""Newest jobs that have ended and are kept, with their events."""


class JobTable:
    def __init__(self, access: Access) -> None:
        self._access = access
        self._store = access.store

    async def under_way(self) -> tuple[JobRecord, ...]:
        """Jobs that have not ended, oldest first."""
        return await self._access.read(self._under_way)

    async def latest(self, most: int) -> tuple[JobRecord, ...]:
        """The newest ones, newest first."""
        return await self._access.read(self._latest, most)

    async def ids(self) -> frozenset[str]:
        """Read the ids of the jobs that are kept."""
        return await self._access.read(self._ids)

    async def get(self, id: str) -> JobRecord | None:
        return await self._access.read(self._get, id)

    async def of_run(self, run: str) -> tuple[JobRecord, ...]:
        """Read the jobs that a run started, oldest first."""
        return (
            tuple(one for one in reversed(await self._access.read(self._latest, 2 * KEPT)) if one.run == run)
            if run
            else ()
        )

    async def events(self, id: str) -> tuple[JobEvent, ...]:
        """Read the events of a job, in order."""
        return await self._access.read(self._events, id)

    async def save(self, record: JobRecord) -> None:
        """Insert a job, or replace the stored one."""
        await self._access.write(self._save, record)

    async def put(self, id: str, first: int, events: Sequence[JobEvent]) -> None:
        """Add events of a job, numbered from `first` on, but for those whose number is there already."""
        await self._access.write(self._put, id, first, events)

    # --- blocking, in the offload

    def _under_way(self) -> tuple[JobRecord, ...]:
        query = sa.select(jobs.c.data).where(jobs.c.ended.is_(False)).order_by(jobs.c.started_wall_ns, jobs.c.id)
        return self._read(query)

    def _latest(self, most: int) -> tuple[JobRecord, ...]:
        return self._read(sa.select(jobs.c.data).order_by(jobs.c.started_wall_ns.desc(), jobs.c.id.desc()).limit(most))

    def _ids(self) -> frozenset[str]:
        with self._store.transaction("read jobs") as connection:
            return frozenset(connection.scalars(sa.select(jobs.c.id)))

    def _get(self, id: str) -> JobRecord | None:
        return next(iter(self._read(sa.select(jobs.c.data).where(jobs.c.id == id))), None)

    def _read(self, query: sa.Select[Any]) -> tuple[JobRecord, ...]:
        with self._store.transaction("read jobs") as connection:
            return tuple(from_json(text, JobRecord) for (text,) in connection.execute(query))

    def _events(self, id: str) -> tuple[JobEvent, ...]:
        query = sa.select(job_events.c.data).where(job_events.c.job == id).order_by(job_events.c.number)
        with self._store.transaction("read the events of a job") as connection:
            return tuple(from_json(text, JobEvent) for (text,) in connection.execute(query))

    def _save(self, record: JobRecord) -> None:
        row = {
            "id": record.id,
            "started_wall_ns": record.started_wall_ns,
            "ended": record.state.ended,
            "data": to_json(record).decode(),
        }
        with self._store.transaction("save a job") as connection:
            connection.execute(sa.delete(jobs).where(jobs.c.id == record.id))
            connection.execute(sa.insert(jobs), [row])
            if record.state.ended:
                old = sa.select(jobs.c.id).where(jobs.c.ended).order_by(jobs.c.started_wall_ns.desc()).offset(KEPT)
                gone = [*connection.scalars(old)]
                if gone:
                    connection.execute(sa.delete(job_events).where(job_events.c.job.in_(gone)))
                    connection.execute(sa.delete(jobs).where(jobs.c.id.in_(gone)))

    def _put(self, id: str, first: int, events: Sequence[JobEvent]) -> None:
        with self._store.transaction("save the events of a job") as connection:
            last = connection.scalar(sa.select(sa.func.max(job_events.c.number)).where(job_events.c.job == id))
            rows = [
                {"job": id, "number": number, "data": to_json(event).decode()}
                for number, event in enumerate(events, first)
                if last is None or number > last
            ]
            if rows:
                connection.execute(sa.insert(job_events), rows)
