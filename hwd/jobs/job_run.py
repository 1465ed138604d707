"""JobRun: one job, from its lease to its end. It alone acts for the job's plane: under lease, ledger and journal.

A daemon that is started anew tells a new plane all that the old one was told, and goes on where that was.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from msgspec.structs import replace

from hwd.bus.asks import AskedBy
from hwd.jobs.efficiency.live_efficiency import LiveEfficiency
from hwd.jobs.job_light import JobLight, check_names
from hwd.jobs.job_parts import JobParts
from hwd.jobs.job_places import JobPlaces
from hwd.jobs.job_ranks import JobRanks
from hwd.jobs.job_routes import JobRoutes
from hwd.jobs.job_status import named, status_of
from hwd.jobs.light_watch import MOVES_KEPT
from hwd.jobs.live_job import LiveJob
from hwd.jobs.plane_loop import PlaneLoop
from hwd.jobs.replayed_plane import ReplayedPlane
from hwd.model.job import JobArrived, JobEnded, JobResumed, JobStarted, JobState
from hwd.model.job_status import JobStatus
from hwd.model.plane import Target
from hwd.model.program import ProgramEnd
from hwd.model.testbed import Testbed
from hwd.planes import AnnouncedDemand
from hwd.planes.actor import PlaneActor
from hwd_agents.wire import JobJoined
from hwd_drivers.core.errors import FailedError, HwdError
from hwd_drivers.core.reason import reason_of

STOP_WITHIN_S: Final = 30.0
"""For ranks to end, on hosts that may be away; then the job ends without them, and says so."""
LAST_ENDS_S: Final = 2.0
"""For agents to tell the ends of the last operations once all ranks have ended: these are heard of over another way."""
AGAIN_S: Final = 5.0
"""Between two attempts to give back what a job holds."""
LATE_S: Final = 60.0
"""A job that is still there so long after its longest time has lost its ranks."""

log = logging.getLogger(__name__)


class JobRun:
    """A job's run. `ranks` makes the processes. `is_new`: nothing was done before. `run` is its task, to its end."""

    def __init__(
        self,
        job: LiveJob,
        testbed: Testbed,
        parts: JobParts,
        *,
        light: JobLight,
        routes: JobRoutes,
        ranks: Callable[..., JobRanks],
        is_new: bool,
    ) -> None:
        self.job = job
        self._is_new = is_new
        self._log = parts.event_log
        self._light = light
        self._routes = routes
        self._ranks = ranks(on_end=self._rank_ended)
        self._transfers = parts.transfers
        self._plane = parts.plane(job.record)
        self._places = JobPlaces(testbed, job.record.job, parts.rates)
        self._efficiency = LiveEfficiency(job, self._places, offload=parts.offload)
        self._loop = PlaneLoop(job, parts, places=self._places, light=light, routes=routes, took=self._efficiency.take)
        self.operations, self.moves, self.watch = self._loop.operations, self._loop.moves, self._loop.watch
        self._since_s = asyncio.get_running_loop().time()
        self._arrived = len(job.record.joined) == len(job.record.ranks)

    # --- what callers ask

    def status(self) -> JobStatus:
        actor, record, moved = self._loop.actor, self.job.record, self.job.moved
        if self.job.outcome is not None and not record.state.ended:
            record = replace(record, state=JobState.STOPPING, why=self.job.outcome[1])
        there = [] if actor is None else [id for id in actor.at if id not in moved]
        at = [] if actor is None else [self._light.seen_at(id, actor.targets[id]) for id in there]
        return status_of(
            record,
            at=", ".join(filter(None, at)),
            moving="" if actor is None else ", ".join(actor.moving),
            not_ready="; ".join(self.moves.not_ready),
            failed=self._loop.failed_parts,
            moved="; ".join(moved.values()),
            states=self.operations.states,
        )

    def stop(self, why: str) -> None:
        """Let it end. `run` returns when it has."""
        self.job.come_to(JobState.STOPPED, why)

    def check_lease(self) -> None:
        """Come to an end where it has its lease no more."""
        if not self.job.is_over and (why := self._light.why_unleased()):
            self.job.fail(f"its lease has ended, so others may take its light: {why}")

    async def join(self, by: AskedBy, rank: int, key: str) -> JobJoined:
        """A rank has come. Raises RefusedError where it is none of this job."""
        self.operations.check_rank(by, rank, key)
        if rank not in self.job.record.joined:
            await self.job.save(lambda record: replace(record, joined=sorted({*record.joined, rank})))
            if len(self.job.record.joined) == len(self.job.record.ranks) and not self._arrived:
                self._arrived = True
                self.job.emit(JobArrived, seconds=self.job.lasted_s)
        return JobJoined(
            ranks=self._places.ranks(), groups=self.job.record.groups, longest_s=self._transfers.rules.longest_s
        )

    # --- the way of a job

    async def run(self) -> None:
        """Run the job to its end; where the daemon ends before, the ranks go on."""
        try:
            with self.job.or_fail():
                await self._begin()
            if not self.job.is_over:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._efficiency.run(), name=f"hwd:jobs/{self.job.record.id}/efficiency")
                    await self._loop.run(self._check_time)
            await self._plane.close()  # one that loops would have a processor until all ranks have ended
            await self._until_done(self._finish)
        except asyncio.CancelledError:
            await asyncio.shield(self._ranks.leave())
            raise
        finally:
            self.watch.cancel()
            self.moves.cancel()
            await self._plane.close()

    async def _begin(self) -> None:
        job, record = self.job, self.job.record
        if not self._is_new:
            self._ranks.take_over()
        if record.state is JobState.STOPPING:
            assert record.ending is not None
            job.come_to(record.ending, record.why)
            return
        if record.run and not self._is_new:
            raise FailedError("its run ended with the daemon")
        actor = await self._made()
        every_s = self._plane.demand_s
        demand = None if every_s is None else AnnouncedDemand(record.job, every_s=every_s)
        plane = ReplayedPlane(self._plane, actor, record.id, log=self._log, clock=job.clock, demand=demand)
        if record.state is JobState.RUNNING:
            await self._resume(plane)
            return
        if not self._is_new:
            raise FailedError("the daemon ended while it was started")
        lease = await self._light.take(self._places.view, actor.targets.values())
        await job.save(lambda record: replace(self._places.on_record(record), lease=lease))
        prepared_set = await self._light.prepare(actor.targets)
        await job.save(lambda record: replace(record, prepared_set=prepared_set))
        self._loop.open(plane)
        job.emit(
            JobStarted,
            hosts=[rank.host for rank in record.ranks],
            plane=record.plane_text,
            lease=lease,
            prepared_set=prepared_set,
            by=record.by,
        )
        self._since_s = asyncio.get_running_loop().time()
        await job.save(lambda record: replace(record, state=JobState.RUNNING))
        await self._ranks.start(address=self._places.meeting_address())

    async def _made(self) -> PlaneActor:
        job, view = self.job.record.job, self._places.view
        fallback = Target(links=view.topology("giant-ring")) if self.job.record.fallback else None
        actor = PlaneActor(await self._plane.begin(job, view), job, view, fallback=fallback)
        check_names(actor.targets)
        for target in actor.targets.values():
            self._routes.check(target.routes)
        return actor

    async def _resume(self, plane: ReplayedPlane) -> None:
        """Tell the plane all that was told before, and go on from there."""
        replay = await plane.replay()
        self._loop.take_over(plane, replay)
        self.job.emit(JobResumed, events=replay.events)
        await self._ranks.attach()
        if self._have_all_ended():
            self._loop.open(plane)
        await self._judge_ends()
        if not self.job.is_over:
            await self._loop.resume(plane, replay)

    # --- the end

    async def _finish(self) -> None:
        """End the ranks, and give back what the job holds. Tried again and again until it is so."""
        job = self.job
        assert job.outcome is not None
        state, why = job.outcome
        try:
            await job.save(lambda record: replace(record, state=JobState.STOPPING, ending=state, why=why))
        except HwdError as error:  # its ranks end all the same: a daemon that starts anew finds them gone
            log.warning("%s: %s is not in the records: %s", job, state, reason_of(error))
        if left := await self._ranks.stop(within_s=STOP_WITHIN_S):
            why = "; ".join(filter(None, (why, f"may still run, until its longest time is over: {left}")))
        await self.operations.finish(may_send=bool(left))
        await self.moves.end()
        try:
            await self._routes.end(job.record)
        except HwdError as error:  # whoever comes next waits for that: its ports stay claimed until it is so
            log.warning("%s: %s", job, reason_of(error))
        await self._until_done(self._light.release)
        await self._until_done(self._log.flush)
        await self._until_done(
            lambda: job.save(
                lambda record: replace(
                    record,
                    state=state,
                    why=why,
                    lease="",
                    prepared_set="",
                    ended_wall_ns=job.clock.wall_ns(),
                    moved=[*record.moved, *job.left_moved][-MOVES_KEPT:],
                )
            )
        )
        level = logging.WARNING if state is JobState.FAILED else logging.INFO
        log.log(level, "%s: %s%s", job, state, why and f": {why}")
        job.emit(JobEnded, outcome=state, why=why, seconds=job.lasted_s)

    async def _until_done(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await work()
                return
            except HwdError as error:
                log.warning("%s: its end is held up: %s", self.job, reason_of(error))
            except Exception:
                log.exception("%s: its end is held up by a defect of hwd", self.job)
            await asyncio.sleep(AGAIN_S)

    async def _rank_ended(self, number: int, end: ProgramEnd) -> None:
        await self._until_done(lambda: self.job.save(lambda record: replace(record, ends={**record.ends, number: end})))
        await self._judge_ends()

    def _have_all_ended(self) -> bool:
        return len(self.job.record.ends) == len(self.job.record.ranks)

    async def _judge_ends(self) -> None:
        """Whether the ends of ranks are the end of the job. Those of their operations come over another way."""
        record = self.job.record
        for number, end in record.ends.items():
            if end.status != 0:
                words = self._ranks.last_words(number)
                said = f". It wrote at last: {words}" if words else ""
                if refused := self.operations.refused.get(number):
                    said += f". It had been refused: {refused}"
                self.job.fail(f"rank {number} on {record.ranks[number].host} {end}{said}")
        if self._have_all_ended():
            await self.operations.all_ended(within_s=LAST_ENDS_S)
            self.job.come_to(JobState.SUCCEEDED, "")

    def _check_time(self) -> None:
        """Come to an end where ranks have not come in time, or the plane has not answered one in time."""
        now_s, job, record = asyncio.get_running_loop().time(), self.job, self.job.record
        self.check_lease()
        if job.lasted_s > record.within_s + LATE_S:
            job.fail(f"its longest time of {record.within_s:g} s is over")
        missing = [number for number in range(len(record.ranks)) if number not in record.joined]
        if missing and now_s - self._since_s >= record.arrive_within_s:
            job.fail(f"{named(record, missing)} did not come within {record.arrive_within_s:g} s")
        for who in self._loop.late():
            job.fail(who)
