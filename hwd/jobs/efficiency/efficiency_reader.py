"""EfficiencyReader: reads what the records have of jobs, and measures their efficiency."""

from collections.abc import Sequence

from hwd.jobs.efficiency.efficiency import efficiency
from hwd.jobs.verification.job_verifier import JobTable, ReadEvents, jobs_of
from hwd.jobs.verification.recorded_operations import operations_of
from hwd.model.job import JobEvent, JobRecord
from hwd.model.job_status import JobEfficiency
from hwd_drivers.core.offload import Offload


class EfficiencyReader:
    def __init__(self, jobs: JobTable, *, events: ReadEvents, offload: Offload) -> None:
        self._jobs = jobs
        self._events = events
        self._offload = offload

    async def efficiency(self, id: str) -> list[JobEfficiency]:
        """Measure the efficiency of a job by its id, or of all jobs of a run, oldest first; so far where one runs.
        Raises UnknownError.
        """
        found = []
        for record in await jobs_of(self._jobs, id):
            found.append(await self._offload(_measured, record, await self._events(record.id)))
        return found


def _measured(record: JobRecord, events: Sequence[JobEvent]) -> JobEfficiency:
    operations = operations_of(events)
    return efficiency(record, operations.all, clock_broke=operations.clock_broke)
