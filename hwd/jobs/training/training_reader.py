"""TrainingReader: reads what the records have of jobs, for their iterations and their demand."""

from functools import partial

from hwd.jobs.training.training import demand, training
from hwd.jobs.verification.job_verifier import JobTable, ReadEvents, jobs_of
from hwd.model.job_status import JobDemand, JobTraining
from hwd_drivers.core.offload import Offload


class TrainingReader:
    """The reader of the training of a job by its id, or of all jobs of a run, oldest first; so far where one runs.
    Raises UnknownError.
    """

    def __init__(self, jobs: JobTable, *, events: ReadEvents, offload: Offload) -> None:
        self._jobs = jobs
        self._events = events
        self._offload = offload

    async def training(self, id: str) -> list[JobTraining]:
        found = []
        for record in await jobs_of(self._jobs, id):
            found.append(await self._offload(training, record, await self._events(record.id)))
        return found

    async def demand(self, id: str, *, iteration: int | None, layer: int | None) -> list[JobDemand]:
        found = []
        for record in await jobs_of(self._jobs, id):
            of = partial(demand, iteration=iteration, layer=layer)
            found.append(await self._offload(of, record, await self._events(record.id)))
        return found
