"""JobCalls and ProgramCalls: jobs on the rack, and programs of the testbed file on single hosts."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Final

from fastapi import Query
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from hwd.jobs.efficiency.efficiency_reader import EfficiencyReader
from hwd.jobs.jobs import Jobs
from hwd.jobs.programs import ProgramRun, Programs
from hwd.jobs.training.training_reader import TrainingReader
from hwd.jobs.verification.job_verifier import JobVerifier
from hwd.model.bodies import WHOLE_MAX, ActBody, JobBody, ProgramBody, SignalBody
from hwd.model.job_status import JobDemand, JobEfficiency, JobOutput, JobStatus, JobTraining, JobVerification
from hwd.model.program import ProgramStatus
from hwd.model.request import Caller
from hwd.web.calls.call import Call, Calls
from hwd_agents.wire.access import ANYONE, OPERATOR
from hwd_drivers.core.structs import to_json

Whole = Annotated[int | None, Query(ge=0, le=WHOLE_MAX, description="only those of this one")]


class ProgramCalls:
    """The calls about programs on hosts."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs

    def programs(self) -> list[ProgramStatus]:
        """Programs that run on hosts now."""
        return self._programs.status()

    async def start(self, host: str, body: ProgramBody, caller: Caller | None = None) -> Response:
        """Start a program of the testbed file on a host: JSON lines of what it says, until it has ended.

        A first one `{"is": "started"}`, then `{"is": "output"}`, at last `{"is": "end"}`; an empty line after 10 s of
        silence. It is ended when its caller goes away.
        """
        return ProgramResponse(await self._programs.start(host, body.words, Caller.of(caller, body.by)))

    async def send_signal(self, id: str, body: SignalBody) -> ProgramStatus:
        """Send a signal to a program and its process group."""
        return await self._programs.signal(id, body.signal)


class JobCalls:
    """The calls about jobs; those that judge one read its records."""

    def __init__(
        self, jobs: Jobs, *, verifier: JobVerifier, efficiency: EfficiencyReader, training: TrainingReader
    ) -> None:
        self._jobs = jobs
        self._verifier = verifier
        self._efficiency = efficiency
        self._training = training

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
        return await self._verifier.verify(id)

    async def efficiency(self, id: str) -> list[JobEfficiency]:
        """How much of the capacity of its network became data that its ranks go on with, of a job or all of a run."""
        return await self._efficiency.efficiency(id)

    async def training(self, id: str) -> list[JobTraining]:
        """The iterations of a job, or of all jobs of a run, the moves of its light, and what waited for them."""
        return await self._training.training(id)

    async def demand(self, id: str, iteration: Whole = None, layer: Whole = None) -> list[JobDemand]:
        """What the hosts of a job, or of all jobs of a run, had for each other in its all-to-alls."""
        return await self._training.demand(id, iteration=iteration, layer=layer)

    def stop(self, id: str, body: ActBody, caller: Caller | None = None) -> JobStatus:
        """Let a job end: its ranks are ended, and it gives back what it holds, within half a minute."""
        return self._jobs.stop(id, Caller.of(caller, body.by), why=body.why)

    async def output(self, id: str, rank: int, first: Annotated[int, Query(ge=0, le=WHOLE_MAX)] = 0) -> JobOutput:
        """What a rank has written, from byte `first` on, at most 1 MiB."""
        data = await self._jobs.output(id, rank, first)
        return JobOutput(data=data, first=first, next=first + len(data))


class ProgramResponse(StreamingResponse):
    """What a program says, one JSON document a line; the program is ended when the caller disconnects."""

    media_type = "application/jsonl"

    def __init__(self, run: ProgramRun, status_code: int = 200) -> None:
        super().__init__(_lines(run), status_code, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._run = run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await asyncio.shield(self._run.close())


async def _lines(run: ProgramRun) -> AsyncGenerator[bytes, None]:
    async with aclosing(run.news()) as found:
        async for news in found:
            yield (b"" if news is None else to_json(news)) + b"\n"


PROGRAMS: Final = Calls(
    part="programs",
    tag="programs on hosts",
    rows=(
        Call(method="GET", path="/programs", handler=ProgramCalls.programs, access=ANYONE),
        Call(
            method="POST",
            path="/hosts/{host}/programs",
            handler=ProgramCalls.start,
            access=OPERATOR,
            response_class=ProgramResponse,
        ),
        Call(method="POST", path="/programs/{id}/signal", handler=ProgramCalls.send_signal, access=OPERATOR),
    ),
)
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
