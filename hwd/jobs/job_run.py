"""JobRun: one job, from its lease to its end. It alone acts for the job's plane: under lease, ledger and journal.

Everything that the plane is told goes through one queue and is durable, with what it answered, before any of that is
done. So a daemon that is started anew tells a new plane the same, and goes on where the old one was.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from msgspec.structs import replace

from hwd.bus.asks import AskedBy
from hwd.config.planes import make
from hwd.jobs.job_light import JobLight, check_names
from hwd.jobs.job_ranks import JobRanks
from hwd.jobs.view import view_of
from hwd.model.answers import JobRankStatus, JobStatus
from hwd.model.documents.jobs import (
    JobArrived,
    JobEnded,
    JobGranted,
    JobRankRefused,
    JobResumed,
    JobStarted,
    JobSwitched,
)
from hwd.model.job import JobEvent, JobRecord, JobState, told
from hwd.model.nic_port import NicPortId
from hwd.model.plane import Applied, Done, Event, Intent, NotReady, Target, Tick, View
from hwd.model.program import ProgramEnd
from hwd.model.testbed import Testbed
from hwd.planes.actor import AnswerRanks, Breach, Command, DriveTo, PlaneActor, PlaneError, PrepareTarget, SetRoutes
from hwd.reconfigure.transfers import Transfers
from hwd_agents.wire import (
    ClaimOperation,
    ClaimTransfer,
    EndedOperation,
    EndTransfers,
    JobJoined,
    Operation,
    OperationGranted,
    RankPlace,
)
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Fact, Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import ConfigError, DeadlineError, FailedError, HwdError, RefusedError
from hwd_drivers.core.ids import Ids
from hwd_drivers.core.reason import reason_of

TICK_S: Final = 0.1
"""At least so often the plane is told how late it is."""
STOP_WITHIN_S: Final = 30.0
"""For ranks to end, on hosts that may be away; then the job ends without them, and says so."""
PACE_S: Final = 0.5
"""Between a switch that failed and the next one."""
AGAIN_S: Final = 5.0
"""Between two attempts to give back what a job holds."""
PLAYED_AT_ONCE: Final = 1000
"""Events that a plane is told again before others have their turn."""
REFUSALS_TOLD: Final = 100
"""Refusals of one job that are recorded: a stranger may ask in a loop."""
LATE_S: Final = 60.0
"""A job that is still there so long after its longest time has lost its ranks."""
KINDS_KEPT: Final = 256
"""Operations of a group of which it is remembered what they are, to find ranks that disagree."""

log = logging.getLogger(__name__)


class JobStore(Protocol):
    """The durable jobs: `hwd.records`."""

    async def save(self, record: JobRecord) -> None: ...

    async def events(self, id: str) -> tuple[JobEvent, ...]: ...

    async def add(self, id: str, first: int, events: list[JobEvent]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """An event on its way to the plane, with the reconfiguration that it is of."""

    event: Event
    reconfiguration: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sending:
    """What a rank was let go for. `by` and `transfer` None: it did not get the answer yet."""

    operation: Operation
    by: AskedBy | None = None
    transfer: str | None = None


@dataclass(slots=True, kw_only=True)
class _Waiting:
    """A rank that waits for its plane, since `since_s` of the loop's clock."""

    operation: Operation
    since_s: float
    answered: "asyncio.Future[str]"
    """Empty: it may go; else why not."""


class JobRun:
    """`ranks` makes the processes. `is_new`: nothing of it was done before. `run` is its task, to its end."""

    def __init__(
        self,
        record: JobRecord,
        testbed: Testbed,
        *,
        store: JobStore,
        light: JobLight,
        ranks: Callable[[JobRecord, Callable[[int, ProgramEnd], Coroutine[Any, Any, None]]], JobRanks],
        transfers: Transfers,
        clock: Clock,
        ids: Ids,
        sink: Sink,
        announce: Sink,
        is_new: bool,
    ) -> None:
        self.record = record
        self._is_new = is_new
        self._testbed = testbed
        self._store = store
        self._light = light
        self._ranks = ranks(record, self._rank_ended)
        self._transfers = transfers
        self._clock = clock
        self._ids = ids
        self._sink = Emitter(clock, sink)
        self._announce = Emitter(clock, announce)
        self._job = record.job
        self._made_view: View | None = None
        self._actor: PlaneActor | None = None
        self._queue: asyncio.Queue[_Told | None] = asyncio.Queue()
        self._waiting: dict[int, _Waiting] = {}
        self._sending: dict[int, _Sending] = {}
        self._turns: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._refused: dict[int, str] = {}
        """Why each rank was refused last."""
        self._refusals = 0
        self._kinds: dict[tuple[str, int], Operation] = {}
        self._number = 0
        self._ticked_s: float | None = None
        self._at_s = 0.0
        self._paced_s = 0.0
        """From when on the light may be switched: a plane may try again and again."""
        self._drives: set[asyncio.Task[None]] = set()
        self._outcome: tuple[JobState, str] | None = None
        self._since_s = asyncio.get_running_loop().time()
        self._arrived = len(record.joined) == len(record.ranks)
        self._saving = asyncio.Lock()

    @property
    def _view(self) -> View:
        """Raises FailedError where the testbed file does not have its hosts any more."""
        if self._made_view is None:
            if gone := [host for host in self._job.hosts if host not in self._testbed.hosts]:
                raise FailedError(f"{', '.join(gone)}: no host of the testbed file any more")
            self._made_view = view_of(self._testbed, self._job)
        return self._made_view

    # --- what callers ask

    def status(self) -> JobStatus:
        actor, record = self._actor, self.record
        if self._outcome is not None and not record.state.ended:
            record = replace(record, state=JobState.STOPPING, why=self._outcome[1])
        return status_of(
            record,
            at="" if actor is None or actor.at is None else actor.at,
            moving="" if actor is None or actor.moving is None else actor.moving,
            states={
                **{rank: ("sending", str(one.operation)) for rank, one in self._sending.items()},
                **{rank: ("waiting", str(one.operation)) for rank, one in self._waiting.items()},
            },
        )

    def stop(self, why: str) -> None:
        """Let it end. `run` returns when it has."""
        self._come_to(JobState.STOPPED, why)

    # --- what ranks ask

    async def join(self, by: AskedBy, rank: int, key: str) -> JobJoined:
        """A rank has come. Raises RefusedError where it is none of this job."""
        self._check_rank(by, rank, key)
        if rank not in self.record.joined:
            await self._save(lambda record: replace(record, joined=sorted({*record.joined, rank})))
            if len(self.record.joined) == len(self.record.ranks) and not self._arrived:
                self._arrived = True
                self._emit(JobArrived, seconds=self._lasted_s())
        return JobJoined(
            ranks=[
                RankPlace(
                    host=one.host,
                    gpu=one.gpu,
                    optical=self._addresses(one.number, optical=True),
                    electrical=self._addresses(one.number, optical=False),
                )
                for one in self._job.ranks
            ],
            groups={name: [*group.ranks] for name, group in self._job.groups.items()},
        )

    async def claim(self, by: AskedBy, asked: ClaimOperation) -> OperationGranted:
        """Let a rank send, as soon as its plane lets it. Raises RefusedError where it may not, and DeadlineError where
        there is no answer before the ask expires: then the rank asks again.
        """
        self._check_rank(by, asked.rank, asked.key)
        self._check_operation(by, asked)
        began_s = asyncio.get_running_loop().time()
        async with self._turns[asked.rank]:  # two processes may say that they are one rank
            return await self._granted(by, asked, began_s)

    async def _granted(self, by: AskedBy, asked: ClaimOperation, began_s: float) -> OperationGranted:
        rank = asked.rank
        if (sending := self._sending.get(rank)) is None or sending.operation != asked.operation:
            await self._answer(by, asked)
        self._check_running()
        ports = sorted(port.port for port in self._view.ports_of(self._job.ranks[rank]))
        await self._end_transfer(rank)
        claim = ClaimTransfer(
            transfer=asked.transfer,
            ports=ports,
            phase=str(asked.operation),
            process=asked.process,
            within_s=asked.within_s,
        )
        try:
            if ports:
                await self._transfers.claim(by, claim)
        except RefusedError as error:  # its plane has let it go; what is in the way of that passes
            raise DeadlineError(f"{self.record}: {reason_of(error)}. Ask again") from error
        self._sending[rank] = _Sending(operation=asked.operation, by=by, transfer=asked.transfer)
        waited_s = asyncio.get_running_loop().time() - began_s
        self._tell(JobGranted, rank=rank, operation=str(asked.operation), stall_s=waited_s)
        return OperationGranted(within_s=asked.within_s, waited_s=waited_s, ports=ports)

    def ended(self, by: AskedBy, ended: EndedOperation) -> None:
        """An operation has ended. Raises DeadlineError where it is not known yet what its ranks were let go for."""
        if self._outcome is None and self._actor is None:
            raise DeadlineError(f"{self.record}: it is not running yet. Tell it again")
        one = self._sending.get(ended.rank)
        if one is not None and one.operation == ended.operation and self.record.ranks[ended.rank].host == by.host:
            self._done(ended.rank)

    async def end(self, by: AskedBy, rank: int, key: str, operation: Operation) -> None:
        """A rank whose agent was started anew has ended its operation."""
        self._check_rank(by, rank, key)
        if (one := self._sending.get(rank)) is not None and one.operation == operation:
            await self._end_transfer(rank)
            self._done(rank)

    # --- the way of a job

    async def run(self) -> None:
        """To its end; where the daemon ends before, the ranks go on."""
        try:
            try:
                await self._begin()
                await self._serve()
            except HwdError as error:
                self._come_to(JobState.FAILED, reason_of(error))
            except Exception as error:
                log.exception("%s: a defect of hwd", self.record)
                self._come_to(JobState.FAILED, f"a defect of hwd: {error!r}; its log has more")
            await self._finish()
        except asyncio.CancelledError:
            await asyncio.shield(self._ranks.leave())
            raise
        finally:
            for task in self._drives:
                task.cancel()

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
        if record.state is JobState.RUNNING:
            await self._resume(actor)
            return
        if not self._is_new:
            raise FailedError("the daemon ended while it was started")
        lease = await self._light.take(record, self._view, actor.targets.values())
        await self._save(lambda record: replace(record, lease=lease))
        prepared_set = await self._light.prepare(self.record, actor.targets)
        await self._save(lambda record: replace(record, prepared_set=prepared_set))
        self._actor = actor
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
        await self._ranks.start()

    def _made(self) -> PlaneActor:
        record = self.record
        fallback = Target(links=self._view.topology("giant-ring")) if record.fallback else None
        actor = PlaneActor(make(record.plane, record.plane_arguments), self._job, self._view, fallback=fallback)
        check_names(actor.targets)
        if any(target.routes for target in actor.targets.values()):
            raise ConfigError(f"plane {record.plane}: its targets have routes, which no job can set yet")
        return actor

    async def _resume(self, actor: PlaneActor) -> None:
        """Tell the plane all that was told before, and go on from there."""
        events = await self._store.events(self.record.id)
        now_s = asyncio.get_running_loop().time()
        for number, one in enumerate(events):
            if number % PLAYED_AT_ONCE == 0:
                await asyncio.sleep(0)  # there may be millions
            if one.ticked_s is not None:
                actor.take(Tick(at_s=one.ticked_s))
                if actor.actions:
                    raise PlaneError(
                        Breach.NOT_DETERMINISTIC, f"tick at {one.ticked_s} s: {actor.actions} now, none before"
                    )
                self._at_s = max(self._at_s, one.ticked_s)
            event = one.told
            asking = {**actor.waiting, **({event.rank: event.operation} if isinstance(event, Intent) else {})}
            commands = actor.take(event)
            if told(actor.actions) != one.actions:
                raise PlaneError(Breach.NOT_DETERMINISTIC, f"{event}: {one.actions} before, {told(actor.actions)} now")
            if isinstance(event, Intent | Done):
                self._sending.pop(event.rank, None)
            for command in commands:
                if isinstance(command, PrepareTarget):
                    await self._plan_each_switch()
                if isinstance(command, AnswerRanks) and not command.why:
                    self._sending |= {rank: _Sending(operation=asking[rank]) for rank in command.ranks}
            self._at_s = max(self._at_s, event.at_s if isinstance(event, Tick) else 0.0)
        for rank, operation in actor.waiting.items():
            self._waiting[rank] = _Waiting(operation=operation, since_s=now_s, answered=_future())
        self._number = len(events)
        self._actor = actor
        self._emit(JobResumed, events=len(events))
        await self._ranks.attach()
        self._judge_ends()
        if actor.moving is not None:  # where it was done already, nothing moves now
            self._drive(actor.moving)

    async def _serve(self) -> None:
        """Tell the plane what happens, until the job has come to an end."""
        actor = self._actor
        while self._outcome is None:
            assert actor is not None
            try:
                async with asyncio.timeout(TICK_S):
                    batch = [await self._queue.get()]
                while not self._queue.empty():
                    batch.append(self._queue.get_nowait())
            except TimeoutError:
                batch = []
            now_s = max(self._at_s, self._lasted_s())
            batch += [_Told(event=Tick(at_s=now_s))]
            self._at_s = now_s
            rows: list[JobEvent] = []
            commands: list[Command] = []
            try:
                for one in batch:
                    if one is not None:
                        commands += self._take(actor, one, rows)
            finally:
                if rows:
                    await self._store.add(self.record.id, self._number, rows)
                    self._number += len(rows)
            for command in commands:
                await self._do(command)
            self._check_time()

    def _take(self, actor: PlaneActor, one: _Told, rows: list[JobEvent]) -> tuple[Command, ...]:
        event = one.event
        commands = actor.take(event)
        if isinstance(event, Tick) and not actor.actions:
            self._ticked_s = event.at_s
            return ()
        rows.append(
            JobEvent.of(
                event,
                actor.actions,
                at_ns=self._clock.monotonic_ns(),
                wall_ns=self._clock.wall_ns(),
                ticked_s=self._ticked_s,
                reconfiguration=one.reconfiguration,
            )
        )
        self._ticked_s = None
        return commands

    async def _do(self, command: Command) -> None:
        match command:
            case AnswerRanks(ranks=ranks, why=why):
                for rank in ranks:
                    waiting = self._waiting.pop(rank)
                    if not why:
                        self._sending[rank] = _Sending(operation=waiting.operation)
                    waiting.answered.set_result(why)
            case DriveTo(target=target):
                self._drive(target)
            case PrepareTarget():
                await self._plan_each_switch()
            case SetRoutes():
                raise ConfigError(f"plane {self.record.plane}: it sets routes, which no job can do yet")

    async def _plan_each_switch(self) -> None:
        """From now on: a prepared set can have no further target."""
        if not (before := self.record).prepared_set:
            return
        if self._drives:
            await asyncio.wait(self._drives)
        await self._save(lambda record: replace(record, prepared_set=""))
        await self._light.release_set(before)

    def _drive(self, target: str) -> None:
        assert self._actor is not None
        work = self._driven(target, self._actor.targets[target], self._ids.token(length=8))
        task = asyncio.create_task(work, name=f"hwd:jobs/{self.record.id}/light")
        self._drives.add(task)
        task.add_done_callback(self._drives.discard)

    async def _driven(self, id: str, target: Target, reconfiguration: str) -> None:
        began_s = asyncio.get_running_loop().time()
        event: Event = Applied(target=id)
        why = ""
        await asyncio.sleep(self._paced_s - began_s)
        try:
            await self._light.go(self.record, id, target, reconfiguration=reconfiguration)
        except Exception as error:
            if not isinstance(error, HwdError):
                log.exception("%s: on the way to %s: a defect of hwd", self.record, id)
            why = reason_of(error) if isinstance(error, HwdError) else f"a defect of hwd: {error!r}"
            self._paced_s = asyncio.get_running_loop().time() + PACE_S
            event = NotReady(target=id, why=why)
        seconds = asyncio.get_running_loop().time() - began_s
        self._emit(JobSwitched, target=id, reconfiguration=reconfiguration, why=why, seconds=seconds)
        self._queue.put_nowait(_Told(event=event, reconfiguration=reconfiguration))

    # --- the end

    def _come_to(self, state: JobState, why: str) -> None:
        if self._outcome is None:
            self._outcome = state, why
            self._queue.put_nowait(None)

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
        for rank in [*self._waiting]:
            self._waiting.pop(rank).answered.set_result(f"{self.record}: {why or 'it has ended'}")
        for rank in [*self._sending]:
            if not left:  # else it may still be sending, until its longest time is over
                await self._end_transfer(rank)
        if self._drives:
            await asyncio.wait(self._drives)
        await self._until_done(lambda: self._light.release(self.record))
        await self._until_done(
            lambda: self._save(
                lambda record: replace(
                    record, state=state, why=why, lease="", prepared_set="", ended_wall_ns=self._clock.wall_ns()
                )
            )
        )
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
        self._judge_ends()

    def _judge_ends(self) -> None:
        """Whether the ends of ranks are the end of the job."""
        record = self.record
        for number, end in record.ends.items():
            if end.status != 0:
                words = self._ranks.last_words(number)
                said = f". It wrote at last: {words}" if words else ""
                if refused := self._refused.get(number):
                    said += f". It had been refused: {refused}"
                self._come_to(JobState.FAILED, f"rank {number} on {record.ranks[number].host} {end}{said}")
        if len(record.ends) == len(record.ranks):
            self._come_to(JobState.SUCCEEDED, "")

    def _check_time(self) -> None:
        """Come to an end where ranks have not come in time, or the plane has not answered one in time."""
        now_s, record = asyncio.get_running_loop().time(), self.record
        numbers = range(len(record.ranks))
        if self._lasted_s() > record.within_s + LATE_S:
            self._come_to(JobState.FAILED, f"its longest time of {record.within_s:g} s is over")
        if (missing := [n for n in numbers if n not in record.joined]) and (
            now_s - self._since_s >= record.arrive_within_s
        ):
            self._come_to(
                JobState.FAILED, f"{_named(record, missing)} did not come within {record.arrive_within_s:g} s"
            )
        late = {n: one for n, one in self._waiting.items() if now_s - one.since_s >= record.answer_within_s}
        for number, one in late.items():
            members = self._job.groups[one.operation.group].ranks
            needed = members if one.operation.peer is None else tuple(sorted((number, one.operation.peer)))
            there = {n for n, other in self._waiting.items() if _same(other.operation, one.operation)}
            absent = [n for n in needed if n not in there and n not in self._sending]
            who = f"{_named(record, absent)} did not come to it" if absent else "all its ranks came to it"
            self._come_to(
                JobState.FAILED,
                f"rank {number} waited {record.answer_within_s:g} s for plane {record.plane} to answer "
                f"{one.operation}; {who}",
            )

    # --- inside

    async def _answer(self, by: AskedBy, asked: ClaimOperation) -> None:
        """Wait for the plane's answer to a rank."""
        rank = asked.rank
        waiting = self._waiting.get(rank)
        if waiting is None:
            if rank in self._sending:  # one that asks for the next operation has ended the one before
                await self._end_transfer(rank)
                self._done(rank)
            now_s = asyncio.get_running_loop().time()
            waiting = self._waiting[rank] = _Waiting(operation=asked.operation, since_s=now_s, answered=_future())
            self._queue.put_nowait(_Told(event=Intent(rank=rank, operation=asked.operation)))
        elif waiting.operation != asked.operation:
            self._refuse_rank(by, rank, f"it asks for {asked.operation}, and waits for {waiting.operation}")
        with suppress(TimeoutError):
            async with asyncio.timeout_at(by.by_s):
                await asyncio.wait((waiting.answered,))
        if not waiting.answered.done():
            raise DeadlineError(f"{self.record}: plane {self.record.plane} has not answered yet. Ask again")
        if why := waiting.answered.result():
            self._refused[rank] = why
            raise RefusedError(f"{asked.operation}: {why}")

    def _check_rank(self, by: AskedBy, rank: int, key: str) -> None:
        if key != self.record.key:
            self._refuse_rank(by, rank, "it does not know the key of the job", named=False)
        if rank >= len(self.record.ranks) or self.record.ranks[rank].host != by.host:
            self._refuse_rank(by, rank, f"the job has no rank {rank} on {by.host}", named=False)
        self._check_running()

    def _check_running(self) -> None:
        """Raises DeadlineError while it starts and while it ends: who asks again meets it running, or finds it gone."""
        if self._outcome is not None or self._actor is None:
            what = "is not running yet" if self._outcome is None else f"is ending: {self._outcome[1] or 'it is done'}"
            raise DeadlineError(f"{self.record}: it {what}. Ask again")

    def _check_operation(self, by: AskedBy, asked: ClaimOperation) -> None:
        """Ranks that disagree would wait for each other for ever: the job fails, and says who."""
        rank, operation = asked.rank, asked.operation
        group = self._job.groups.get(operation.group)
        if group is None or rank not in group.ranks:
            self._refuse_rank(by, rank, f"{operation}: it is not in this group", fails=True)
            return
        if operation.peer is not None and (operation.peer not in group.ranks or operation.peer == rank):
            self._refuse_rank(by, rank, f"{operation}: rank {operation.peer} is no peer of it there", fails=True)
        if not 0 < asked.within_s <= self._transfers.rules.longest_s:
            longest_s = self._transfers.rules.longest_s
            self._refuse_rank(by, rank, f"{operation}: it may take up to {longest_s:g} s, not {asked.within_s:g}")
        if operation.peer is not None:
            return
        first = self._kinds.setdefault((operation.group, operation.index), operation)
        if first.kind is not operation.kind:
            self._refuse_rank(by, rank, f"it comes with {operation}, and others with {first}", fails=True)
        while len(self._kinds) > KINDS_KEPT * len(self._job.groups):
            del self._kinds[next(iter(self._kinds))]

    def _refuse_rank(self, by: AskedBy, rank: int, why: str, *, named: bool = True, fails: bool = False) -> None:
        if named:
            self._refused[rank] = why
        self._refusals += 1
        if self._refusals <= REFUSALS_TOLD:
            self._emit(JobRankRefused, rank=rank, host=by.host, why=why)
        if fails:
            self._come_to(JobState.FAILED, f"rank {rank} on {by.host}: {why}")
        raise RefusedError(f"{self.record}: rank {rank}: {why}" if named else f"job {self.record.id}: {why}")

    async def _end_transfer(self, rank: int) -> None:
        """End the transfer of a rank in the ledger, where it has one."""
        if (one := self._sending.get(rank)) is not None and one.by is not None and one.transfer is not None:
            self._sending[rank] = _Sending(operation=one.operation)
            await self._transfers.end(one.by, EndTransfers(transfers=[one.transfer]))

    def _done(self, rank: int) -> None:
        if self._sending.pop(rank, None) is None:
            return  # it was said twice
        self._queue.put_nowait(_Told(event=Done(rank=rank)))

    def _addresses(self, rank: int, *, optical: bool) -> dict[str, str]:
        one = self._job.ranks[rank]
        ports = self._view.ports_of(one) if optical else [id for id in self._view.electrical if id.host == one.host]
        found = {port.id: port.ip_address for port in self._testbed.hosts[one.host].ports}
        return {id.port: address for id in sorted(ports, key=NicPortId.sort_key) if (address := found[id]) is not None}

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


def status_of(
    record: JobRecord, *, at: str = "", moving: str = "", states: Mapping[int, tuple[str, str]] | None = None
) -> JobStatus:
    """The answer about a job, under way or ended."""
    ranks = []
    for number, rank in enumerate(record.ranks):
        state, operation = (states or {}).get(number, ("running" if number in record.joined else "starting", ""))
        if (end := record.ends.get(number)) is not None:
            state, operation = str(end), ""
        elif record.state.ended:
            state, operation = "ended with the job", ""
        ranks.append(JobRankStatus(rank=number, host=rank.host, gpu=rank.gpu, state=state, operation=operation))
    return JobStatus(
        id=record.id,
        entry=record.entry,
        state=record.state,
        why=record.why,
        plane=record.plane_text,
        by=record.by,
        lease=record.lease,
        prepared_set=record.prepared_set,
        at=at,
        moving=moving,
        started_wall_ns=record.started_wall_ns,
        ended_wall_ns=record.ended_wall_ns,
        ranks=ranks,
    )


def _future() -> "asyncio.Future[str]":
    return asyncio.get_running_loop().create_future()


def _same(one: Operation, other: Operation) -> bool:
    """Whether two ranks mean one operation."""
    return (one.group, one.index) == (other.group, other.index)


def _named(record: JobRecord, numbers: list[int]) -> str:
    """`rank 2 on h2, rank 3 on h3`."""
    return ", ".join(f"rank {number} on {record.ranks[number].host}" for number in numbers)
