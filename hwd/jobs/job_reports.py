"""JobReports: what the records say of jobs: their training and demand, their efficiency, whether they kept promises."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from hwd.jobs.efficiency.efficiency import efficiency
from hwd.jobs.training.training import demand, training
from hwd.jobs.verification.recorded_light import KINDS, RecordedLight
from hwd.jobs.verification.recorded_operations import operations_of
from hwd.jobs.verification.verification import verify
from hwd.model.job import JobEvent, JobRecord, JobStarted
from hwd.model.job_status import JobDemand, JobEfficiency, JobTraining, JobVerification
from hwd.records.records import Records
from hwd_drivers.core.errors import UnknownError
from hwd_drivers.core.offload import Offload

PAGE: Final = 2000
"""Documents in one query."""
STARTS: Final = 500
LATE_NS: Final = 600_000_000_000
"""Events of hosts that were away at the end of a job come later: so long after it they are read."""


R = TypeVar("R")


class JobReports:
    """The reports of a job by its id, or of all jobs of a run, oldest first; so far where one runs. Raises
    UnknownError.

    `events`: those of a job, in order. `recorded()`: returns when all documents so far are in the records, and raises
    HwdError else.
    """

    def __init__(
        self,
        records: Records,
        *,
        events: Callable[[str], Awaitable[tuple[JobEvent, ...]]],
        recorded: Callable[[], Awaitable[None]],
        offload: Offload,
    ) -> None:
        self._records = records
        self._events = events
        self._recorded = recorded
        self._offload = offload

    async def training(self, id: str) -> list[JobTraining]:
        return await self._of_each(id, training)

    async def demand(self, id: str, *, iteration: int | None, layer: int | None) -> list[JobDemand]:
        return await self._of_each(id, partial(demand, iteration=iteration, layer=layer))

    async def efficiency(self, id: str) -> list[JobEfficiency]:
        return await self._of_each(id, _measured)

    async def verify(self, id: str) -> list[JobVerification]:
        records = await self._jobs(id)
        await self._recorded()
        return [await self._verified(one) for one in records]

    async def _of_each(self, id: str, report: Callable[[JobRecord, Sequence[JobEvent]], R]) -> list[R]:
        return [await self._offload(report, record, await self._events(record.id)) for record in await self._jobs(id)]

    async def _jobs(self, id: str) -> tuple[JobRecord, ...]:
        jobs = self._records.jobs
        record = await jobs.get(id)
        records = await jobs.of_run(id) if record is None else (record,)
        if not records:
            raise UnknownError(f"{id}: neither a job nor a run with one. `hwd job list` and `hwd runs` name them")
        return records

    async def _verified(self, record: JobRecord) -> JobVerification:
        events = await self._events(record.id)
        light, gaps = RecordedLight(), list[str]()
        if (first := await self._first(record)) is None:
            gaps.append("the records do not have its start any more")
        else:
            gaps += [
                f"some documents of that time were deleted: {gap.why}"
                for gap in (await self._records.gaps.all()).values()
                if gap.upto >= first
            ]
            await self._read(light, first, record)
        return await self._offload(lambda: _judged(record, events, light, gaps))

    async def _first(self, record: JobRecord) -> int | None:
        before: int | None = None
        while page := await self._records.newest((JobStarted.KIND,), limit=STARTS, before=before):
            for stored in page:
                if isinstance(stored.document.fact, JobStarted) and stored.document.fact.job == record.id:
                    return stored.id
            before = page[-1].id
        return None

    async def _read(self, light: RecordedLight, first: int, record: JobRecord) -> None:
        after = first - 1
        while page := await self._records.documents(kinds=KINDS, after=after, limit=PAGE):
            await self._offload(light.take, [stored.document for stored in page])
            after = page[-1].id
            if record.ended_wall_ns is not None and page[-1].document.wall_ns > record.ended_wall_ns + LATE_NS:
                return


def _judged(
    record: JobRecord, events: Sequence[JobEvent], light: RecordedLight, gaps: Sequence[str]
) -> JobVerification:
    light.order()
    return verify(record, events, light, gaps=gaps)


def _measured(record: JobRecord, events: Sequence[JobEvent]) -> JobEfficiency:
    operations = operations_of(events)
    return efficiency(record, operations.all, clock_broke=operations.clock_broke)
