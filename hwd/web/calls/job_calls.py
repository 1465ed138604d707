"""JobCalls: jobs on the rack, under way and as their records show them."""

from typing import Annotated, Final

from fastapi import Query

from hwd.jobs.job_reports import JobReports
from hwd.jobs.jobs import Jobs
from hwd.model.bodies import WHOLE_MAX, ActBody, JobBody
from hwd.model.job_status import JobDemand, JobEfficiency, JobOutput, JobStatus, JobTraining, JobVerification
from hwd.model.request import Caller
from hwd.web.calls.call import Call, Calls
from hwd_agents.wire.access import ANYONE, OPERATOR

Whole = Annotated[int | None, Query(ge=0, le=WHOLE_MAX, description="only those of this one")]


class JobCalls:
    """The calls about jobs; those that judge one read its records."""

    def __init__(self, jobs: Jobs, reports: JobReports) -> None:
        self._jobs = jobs
        self._reports = reports

    async def jobs(self) -> list[JobStatus]:
        """The newest jobs, newest first, also those that have ended."""
        return await self._jobs.all()

    async def start(self, body: JobBody, caller: Caller | None = None) -> JobStatus:
        """Start a job of the testbed file. It goes on when its caller goes away."""
        return await self._jobs.start(body.name, body.words, Caller.of(caller, body.by))

    async def job(self, id: str) -> JobStatus:
        """One job, under way or ended."""
        return await self._jobs.get(id)

    async def verification(self, id: str) -> list[JobVerification]:
        """Whether a job, or all jobs of a run, kept their promises, from the records: one for each job."""
        return await self._reports.verify(id)

    async def efficiency(self, id: str) -> list[JobEfficiency]:
        """How much of the capacity of its network became data that its ranks go on with, of a job or all of a run."""
        return await self._reports.efficiency(id)

    async def training(self, id: str) -> list[JobTraining]:
        """The iterations of a job, or of all jobs of a run, the moves of its light, and what waited for them."""
        return await self._reports.training(id)

    async def demand(self, id: str, iteration: Whole = None, layer: Whole = None) -> list[JobDemand]:
        """What the hosts of a job, or of all jobs of a run, had for each other in its all-to-alls."""
        return await self._reports.demand(id, iteration=iteration, layer=layer)

    def stop(self, id: str, body: ActBody, caller: Caller | None = None) -> JobStatus:
        """Let a job end: its ranks are ended, and it gives back what it holds, within half a minute."""
        return self._jobs.stop(id, Caller.of(caller, body.by), why=body.why)

    async def output(self, id: str, rank: int, first: Annotated[int, Query(ge=0, le=WHOLE_MAX)] = 0) -> JobOutput:
        """What a rank has written, from byte `first` on, at most 1 MiB."""
        data = await self._jobs.output(id, rank, first)
        return JobOutput(data=data, first=first, next=first + len(data))


JOBS: Final = Calls(
    part="jobs",
    tag="jobs",
    rows=(
        Call(method="GET", path="/jobs", handler=JobCalls.jobs, access=ANYONE),
        Call(method="POST", path="/jobs", handler=JobCalls.start, access=OPERATOR),
        Call(method="GET", path="/jobs/{id}", handler=JobCalls.job, access=ANYONE),
        Call(method="GET", path="/jobs/{id}/verification", handler=JobCalls.verification, access=ANYONE),
        Call(method="GET", path="/jobs/{id}/efficiency", handler=JobCalls.efficiency, access=ANYONE),
        Call(method="GET", path="/jobs/{id}/training", handler=JobCalls.training, access=ANYONE),
        Call(method="GET", path="/jobs/{id}/demand", handler=JobCalls.demand, access=ANYONE),
        Call(method="POST", path="/jobs/{id}/stop", handler=JobCalls.stop, access=OPERATOR),
        Call(method="GET", path="/jobs/{id}/ranks/{rank}/output", handler=JobCalls.output, access=ANYONE),
    ),
)
