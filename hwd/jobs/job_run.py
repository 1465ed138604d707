"""JobRun: one job, from its lease to its end. It alone acts for the job's plane: under lease, ledger and journal.

Its plane is told at once what happens, and what it asks for is done at once, but for what waits for the records or for
hosts, and what comes behind that. A daemon that is started anew tells a new plane the same, and goes on where the old
one was.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final

from msgspec.structs import replace

from hwd.bus.asks import AskedBy
from hwd.config.planes import find, make
from hwd.jobs.efficiency.live_efficiency import LiveEfficiency
from hwd.jobs.job_failures import JobFailures
from hwd.jobs.job_light import JobLight, check_names
from hwd.jobs.job_moves import JobMoves
from hwd.jobs.job_operations import JobOperations
from hwd.jobs.job_parts import JobParts
from hwd.jobs.job_places import JobPlaces
from hwd.jobs.job_ranks import JobRanks
from hwd.jobs.job_routes import JobRoutes
from hwd.jobs.job_status import named, status_of
from hwd.jobs.light_watch import MOVES_KEPT, LightWatch
from hwd.jobs.replayed_plane import PlaneInput, ReplayedPlane
from hwd.model.job import JobArrived, JobEnded, JobFailure, JobMeasured, JobRecord, JobResumed, JobStarted, JobState
from hwd.model.job_status import JobEfficiencyRow, JobStatus
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plane import Failure, Recovery, Target
from hwd.model.program import ProgramEnd
from hwd.model.testbed import Testbed
from hwd.planes import AnnouncedDemand
from hwd.planes.actor import AnswerRanks, Command, DriveTo, PlaneActor, PrepareTarget, SetRoutes
from hwd.ports.claim import utc
from hwd_agents.wire import (
    JobJoined,
)
from hwd_drivers.core.documents import Fact
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import FailedError, HwdError
from hwd_drivers.core.reason import reason_of

TICK_S: Final = 0.1
"""So often the plane is told how late it is, and what has failed."""
STOP_WITHIN_S: Final = 30.0
"""For ranks to end, on hosts that may be away; then the job ends without them, and says so."""
LAST_ENDS_S: Final = 2.0
"""For agents to tell the ends of the last operations once all ranks have ended: these are heard of over another way."""
AGAIN_S: Final = 5.0
"""Between two attempts to give back what a job holds."""
RECORDS_AGAIN_S: Final = 1.0
"""Between two attempts to record what light or routes wait for."""
LATE_S: Final = 60.0
"""A job that is still there so long after its longest time has lost its ranks."""

log = logging.getLogger(__name__)


class JobRun:
    """`ranks` makes the processes. `is_new`: nothing of it was done before. `run` is its task, to its end."""

    def __init__(
        self,
        record: JobRecord,
        testbed: Testbed,
        parts: JobParts,
        *,
        light: JobLight,
        routes: JobRoutes,
        ranks: Callable[[JobRecord, Callable[[int, ProgramEnd], Coroutine[Any, Any, None]]], JobRanks],
        is_new: bool,
    ) -> None:
        clock, transfers = parts.clock, parts.transfers
        self.record = record
        self._is_new = is_new
        self._store = parts.store
        self._log = parts.event_log
        self._light = light
        self._routes = routes
        self._ranks = ranks(record, self._rank_ended)
        self._transfers = transfers
        self._health = parts.health
        self._failures: JobFailures | None = None
        self._crossed: tuple[Target | None, frozenset[NicPortId]] = None, frozenset()
        """The target of crossconnects that the light is at, and the ports that have light there."""
        self._clock = clock
        self._sink = Emitter(clock, parts.sink)
        self._announce = Emitter(clock, parts.announce)
        self._job = record.job
        self._places = JobPlaces(testbed, record.job, parts.rates)
        self._plane: ReplayedPlane | None = None
        self._efficiency = LiveEfficiency(
            self._with_rates, clock=clock, offload=parts.offload, tell=self._tell_efficiency
        )
        self.operations = JobOperations(
            record,
            clock=clock,
            transfers=transfers,
            tell=self._tell_plane,
            fail=lambda why: self._come_to(JobState.FAILED, why),
            links=self._lit_links,
            took=self._efficiency.take,
            emit=self._emit,
            announce=self._tell,
        )
        """What its ranks ask about theirs goes there."""
        self._commands: asyncio.Queue[Command | None] = asyncio.Queue()
        """What waits for the records or for hosts, and what comes behind it, in this order; None: no more."""
        self._held = 0
        """How many of these are not done."""
        self._has_set_routes = False
        self._unrecorded = ""
        """Why the records do not take what the plane was told, which its light waits for."""
        self._moves = JobMoves(
            record=lambda: self.record,
            save=self._save,
            light=light,
            routes=routes,
            ids=parts.ids,
            until_recorded=self._until_recorded,
            is_over=self._is_over,
            tell=self._tell_plane,
            emit=self._emit,
        )
        self._watching = LightWatch(
            record=lambda: self.record,
            save=self._save,
            actor=lambda: None if self._plane is None else self._plane.actor,
            light=light,
            moves=self._moves,
            hold=self.operations.hold,
            go_on=self._go_on,
            fail=lambda why: self._come_to(JobState.FAILED, why),
            is_over=self._is_over,
            clock=clock,
            emit=self._emit,
        )
        self._deferred: list[PlaneInput] = []
        """What its plane is to hear once its light is back."""
        self._outcome: tuple[JobState, str] | None = None
        self._left_moved: list[str] = []
        """How its light was away when it came to its end, and by whom."""
        self._is_decided = asyncio.Event()
        self._over_s = 0.0
        """The time on the loop's clock at which the outcome was known."""
        self._since_s = asyncio.get_running_loop().time()
        self._arrived = len(record.joined) == len(record.ranks)
        self._saving = asyncio.Lock()

    # --- what callers ask

    def status(self) -> JobStatus:
        actor, record = self._plane.actor if self._plane else None, self.record
        if self._outcome is not None and not record.state.ended:
            record = replace(record, state=JobState.STOPPING, why=self._outcome[1])
        moved = self._watching.moved
        there = [] if actor is None else [id for id in actor.at if id not in moved]
        at = [] if actor is None else [self._light.seen_at(record, id, actor.targets[id]) for id in there]
        return status_of(
            record,
            at=", ".join(filter(None, at)),
            moving="" if actor is None else ", ".join(actor.moving),
            not_ready="; ".join(self._moves.not_ready),
            failed=[] if self._failures is None else self._failures.failed_parts,
            moved="; ".join(moved.values()),
            states=self.operations.states,
        )

    def stop(self, why: str) -> None:
        """Let it end. `run` returns when it has."""
        self._come_to(JobState.STOPPED, why)

    # --- what others do to its light

    def act(self, by: str) -> AbstractContextManager[None]:
        """Somebody else acts on its light: no rank is let go until it is known where that is."""
        return self._watching.act(by)

    def light_changed(self, ports: Collection[str], by: str) -> None:
        """Ports of switches have changed, and not by the job."""
        if not self._light.ports(self.record).isdisjoint(ports):
            self._watching.look(by)

    def check_lease(self) -> None:
        """Come to an end where it has its lease no more."""
        if self._outcome is None and (why := self._light.why_unleased(self.record)):
            self._come_to(JobState.FAILED, f"its lease has ended, so others may take its light: {why}")

    def moves_by(self, reconfiguration: str) -> bool:
        """Whether this is a move of its light that is under way."""
        return self._moves.has(reconfiguration)

    # --- what ranks ask

    async def join(self, by: AskedBy, rank: int, key: str) -> JobJoined:
        """A rank has come. Raises RefusedError where it is none of this job."""
        self.operations.check_rank(by, rank, key)
        if rank not in self.record.joined:
            await self._save(lambda record: replace(record, joined=sorted({*record.joined, rank})))
            if len(self.record.joined) == len(self.record.ranks) and not self._arrived:
                self._arrived = True
                self._emit(JobArrived, seconds=self._lasted_s())
        return JobJoined(
            ranks=self._places.ranks(),
            groups={name: [*group.ranks] for name, group in self._job.groups.items()},
            longest_s=self._transfers.rules.longest_s,
        )

    # --- the way of a job

    async def run(self) -> None:
        """Run the job to its end; where the daemon ends before, the ranks go on."""
        try:
            with self._or_fail():
                await self._begin()
            if self._outcome is None:
                await self._serve()
            await self._until_done(self._finish)
        except asyncio.CancelledError:
            await asyncio.shield(self._ranks.leave())
            raise
        finally:
            self._watching.cancel()
            self._moves.cancel()

    async def _begin(self) -> None:
        record = self.record
        if not self._is_new:
            self._ranks.take_over()
        if record.state is JobState.STOPPING:
            assert record.ending is not None
            self._come_to(record.ending, record.why)
            return
        if record.run and not self._is_new:
            raise FailedError("its run ended with the daemon")
        actor = self._made()
        every_s = find(record.plane).demand_s
        demand = None if every_s is None else AnnouncedDemand(self._job, every_s=every_s)
        plane = ReplayedPlane(actor, record.id, log=self._log, clock=self._clock, demand=demand)
        if record.state is JobState.RUNNING:
            await self._resume(plane)
            return
        if not self._is_new:
            raise FailedError("the daemon ended while it was started")
        lease = await self._light.take(record, self._places.view, actor.targets.values())
        await self._save(lambda record: replace(self._places.on_record(record), lease=lease))
        prepared_set = await self._light.prepare(self.record, actor.targets)
        await self._save(lambda record: replace(record, prepared_set=prepared_set))
        self._open(plane)
        self._failures = JobFailures(self._job, self._places.view, self._health)
        self._emit(
            JobStarted,
            hosts=[rank.host for rank in record.ranks],
            plane=record.plane_text,
            lease=self.record.lease,
            prepared_set=self.record.prepared_set,
            by=record.by,
        )
        self._since_s = asyncio.get_running_loop().time()
        await self._save(lambda record: replace(record, state=JobState.RUNNING))
        await self._ranks.start(address=self._places.meeting_address())

    def _open(self, plane: ReplayedPlane) -> None:
        self._plane = plane
        self.operations.open(self._places.view)

    def _made(self) -> PlaneActor:
        record = self.record
        fallback = Target(links=self._places.view.topology("giant-ring")) if record.fallback else None
        actor = PlaneActor(make(record.plane, record.plane_arguments), self._job, self._places.view, fallback=fallback)
        check_names(actor.targets)
        for target in actor.targets.values():
            self._routes.check(target.routes)
        return actor

    async def _resume(self, plane: ReplayedPlane) -> None:
        """Tell the plane all that was told before, and go on from there."""
        replay = await plane.replay()
        self._moves.has_outgrown_set = replay.has_prepared
        self.operations.stand(self._places.view, sending=replay.sending, over=replay.over, waiting=plane.actor.waiting)
        self._failures = JobFailures(self._job, self._places.view, self._health, replay.failed)
        self._emit(JobResumed, events=replay.events)
        await self._ranks.attach()
        if self._have_all_ended():
            self._open(plane)
        await self._judge_ends()
        if self._outcome is not None:
            return
        self._has_set_routes = bool(replay.routed)
        if replay.routed or any(target.routes for target in plane.actor.targets.values()):
            released_ranks = [rank for rank in replay.sending if replay.behind[rank] <= self.record.routed]
            busy = {
                self.record.ranks[rank].host for rank in released_ranks
            }  # the others wait behind a route that was cut off
            await self._until_recorded()
            await self._routes.resume(self.record, plane.actor.routes, busy, is_over=self._is_over)
            await self._save(lambda record: replace(record, routed=replay.routed))
        self._open(plane)  # only now: ranks that waited behind a route may go by what is recorded
        self._watching.resume()
        for target, about in plane.actor.moving.items():  # where it was done already, nothing moves now
            self._moves.begin(target, plane.actor.targets[target], about)

    @contextmanager
    def _or_fail(self) -> Iterator[None]:
        """Where this cannot be done, the job fails."""
        try:
            yield
        except HwdError as error:
            self._come_to(JobState.FAILED, reason_of(error))
        except Exception as error:
            log.exception("%s: a defect of hwd", self.record)
            self._come_to(JobState.FAILED, f"a defect of hwd: {error!r}; its log has more")

    async def _serve(self) -> None:
        """Tell the plane what happens and do what it asks for, until the job has come to an end."""
        over = asyncio.Event()
        work = self._efficiency.run(str(self.record), over)
        measuring = asyncio.create_task(work, name=f"hwd:jobs/{self.record.id}/efficiency")
        doing = asyncio.create_task(self._do_all(), name=f"hwd:jobs/{self.record.id}/doing")
        try:
            with self._or_fail():
                await self._watch()
            self._commands.put_nowait(None)
            await doing
        finally:
            doing.cancel()
            over.set()
            await measuring

    async def _watch(self) -> None:
        """Tell the plane the time, and what has failed; see whether the job has to end."""
        while self._outcome is None:
            if not self._watching.is_held:
                self._tell_plane(*self._failed())
            self._check_time()
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._is_decided.wait()

    def _tell_plane(self, *inputs: PlaneInput) -> None:
        """Tell the plane what has happened, and do what it asks for; nothing where the job is ending."""
        if self._outcome is not None:
            return
        if self._watching.is_held:
            self._deferred += inputs
            return
        assert self._plane is not None
        with self._or_fail():
            for command in self._plane.tell(*inputs, at_s=self._lasted_s()):
                self._has_set_routes |= isinstance(command, SetRoutes)
                if self._held or isinstance(command, SetRoutes) or self._waits_for_records(command):
                    self._held += 1
                    self._commands.put_nowait(command)
                else:
                    self._do(command)

    def _go_on(self) -> None:
        """Its light is at its targets: its plane hears what came meanwhile."""
        self.operations.go_on()
        deferred, self._deferred = self._deferred, []
        if deferred:
            self._tell_plane(*deferred)

    async def _do_all(self) -> None:
        """Do the commands one after the other. What waits for a host that is away does not keep the plane from hearing
        of that.
        """
        while (command := await self._commands.get()) is not None and self._outcome is None:
            with self._or_fail():
                if isinstance(command, SetRoutes) or self._waits_for_records(command):
                    await self._until_recorded()
                if isinstance(command, SetRoutes):
                    await self._set_routes(command)
                else:
                    self._do(command)
            self._held -= 1

    def _waits_for_records(self, command: Command) -> bool:
        """Routes are set anew after a restart where nobody sends: so who was let go is to be known then, after a power
        cut too. Light has the ledger of transfers for that.
        """
        assert self._plane is not None
        return isinstance(command, AnswerRanks) and (
            self._has_set_routes or any(one.routes for one in self._plane.actor.targets.values())
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
                if self._outcome is not None:
                    raise
            with suppress(TimeoutError):
                async with asyncio.timeout(RECORDS_AGAIN_S):
                    await self._is_decided.wait()

    async def _with_rates(self) -> JobRecord:
        """The job, with the rates of its ports: a link that is lit now may have a speed that it did not have before."""
        rates = self._places.rates_mbit_s()
        if not rates.items() <= self.record.rates_mbit_s.items():
            await self._save(lambda record: replace(record, rates_mbit_s={**record.rates_mbit_s, **rates}))
        return self.record

    def _tell_efficiency(self, whole: JobEfficiencyRow) -> None:
        self._tell(
            JobMeasured,
            operations=whole.operations,
            left_out=whole.left_out,
            gamma=whole.gamma,
            delta=whole.delta,
            theta=whole.theta,
            eta=whole.eta,
            why=whole.why,
        )

    def _failed(self) -> list[PlaneInput]:
        """What has failed of the job's part of the rack, or recovered, since the last look."""
        assert self._plane is not None
        assert self._failures is not None
        actor, now_s = self._plane.actor, asyncio.get_running_loop().time()
        found = self._failures.look(self._lit_ports(actor), now_s)
        for one in found:
            why = one.why if isinstance(one, Failure) else ""
            ports, hosts = [*one.ports], [*one.hosts]
            level, word = (logging.INFO, "recovered") if isinstance(one, Recovery) else (logging.WARNING, "failed")
            log.log(level, "%s: %s: %s%s", self.record, ", ".join((*ports, *hosts)), word, why and f": {why}")
            self._emit(JobFailure, ports=ports, hosts=hosts, why=why, is_over=isinstance(one, Recovery))
        return [PlaneInput(event=one) for one in found]

    def _lit_ports(self, actor: PlaneActor) -> frozenset[NicPortId]:
        """The ports that have light by the plane's targets, none of them on its way."""
        lit = {end for link in actor.lit_links for end in link.ends}
        for id, ports in actor.at.items():
            if not (target := actor.targets[id]).crossconnects:
                continue
            if target is not self._crossed[0]:
                ends = frozenset(end for link in self._light.links_of(target) for end in link.ends)
                self._crossed = target, ends
            lit |= self._crossed[1] & ports
        return frozenset(lit).difference(*actor.moving.values())

    def _do(self, command: Command) -> None:
        match command:
            case AnswerRanks(ranks=ranks, why=why):
                self.operations.answer(ranks, why)
            case DriveTo(target=target, why=why):
                if why:
                    log.warning("%s: plane %s goes to its fallback: %s", self.record, self.record.plane, why)
                assert self._plane is not None
                actor = self._plane.actor
                self._moves.begin(target, actor.targets[target], actor.moving[target], why)
            case PrepareTarget(target=target):
                self._routes.check(target.routes)
                self._moves.has_outgrown_set = True

    async def _set_routes(self, command: SetRoutes) -> None:
        self._routes.check(command.routes)
        await self._routes.keep(self.record, command.routes, is_over=self._is_over)
        await self._save(lambda record: replace(record, routed=record.routed + 1))

    # --- the end

    def _come_to(self, state: JobState, why: str) -> None:
        if self._outcome is None:
            moved = [*self._watching.moved.values()]
            if away := " and ".join(words for words in moved if words not in why):
                why = "; ".join(filter(None, (why, f"its light had been moved {away}, and was not back")))
            at = utc(self._clock.wall_ns())
            self._left_moved = [f"{at}: {words}, not back at its end" for words in moved]
            self._outcome = state, why
            self._over_s = asyncio.get_running_loop().time()
            self.operations.close(why)
            self._is_decided.set()

    def _lit_links(self) -> tuple[Link, ...]:
        assert self._plane is not None
        return self._plane.actor.lit_links

    def _is_over(self) -> bool:
        return self._outcome is not None

    async def _finish(self) -> None:
        """End the ranks, and give back what the job holds. Tried again and again until it is so."""
        assert self._outcome is not None
        state, why = self._outcome
        try:
            await self._save(lambda record: replace(record, state=JobState.STOPPING, ending=state, why=why))
        except HwdError as error:  # its ranks end all the same: a daemon that starts anew finds them gone
            log.warning("%s: %s is not in the records: %s", self.record, state, reason_of(error))
        if left := await self._ranks.stop(within_s=STOP_WITHIN_S):
            why = "; ".join(filter(None, (why, f"may still run, until its longest time is over: {left}")))
        await self.operations.finish(may_send=bool(left))
        await self._moves.end(self._over_s)
        try:
            await self._routes.end(self.record)
        except HwdError as error:  # whoever comes next waits for that: its ports stay claimed until it is so
            log.warning("%s: %s", self.record, reason_of(error))
        await self._until_done(lambda: self._light.release(self.record))
        await self._until_done(self._log.flush)
        await self._until_done(
            lambda: self._save(
                lambda record: replace(
                    record,
                    state=state,
                    why=why,
                    lease="",
                    prepared_set="",
                    ended_wall_ns=self._clock.wall_ns(),
                    moved=[*record.moved, *self._left_moved][-MOVES_KEPT:],
                )
            )
        )
        level = logging.WARNING if state is JobState.FAILED else logging.INFO
        log.log(level, "%s: %s%s", self.record, state, why and f": {why}")
        self._emit(JobEnded, outcome=state, why=why, seconds=self._lasted_s())

    async def _until_done(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await work()
                return
            except HwdError as error:
                log.warning("%s: its end is held up: %s", self.record, reason_of(error))
            except Exception:
                log.exception("%s: its end is held up by a defect of hwd", self.record)
            await asyncio.sleep(AGAIN_S)

    async def _rank_ended(self, number: int, end: ProgramEnd) -> None:
        await self._until_done(lambda: self._save(lambda record: replace(record, ends={**record.ends, number: end})))
        await self._judge_ends()

    def _have_all_ended(self) -> bool:
        return len(self.record.ends) == len(self.record.ranks)

    async def _judge_ends(self) -> None:
        """Whether the ends of ranks are the end of the job. Those of their operations come over another way."""
        record = self.record
        for number, end in record.ends.items():
            if end.status != 0:
                words = self._ranks.last_words(number)
                said = f". It wrote at last: {words}" if words else ""
                if refused := self.operations.refused.get(number):
                    said += f". It had been refused: {refused}"
                self._come_to(JobState.FAILED, f"rank {number} on {record.ranks[number].host} {end}{said}")
        if self._have_all_ended():
            await self.operations.all_ended(within_s=LAST_ENDS_S)
            self._come_to(JobState.SUCCEEDED, "")

    def _check_time(self) -> None:
        """Come to an end where ranks have not come in time, or the plane has not answered one in time."""
        assert self._plane is not None
        now_s, record = asyncio.get_running_loop().time(), self.record
        numbers = range(len(record.ranks))
        self.check_lease()
        if self._lasted_s() > record.within_s + LATE_S:
            self._come_to(JobState.FAILED, f"its longest time of {record.within_s:g} s is over")
        if (missing := [n for n in numbers if n not in record.joined]) and (
            now_s - self._since_s >= record.arrive_within_s
        ):
            self._come_to(JobState.FAILED, f"{named(record, missing)} did not come within {record.arrive_within_s:g} s")
        for who in self.operations.late(self._plane.actor.waiting):
            self._come_to(JobState.FAILED, f"{who}{self._about_light()}")

    def _about_light(self) -> str:
        """What of its light may hold up its plane."""
        assert self._plane is not None
        words = ""
        if moving := self._plane.actor.moving:
            words += f"; its light is on the way to {', '.join(moving)}"
        if self._unrecorded:
            words += f"; what it was told cannot be recorded: {self._unrecorded}"
        return words + "".join(f"; it was not brought to {one}" for one in self._moves.not_ready)

    # --- inside

    async def _save(self, change: Callable[[JobRecord], JobRecord]) -> None:
        """Make a change durable, then let it count; one after the other."""
        async with self._saving:
            record = change(self.record)
            await self._store.save(record)
            self.record = record

    def _lasted_s(self) -> float:
        return max(0.0, (self._clock.wall_ns() - self.record.started_wall_ns) / 1e9)

    def _emit(self, kind: "type[Fact]", **fields: Any) -> None:
        self._sink(kind(job=self.record.id, entry=self.record.entry, **fields))

    def _tell(self, kind: "type[Fact]", **fields: Any) -> None:
        self._announce(kind(job=self.record.id, entry=self.record.entry, **fields))
