"""LightWatch: the watch over the light of one job. Where somebody else has moved it no rank is let go until it is back.

with watch.act("ada: measures the loss"): ...     # somebody is about to move it
watch.look("another client of ocs1")              # somebody may have moved it
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from hwd.jobs.job_light import JobLight, what_of
from hwd.jobs.job_moves import PACE_S, JobMoves
from hwd.jobs.live_job import LiveJob
from hwd.model.job import JobMoved
from hwd.model.nic_port import NicPortId
from hwd.model.plane import Target
from hwd.planes.actor import PlaneActor
from hwd.ports.claim import utc
from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.reason import reason_of

BACK_WITHIN_S: Final = 60.0
"""For the light to be back; then the job fails."""
MOVED_MOST: Final = 3
"""So often in `MOVED_IN_S` it is brought back; then somebody wants it elsewhere, and the job fails."""
MOVED_IN_S: Final = 60.0
LONGEST_PAUSE_S: Final = 4.0
"""Between two attempts: each one that fails is in the log."""
MOVES_KEPT: Final = 16
"""The most moves that the record of a job names."""
ABSENT: Final = "somebody, while the daemon was away"

log = logging.getLogger(__name__)


class LightWatch:
    """The watch over the light of a job against moves by others. `actor()`: of the plane, None before that is open.
    While `is_held` the ranks of the job wait, and its plane hears nothing: `hold` and `go_on` say when.
    """

    def __init__(
        self,
        job: LiveJob,
        *,
        light: JobLight,
        moves: JobMoves,
        actor: Callable[[], PlaneActor | None],
        hold: Callable[[str], None],
        go_on: Callable[[], None],
    ) -> None:
        self._job = job
        self._light = light
        self._moves = moves
        self._actor = actor
        self._hold = hold
        self._go_on = go_on
        self._acts = 0
        self._task: asyncio.Task[None] | None = None
        self._suspected = ""
        """Who may have moved the light since it was looked at last; empty where nobody may."""
        self._moved_s: deque[float] = deque(maxlen=MOVED_MOST)

    @property
    def is_held(self) -> bool:
        return self._acts > 0 or self._task is not None

    @contextmanager
    def act(self, by: str) -> Iterator[None]:
        """Somebody else acts on the light of the job: no rank is let go until it is known where it is."""
        self._acts += 1
        self._hold(f"its light is in the hands of {by}")
        try:
            yield
        finally:
            self._acts -= 1
            self.look(by)

    def ports_changed(self, ports: Collection[str], by: str) -> None:
        """Ports of switches have changed, and not by the job."""
        if not self._light.ports.isdisjoint(ports):
            self.look(by)

    def look(self, by: str) -> None:
        """Somebody may have moved the light. A move of its own that is under way is looked at when it ends."""
        if self._job.is_over:
            return
        self._moves.suspect(by)
        self._suspected = self._suspected or by
        if self._acts or self._task is not None:
            return
        if left := self._left():
            self._note(left, by)
            self._begin(self._bring_back())
        else:
            self._there()

    def resume(self) -> None:
        """A daemon that was started anew goes on: before anybody is let go it looks where the light is."""
        if (actor := self._actor()) is not None and any(what_of(actor.targets[id]) for id in actor.at):
            self._suspected = ABSENT
            self._hold("where its light is has to be known first")
            self._begin(self._find())

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    # --- inside

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.create_task(work, name=f"hwd:jobs/{self._job.record.id}/light-watch")
        self._task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            log.error("%s: a defect of hwd in bringing its light back", self._job, exc_info=error)
            self._job.fail(f"a defect of hwd in bringing its light back: {error!r}; its log has more")
        elif not self._job.is_over and not self._acts:
            if self._suspected:  # since it was looked at last
                self.look(self._suspected)
            else:
                self._there()

    def _there(self) -> None:
        self._suspected = ""
        self._job.moved = {}
        self._go_on()

    def _left(self) -> dict[str, tuple[Target, frozenset[NicPortId], str]]:
        """The targets that the light has left, with the ports that are not on the way elsewhere, and how."""
        if (actor := self._actor()) is None:
            return {}
        moving = frozenset[NicPortId]().union(*actor.moving.values())
        found = {}
        for id, ports in actor.at.items():
            if (own := ports - moving) and (how := self._light.how_it_left(id, actor.targets[id], own)):
                found[id] = actor.targets[id], own, how
        return found

    async def _find(self) -> None:
        actor = self._actor()
        assert actor is not None
        try:
            await self._light.wait_until_read()
            for id in [*actor.at]:
                await self._light.wait_until_known(actor.targets[id])
        except HwdError as error:  # the job is over
            log.debug("%s: %s", self._job, reason_of(error))
            return
        if self._left():
            await self._bring_back()
        else:
            self._suspected = ""

    async def _bring_back(self) -> None:
        """Bring back what has left its target, until all is there or the job fails."""
        loop = asyncio.get_running_loop()
        began_s, by, tries, pause_s = loop.time(), self._suspected, dict[str, str](), PACE_S
        left = self._left()
        self._note(left, by)
        if len(self._moved_s) == MOVED_MOST and began_s - self._moved_s[0] < MOVED_IN_S:
            words = f"{MOVED_MOST + 1} times within {MOVED_IN_S:g} s"
            self._job.fail(f"its light was moved {words}, the last time {'; '.join(self._job.moved.values())}")
            return
        self._moved_s.append(began_s)
        while left and not self._job.is_over:
            self._suspected = ""
            why = ""
            for id, (target, ports, _) in left.items():
                try:
                    tries[id] = await self._moves.bring_back(id, self._light.way_back(id, target, ports))
                except HwdError as error:
                    why = reason_of(error)
            if not why and not self._suspected:  # they were read back
                break
            if why and loop.time() - began_s >= BACK_WITHIN_S:
                moved = "; ".join(self._job.moved.values())
                self._job.fail(
                    f"its light was moved: {moved}; it could not be brought back within {BACK_WITHIN_S:g} s: {why}"
                )
                return
            if why:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            left = self._left()
            self._note(left, self._suspected or by)
        self._suspected = ""
        if not self._job.is_over:
            await self._tell_back(loop.time() - began_s, tries)

    def _note(self, left: Mapping[str, tuple[Target, frozenset[NicPortId], str]], by: str) -> None:
        for id, (_, _, how) in left.items():
            if id in self._job.moved:
                continue
            self._job.moved[id] = f"from {id} by {by} ({how})"
            log.warning("%s: its light was moved %s; it is brought back", self._job, self._job.moved[id])
            self._job.emit(JobMoved, target=id, by=by, what=how, is_over=False, seconds=0.0)
        self._hold(f"its light was moved {'; '.join(self._job.moved.values())}, and is brought back")

    async def _tell_back(self, seconds: float, tries: Mapping[str, str]) -> None:
        lines = []
        for id, words in self._job.moved.items():
            lines.append(f"{utc(self._job.clock.wall_ns())}: {words}, back after {seconds:.1f} s")
            log.warning("%s: its light is back at %s after %.1f s", self._job, id, seconds)
            by = words.removeprefix(f"from {id} by ")
            made = tries.get(id, UNSET)
            self._job.emit(JobMoved, target=id, by=by, what="", is_over=True, seconds=seconds, reconfiguration=made)
        self._job.moved = {}
        try:
            await self._job.save(lambda record: replace(record, moved=[*record.moved, *lines][-MOVES_KEPT:]))
        except HwdError as error:
            log.warning("%s: that its light was moved is not in its record: %s", self._job, reason_of(error))
