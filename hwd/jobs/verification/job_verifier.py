"""JobVerifier: reads what the records have of jobs, and verifies it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from hwd.jobs.verification.recorded_light import KINDS, RecordedLight
from hwd.jobs.verification.verification import verify
from hwd.model.job import JobEvent, JobRecord, JobStarted
from hwd.model.job_status import JobVerification
from hwd.records.gaps import DocumentGroup, Gap
from hwd.records.records import StoredDocument
from hwd_drivers.core.errors import UnknownError
from hwd_drivers.core.offload import Offload

PAGE: Final = 2000
"""Documents in one query."""
STARTS: Final = 500
LATE_NS: Final = 600_000_000_000
"""Events of hosts that were away at the end of a job come later: so long after it they are read."""


class JobTable(Protocol):
    async def get(self, id: str) -> JobRecord | None: ...

    async def of_run(self, run: str) -> tuple[JobRecord, ...]: ...


ReadEvents = Callable[[str], Awaitable[tuple[JobEvent, ...]]]
"""All events of a job, in order."""


class Documents(Protocol):
    async def documents(
        self, *, run: str | None = None, kinds: Iterable[str] = (), after: int = 0, limit: int | None = None
    ) -> tuple[StoredDocument, ...]: ...

    async def newest(
        self, kinds: Iterable[str], *, limit: int, before: int | None = None
    ) -> tuple[StoredDocument, ...]: ...


async def jobs_of(jobs: JobTable, id: str) -> tuple[JobRecord, ...]:
    """A job by its id, or all of a run, oldest first. Raises UnknownError."""
    record = await jobs.get(id)
    records = await jobs.of_run(id) if record is None else (record,)
    if not records:
        raise UnknownError(f"{id}: neither a job nor a run with one. `hwd job list` and `hwd runs` name them")
    return records


class JobVerifier:
    """`recorded()`: returns when all documents so far are in the records, and raises HwdError else. `gaps()`: what was
    deleted of them.
    """

    def __init__(
        self,
        jobs: JobTable,
        documents: Documents,
        *,
        events: ReadEvents,
        gaps: Callable[[], Awaitable[Mapping[DocumentGroup, Gap]]],
        recorded: Callable[[], Awaitable[None]],
        offload: Offload,
    ) -> None:
        self._jobs = jobs
        self._documents = documents
        self._events = events
        self._gaps = gaps
        self._recorded = recorded
        self._offload = offload

    async def verify(self, id: str) -> list[JobVerification]:
        """A job by its id, or all of a run, oldest first. Raises UnknownError."""
        records = await jobs_of(self._jobs, id)
        await self._recorded()
        return [await self._verified(one) for one in records]

    async def _verified(self, record: JobRecord) -> JobVerification:
        events = await self._events(record.id)
        light, gaps = RecordedLight(), list[str]()
        if (first := await self._first(record)) is None:
            gaps.append("the records do not have its start any more")
        else:
            gaps += [
                f"some documents of that time were deleted: {gap.why}"
                for gap in (await self._gaps()).values()
                if gap.upto >= first
            ]
            await self._read(light, first, record)
        return await self._offload(lambda: _judged(record, events, light, gaps))

    async def _first(self, record: JobRecord) -> int | None:
        """The id of the document of its start."""
        before: int | None = None
        while page := await self._documents.newest((JobStarted.KIND,), limit=STARTS, before=before):
            for stored in page:
                if isinstance(stored.document.fact, JobStarted) and stored.document.fact.job == record.id:
                    return stored.id
            before = page[-1].id
        return None

    async def _read(self, light: RecordedLight, first: int, record: JobRecord) -> None:
        after = first - 1
        while page := await self._documents.documents(kinds=KINDS, after=after, limit=PAGE):
            await self._offload(light.take, [stored.document for stored in page])
            after = page[-1].id
            if record.ended_wall_ns is not None and page[-1].document.wall_ns > record.ended_wall_ns + LATE_NS:
                return


def _judged(
    record: JobRecord, events: Sequence[JobEvent], light: RecordedLight, gaps: Sequence[str]
) -> JobVerification:
    light.order()
    return verify(record, events, light, gaps=gaps)
