"""PlaneLoop: the loop between the plane of one job and the rack.

The plane is told what happens, one thing after the other. What comes while it thinks waits, and so does what comes
while its light is away. What it asks for is done at once, but for what waits for the records or for hosts, and what
comes behind that.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace

from hwd.jobs.job_failures import JobFailures
from hwd.jobs.job_light import JobLight
from hwd.jobs.job_moves import JobMoves
from hwd.jobs.job_operations import JobOperations
from hwd.jobs.job_parts import JobParts
from hwd.jobs.job_places import JobPlaces
from hwd.jobs.job_routes import JobRoutes
from hwd.jobs.light_watch import LightWatch
from hwd.jobs.live_job import LiveJob
from hwd.jobs.replayed_plane import PlaneInput, ReplayedPlane, ReplayState
from hwd.model.job import JobFailure, OperationSent
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plane import Failure, Recovery, Target
from hwd.planes.actor import AnswerRanks, Command, DriveTo, PlaneActor, PrepareTarget, SetRoutes
from hwd.planes.breach import Breach
from hwd_agents.wire import Operation
from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.reason import reason_of

TICK_S: Final = 0.1
"""So often the plane is told how late it is, and what has failed."""
COMING_MOST: Final = 4096
"""Events that wait for the plane."""
RECORDS_AGAIN_S: Final = 1.0
"""Between two attempts to record what light or routes wait for."""

log = logging.getLogger(__name__)


class PlaneLoop:
    """Tells the plane from `open` on. `took` is told how each operation of a rank went."""

    def __init__(
        self,
        job: LiveJob,
        parts: JobParts,
        *,
        places: JobPlaces,
        light: JobLight,
        routes: JobRoutes,
        took: Callable[[int, Operation, OperationSent], None],
    ) -> None:
        self.operations = JobOperations(
            job, transfers=parts.transfers, tell=self.tell, links=lambda: self._opened.lit_links, took=took
        )
        self.moves = JobMoves(
            job, light=light, routes=routes, ids=parts.ids, until_recorded=self._until_recorded, tell=self.tell
        )
        self.watch = LightWatch(
            job,
            light=light,
            moves=self.moves,
            actor=lambda: self.actor,
            hold=self.operations.hold,
            go_on=self._go_on,
        )
        self._job = job
        self._log = parts.event_log
        self._health = parts.health
        self._places = places
        self._light = light
        self._routes = routes
        self._plane: ReplayedPlane | None = None
        self._failures: JobFailures | None = None
        self._crossed: tuple[Target | None, frozenset[NicPortId]] = None, frozenset()
        """The target of crossconnects that the light is at, and the ports that have light there."""
        self._commands: asyncio.Queue[Command | None] = asyncio.Queue()
        """What waits for the records or for hosts, and what comes behind it, in this order; None: no more."""
        self._held = 0
        """How many of these are not done."""
        self._has_set_routes = False
        self._unrecorded = ""
        """Why the records do not take what the plane was told, which its light waits for."""
        self._coming: list[PlaneInput] = []
        """What its plane is to hear next."""
        self._came = asyncio.Event()
        """There is something for the plane, if only the time."""

    # --- what it is asked

    @property
    def actor(self) -> PlaneActor | None:
        """The actor of its plane; None before it is open."""
        return None if self._plane is None else self._plane.actor

    @property
    def failed_parts(self) -> list[str]:
        """What the plane knows to have failed: hosts, then NIC ports."""
        return [] if self._failures is None else self._failures.failed_parts

    def late(self) -> Iterator[str]:
        """Who has waited too long for the plane, for whom that waits, and what of its light may hold it up."""
        for who in self.operations.late(self._opened.waiting):
            words = ""
            if moving := self._opened.moving:
                words += f"; its light is on the way to {', '.join(moving)}"
            if self._unrecorded:
                words += f"; what it was told cannot be recorded: {self._unrecorded}"
            yield who + words + "".join(f"; it was not brought to {one}" for one in self.moves.not_ready)

    # --- from its begin to its end

    def open(self, plane: ReplayedPlane) -> None:
        self._plane = plane
        self.operations.open(self._places.view)
        if self._failures is None:
            self._failures = JobFailures(self._job.record.job, self._places.view, self._health)

    def take_over(self, plane: ReplayedPlane, replay: ReplayState) -> None:
        """Stand where an earlier process of the daemon was."""
        view = self._places.view
        self.moves.has_outgrown_set = replay.has_prepared
        self.operations.stand(view, sending=replay.sending, over=replay.over, waiting=plane.actor.waiting)
        self._failures = JobFailures(self._job.record.job, view, self._health, replay.failed)

    async def resume(self, plane: ReplayedPlane, replay: ReplayState) -> None:
        """Go on from there, once its routes are what the plane wants."""
        record = self._job.record
        self._has_set_routes = bool(replay.routed)
        if replay.routed or any(target.routes for target in plane.actor.targets.values()):
            released_ranks = [rank for rank in replay.sending if replay.behind[rank] <= record.routed]
            busy = {
                record.ranks[rank].host for rank in released_ranks
            }  # the others wait behind a route that was cut off
            await self._until_recorded()
            await self._routes.resume(record, plane.actor.routes, busy, is_over=lambda: self._job.is_over)
            await self._job.save(lambda record: replace(record, routed=replay.routed))
        self.open(plane)  # only now: ranks that waited behind a route may go by what is recorded
        self.watch.resume()
        for target, about in plane.actor.moving.items():  # where it was done already, nothing moves now
            self.moves.begin(target, plane.actor.targets[target], about)

    async def run(self, check: Callable[[], None]) -> None:
        """Tell the plane the time and what has failed, and do what it asks for, until the job has come to an end.
        `check`: called each time; it sees whether the job has to end.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._do_all(), name=f"hwd:jobs/{self._job.record.id}/doing")
            hearing = group.create_task(self._hear_all(), name=f"hwd:jobs/{self._job.record.id}/hearing")
            with self._job.or_fail():
                while not self._job.is_over:
                    if not self.watch.is_held:
                        self._coming += self._failed()
                        self._came.set()
                    check()
                    await self._job.wait_over(TICK_S)
            hearing.cancel()  # whatever its plane does
            self._commands.put_nowait(None)

    def tell(self, *inputs: PlaneInput) -> None:
        """Tell the plane what has happened, as soon as it may hear of it; nothing where the job is ending."""
        if self._job.is_over:
            return
        self._coming += inputs
        if len(self._coming) > COMING_MOST:
            words = f"{Breach.NEVER_RETURNS}: over {COMING_MOST} events wait for it"
            self._job.fail(f"plane {self._job.record.plane}: {words}")
        if not self.watch.is_held:
            self._came.set()

    # --- inside

    @property
    def _opened(self) -> PlaneActor:
        assert self._plane is not None
        return self._plane.actor

    def _go_on(self) -> None:
        """The light is at its targets: the plane hears what came meanwhile."""
        self.operations.go_on()
        if self._coming:
            self._came.set()

    async def _hear_all(self) -> None:
        """Tell the plane what comes, and do what it asks for, until the job has come to an end."""
        while not self._job.is_over:
            await self._came.wait()
            self._came.clear()
            if self.watch.is_held:
                continue
            coming, self._coming = self._coming, []
            assert self._plane is not None
            with self._job.or_fail():
                for command in await self._plane.tell(*coming, at_s=self._job.lasted_s):
                    self._has_set_routes |= isinstance(command, SetRoutes)
                    if self._held or isinstance(command, SetRoutes) or self._waits_for_records(command):
                        self._held += 1
                        self._commands.put_nowait(command)
                    else:
                        self._do(command)

    async def _do_all(self) -> None:
        """Do the commands one after the other. What waits for a host that is away does not keep the plane from hearing
        of that.
        """
        while (command := await self._commands.get()) is not None and not self._job.is_over:
            with self._job.or_fail():
                if isinstance(command, SetRoutes) or self._waits_for_records(command):
                    await self._until_recorded()
                if isinstance(command, SetRoutes):
                    self._routes.check(command.routes)
                    await self._routes.keep(self._job.record, command.routes, is_over=lambda: self._job.is_over)
                    await self._job.save(lambda record: replace(record, routed=record.routed + 1))
                else:
                    self._do(command)
            self._held -= 1

    def _waits_for_records(self, command: Command) -> bool:
        """Routes are set anew after a restart where nobody sends: so who was let go is to be known then, after a power
        cut too. Light has the ledger of transfers for that.
        """
        return isinstance(command, AnswerRanks) and (
            self._has_set_routes or any(one.routes for one in self._opened.targets.values())
        )

    async def _until_recorded(self) -> None:
        """Wait until the records have what the plane was told: else a power cut could take why light or routes were
        moved. Raises HwdError where they do not take it and the job is ending.
        """
        while True:
            try:
                await self._log.flush()
                self._unrecorded = ""
                return
            except HwdError as error:
                self._unrecorded = reason_of(error)
                if self._job.is_over:
                    raise
            await self._job.wait_over(RECORDS_AGAIN_S)

    def _failed(self) -> list[PlaneInput]:
        """What has failed of the job's part of the rack, or recovered, since the last look."""
        assert self._failures is not None
        found = self._failures.look(self._lit_ports(self._opened), asyncio.get_running_loop().time())
        for one in found:
            why = one.why if isinstance(one, Failure) else ""
            ports, hosts = [*one.ports], [*one.hosts]
            level, word = (logging.INFO, "recovered") if isinstance(one, Recovery) else (logging.WARNING, "failed")
            log.log(level, "%s: %s: %s%s", self._job, ", ".join((*ports, *hosts)), word, why and f": {why}")
            self._job.emit(JobFailure, ports=ports, hosts=hosts, why=why, is_over=isinstance(one, Recovery))
        return [PlaneInput(event=one) for one in found]

    def _lit_ports(self, actor: PlaneActor) -> frozenset[NicPortId]:
        """The ports that have light by the plane's targets, none of them on its way."""
        lit = _ends(actor.lit_links)
        for id, ports in actor.at.items():
            if not (target := actor.targets[id]).crossconnects:
                continue
            if target is not self._crossed[0]:
                self._crossed = target, _ends(self._light.links_of(target))
            lit |= self._crossed[1] & ports
        return lit.difference(*actor.moving.values())

    def _do(self, command: Command) -> None:
        match command:
            case AnswerRanks(ranks=ranks, why=why):
                self.operations.answer(ranks, why)
            case DriveTo(target=target, why=why):
                if why:
                    log.warning("%s: plane %s goes to its fallback: %s", self._job, self._job.record.plane, why)
                actor = self._opened
                self.moves.begin(target, actor.targets[target], actor.moving[target], why)
            case PrepareTarget(target=target):
                self._routes.check(target.routes)
                self.moves.has_outgrown_set = True


def _ends(links: tuple[Link, ...]) -> frozenset[NicPortId]:
    return frozenset(end for link in links for end in link.ends)
