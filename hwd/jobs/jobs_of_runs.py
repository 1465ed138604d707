"""JobsOfRuns: the jobs that steps of runs start and wait for."""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from hwd.jobs.job_parts import JobParts
from hwd.jobs.job_run import STOP_WITHIN_S
from hwd.jobs.jobs import Jobs
from hwd.jobs.training.training import training
from hwd.model.job import JobState
from hwd.model.request import Caller
from hwd.model.run_facts import RunJob
from hwd.ports.claim import holder_of
from hwd_drivers.core.documents import Json
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import FailedError, HwdError
from hwd_drivers.core.reason import reason_of

log = logging.getLogger(__name__)


class JobsOfRuns:
    """Starts a job for a step of a run, and waits for its end."""

    def __init__(self, jobs: Jobs, parts: JobParts) -> None:
        self._jobs = jobs
        self._parts = parts
        self._emit = Emitter(parts.clock, parts.sink)

    async def start_of(self, run: str, name: str, arguments: Sequence[str]) -> str:
        """Start a job of a run; returns its id before anything of it moves. Raises RefusedError where it may not be
        started.
        """
        return (await self._jobs.start(name, arguments, Caller(name=holder_of(run), is_verified=True), run=run)).id

    async def wait_for_end(self, job: str, arguments: Sequence[str], *, run: str, sweep: Mapping[str, Json]) -> None:
        """Wait for the end of a job of a run. Cancelled, it stops the job and waits for its end. `arguments` and
        `sweep`: values in force, for the record. Raises FailedError where it did not succeed.
        """
        try:
            await self._jobs.wait(job)
        except asyncio.CancelledError:
            if (under_way := self._jobs.runs.get(job)) is not None:
                under_way.stop(f"{holder_of(run)} was ended")
                await self._jobs.wait(job, within_s=STOP_WITHIN_S)
            raise
        status = await self._jobs.get(job)
        if status.state != JobState.SUCCEEDED:
            raise FailedError(f"job {job}: {status.state}: {status.why}")
        try:
            await self._tell_run(run, job, arguments, sweep)
        except HwdError as error:  # it has succeeded all the same
            log.warning("job %s: its iterations are not in the report of run %s: %s", job, run, reason_of(error))

    async def _tell_run(self, run: str, job: str, arguments: Sequence[str], sweep: Mapping[str, Json]) -> None:
        if (record := await self._parts.store.get(job)) is None:
            return  # it was deleted
        found = await self._parts.offload(training, record, await self._parts.event_log.events(job))
        self._emit(
            RunJob(
                run=run,
                job=job,
                entry=record.entry,
                arguments=[*arguments],
                plane=record.plane_text,
                sweep=dict(sweep),
                seconds=[one.seconds for one in found.iterations if one.seconds is not None],
                moves=len(found.moves),
                links=found.links,
                moving_s=sum(one.seconds or 0.0 for one in found.moves),
                held_s=sum(one.held_s for one in found.moves),
            )
        )
