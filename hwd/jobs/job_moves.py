"""JobMoves: the light of one job on its way from target to target. Regions do not wait for each other."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from hwd.jobs.job_light import SETTLED_WITHIN_S, JobLight
from hwd.jobs.job_routes import JobRoutes
from hwd.jobs.live_job import LiveJob
from hwd.jobs.replayed_plane import PlaneInput
from hwd.model.job import JobSwitched
from hwd.model.nic_port import NicPortId
from hwd.model.plane import Applied, Event, NotReady, Target
from hwd.ports.ledger import ClaimedError
from hwd.ports.rules import Reason
from hwd_drivers.core.errors import FailedError, HwdError, RefusedError
from hwd_drivers.core.ids import Ids
from hwd_drivers.core.reason import reason_of

ENDS_WITHIN_S: Final = 5.0
"""For a move that is under way when the job comes to its end."""
LEFT_S: Final = 0.5
"""Between two looks at whether what a killed daemon has left is undone."""
PACE_S: Final = 0.5
"""Between a move that failed and the next one of these ports."""

log = logging.getLogger(__name__)


class JobMoves:
    """The moves of light of one job. `until_recorded` returns when the records have what the plane was told: else a
    power cut could take why its light was moved. `tell` tells the plane how each move ended.
    """

    def __init__(
        self,
        job: LiveJob,
        *,
        light: JobLight,
        routes: JobRoutes,
        ids: Ids,
        until_recorded: Callable[[], Coroutine[Any, Any, None]],
        tell: Callable[[PlaneInput], None],
    ) -> None:
        self.has_outgrown_set = False
        """Whether there is a target that its prepared set does not have: that can have no further one."""
        self._job = job
        self._light = light
        self._routes = routes
        self._ids = ids
        self._until_recorded = until_recorded
        self._tell = tell
        self._under_way: dict[asyncio.Task[None], str] = {}
        """The moves under way, each with the id of its reconfiguration."""
        self._suspected: dict[str, str] = {}
        """By reconfiguration under way: who else may have moved its light meanwhile."""
        self._paced_s: dict[NicPortId | None, float] = {}
        """From when on the light of a port may move: a plane may try again and again. None: of a job without any."""
        self._not_ready: dict[str, tuple[frozenset[NicPortId], str]] = {}
        """By target: those of its ports that no later move was about, and why its light was not there."""

    @property
    def not_ready(self) -> tuple[str, ...]:
        """The last target of each region that was not reached, and why."""
        return tuple(f"{id}: {why}" for id, (_, why) in self._not_ready.items())

    def begin(self, id: str, target: Target, about: frozenset[NicPortId], fallback: str = "") -> None:
        """Bring the light to a target. `about`: the ports that may move. `fallback`: why it is that of a fallback."""
        reconfiguration = self._ids.token(length=8)
        is_planned = self.has_outgrown_set  # what is prepared from now on does not concern it
        work = self._move(id, target, about, reconfiguration, fallback, is_planned=is_planned)
        self._start(work, "light", reconfiguration)

    def has(self, reconfiguration: str) -> bool:
        """Whether the reconfiguration is under way for the job."""
        return reconfiguration in self._under_way.values()

    def suspect(self, by: str) -> None:
        """Somebody else may have moved light of the job: what is under way is looked at when it ends."""
        self._suspected |= dict.fromkeys(self._under_way.values(), by)

    async def bring_back(self, id: str, target: Target) -> str:
        """Bring the light to a target at which its plane has it; returns the reconfiguration. Raises what a switch or
        an apply raises.
        """
        reconfiguration = self._ids.token(length=8)
        task = self._start(self._back(id, target, reconfiguration), "light-back", reconfiguration)
        await asyncio.wait((task,))
        task.result()
        return reconfiguration

    def _start(self, work: Coroutine[Any, Any, None], what: str, reconfiguration: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"hwd:jobs/{self._job.record.id}/{what}")
        self._under_way[task] = reconfiguration
        task.add_done_callback(lambda done: self._suspected.pop(self._under_way.pop(done), None))
        return task

    async def _back(self, id: str, target: Target, reconfiguration: str) -> None:
        await self._light.wait_until_known(target)
        await self._go(id, target, reconfiguration)

    def cancel(self) -> None:
        """The daemon ends, and the job goes on."""
        for task in self._under_way:
            task.cancel()

    async def end(self) -> None:
        """The job has come to its end. A move under way gets some time; then it is rolled back to where the light was,
        as an abort does. One that waits for what is not known yet does not begin any more.
        """
        if self._under_way:
            left_s = self._job.over_s + ENDS_WITHIN_S - asyncio.get_running_loop().time()
            await asyncio.wait(self._under_way, timeout=max(0.0, left_s))
        await asyncio.gather(*map(self._roll_back, self._under_way.values()))
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=ENDS_WITHIN_S)
        for task, reconfiguration in self._under_way.items():
            log.warning("%s: %s has come to no end, and its job goes on without it", self._job, reconfiguration)
            task.cancel()

    async def _roll_back(self, reconfiguration: str) -> None:
        try:
            await self._light.roll_back(reconfiguration)
        except RefusedError as error:  # nothing is to go back: it is confirmed, or moved nothing
            log.debug("%s: %s", self._job, reason_of(error))
        except HwdError as error:
            log.warning("%s: %s", self._job, reason_of(error))

    async def _move(
        self,
        id: str,
        target: Target,
        about: frozenset[NicPortId],
        reconfiguration: str,
        fallback: str,
        *,
        is_planned: bool,
    ) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        event: Event = Applied(target=id)
        why = ""
        try:
            await asyncio.sleep(max(self._paced_s.pop(port, 0.0) for port in about or [None]) - began_s)
            await self._until_recorded()
            await self._light.wait_until_known(target)
            if is_planned:
                await self._release_set()
            await self._go(id, target, reconfiguration)
            if not self._job.is_over and not target.ports:
                await self._routes.set(self._job.record, target.routes)
            if (by := self._suspected.pop(reconfiguration, "")) and (how := self._left(id, target)):
                raise FailedError(f"moved by {by}: {how}")
        except Exception as error:
            if not isinstance(error, HwdError):
                log.exception("%s: on the way to %s: a defect of hwd", self._job, id)
            why = reason_of(error) if isinstance(error, HwdError) else f"a defect of hwd: {error!r}"
            self._paced_s |= dict.fromkeys(about or [None], loop.time() + PACE_S)
            event = NotReady(target=id, why=why)
        if why and self._job.is_over:
            log.info("%s: on the way to %s at its end: %s", self._job, id, why)
            return
        left = {one: (ports - about, words) for one, (ports, words) in self._not_ready.items()}
        self._not_ready = {one: (ports, words) for one, (ports, words) in left.items() if ports and one != id}
        if why:
            self._not_ready[id] = about, why
        self._job.emit(
            JobSwitched,
            target=id,
            reconfiguration=reconfiguration,
            why=why,
            seconds=loop.time() - began_s,
            fallback=fallback or UNSET,
        )
        self._tell(PlaneInput(event=event, reconfiguration=reconfiguration))

    def _left(self, id: str, target: Target) -> str:
        links = {end for link in target.links for end in link.ends}
        return self._light.how_it_left(id, target, frozenset(target.ports or links))

    async def _go(self, id: str, target: Target, reconfiguration: str) -> None:
        """Waits while another move of the job is in the way: light of before it may go from one region to another. And
        while one is that a killed daemon has left: it may hold a whole switch until it is undone.
        """
        by_s = asyncio.get_running_loop().time() + SETTLED_WITHIN_S
        while True:
            try:
                return await self._light.go(id, target, reconfiguration=reconfiguration)
            except ClaimedError as error:
                others = [task for task, id in self._under_way.items() if id == error.claim.id]
                is_left = error.claim.reason is Reason.CUT_OFF and asyncio.get_running_loop().time() < by_s
                if self._job.is_over or not (others or is_left):
                    raise
            await (asyncio.wait(others) if others else asyncio.sleep(LEFT_S))

    async def _release_set(self) -> None:
        """Release the set, so that from now on each move is planned. None of the set is under way: one of them is about
        all of the job.
        """
        if self._job.record.prepared_set:
            await self._light.release_set()
            await self._job.save(lambda record: replace(record, prepared_set=""))
