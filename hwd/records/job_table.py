"""The jobs in the records: they survive a restart of the daemon, with all that their planes were told."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from hwd.model.job import JobEvent, JobRecord
from hwd.records.store import put_row
from hwd.records.store_access import Access
from hwd.records.tables import job_events, jobs
from hwd_drivers.core.structs import from_json, to_json

KEPT = 1000
"""Newest jobs that have ended and are kept, with their events."""


class JobTable:
    def __init__(self, access: Access) -> None:
        self._access = access

    async def under_way(self) -> tuple[JobRecord, ...]:
        """Jobs that have not ended, oldest first."""
        query = sa.select(jobs.c.data).where(jobs.c.ended.is_(False))
        return await self._read(query.order_by(jobs.c.started_wall_ns, jobs.c.id))

    async def latest(self, most: int) -> tuple[JobRecord, ...]:
        """The newest ones, newest first."""
        query = sa.select(jobs.c.data).order_by(jobs.c.started_wall_ns.desc(), jobs.c.id.desc())
        return await self._read(query.limit(most))

    async def ids(self) -> frozenset[str]:
        """Read the ids of the jobs that are kept."""
        query = sa.select(jobs.c.id)
        return await self._access.read("read jobs", lambda connection: frozenset(connection.scalars(query)))

    async def get(self, id: str) -> JobRecord | None:
        return next(iter(await self._read(sa.select(jobs.c.data).where(jobs.c.id == id))), None)

    async def of_run(self, run: str) -> tuple[JobRecord, ...]:
        """Read the jobs that a run started, oldest first."""
        return tuple(one for one in reversed(await self.latest(2 * KEPT)) if one.run == run) if run else ()

    async def events(self, id: str) -> tuple[JobEvent, ...]:
        """Read the events of a job, in order."""
        query = sa.select(job_events.c.data).where(job_events.c.job == id).order_by(job_events.c.number)
        return await self._access.read(
            "read the events of a job",
            lambda connection: tuple(from_json(text, JobEvent) for text in connection.scalars(query)),
        )

    async def save(self, record: JobRecord) -> None:
        """Insert a job, or replace the stored one."""
        row = {
            "id": record.id,
            "started_wall_ns": record.started_wall_ns,
            "ended": record.state.ended,
            "data": to_json(record).decode(),
        }

        def save(connection: sa.Connection) -> None:
            put_row(connection, jobs, row)
            if record.state.ended:
                old = sa.select(jobs.c.id).where(jobs.c.ended).order_by(jobs.c.started_wall_ns.desc()).offset(KEPT)
                gone = [*connection.scalars(old)]
                if gone:
                    connection.execute(sa.delete(job_events).where(job_events.c.job.in_(gone)))
                    connection.execute(sa.delete(jobs).where(jobs.c.id.in_(gone)))

        await self._access.write("save a job", save)

    async def put(self, id: str, first: int, events: Sequence[JobEvent]) -> None:
        """Add events of a job, numbered from `first` on, but for those whose number is there already."""

        def put(connection: sa.Connection) -> None:
            last = connection.scalar(sa.select(sa.func.max(job_events.c.number)).where(job_events.c.job == id))
            rows = [
                {"job": id, "number": number, "data": to_json(event).decode()}
                for number, event in enumerate(events, first)
                if last is None or number > last
            ]
            if rows:
                connection.execute(sa.insert(job_events), rows)

        await self._access.write("save the events of a job", put)

    async def _read(self, query: sa.Select[Any]) -> tuple[JobRecord, ...]:
        return await self._access.read(
            "read jobs", lambda connection: tuple(from_json(text, JobRecord) for text in connection.scalars(query))
        )
