"""JobRun: one job, from its lease to its end. It alone acts for the job's plane: under lease, ledger and journal.

Everything that the plane is told goes through one queue. A daemon that is started anew tells a new plane the same, and
goes on where the old one was.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol

from msgspec import UNSET
from msgspec.structs import replace

from hwd.bus.asks import AskedBy
from hwd.config.planes import find, make
from hwd.jobs.agreement import Agreement, DisagreeError
from hwd.jobs.efficiency.live_efficiency import LiveEfficiency
from hwd.jobs.efficiency.port_rates import PortRates, packet_switches
from hwd.jobs.job_failures import JobFailures
from hwd.jobs.job_light import JobLight, check_names
from hwd.jobs.job_ranks import JobRanks
from hwd.jobs.job_routes import JobRoutes
from hwd.jobs.job_status import named, status_of
from hwd.jobs.operation_sent import sent_of
from hwd.jobs.played_plane import EventStore, PlayedPlane, Told
from hwd.jobs.rack_health import RackHealth
from hwd.jobs.view import view_of
from hwd.model.answers import JobEfficiencyRow, JobStatus
from hwd.model.documents.jobs import (
    JobArrived,
    JobEnded,
    JobFailure,
    JobGranted,
    JobMeasured,
    JobRankRefused,
    JobResumed,
    JobStarted,
    JobSwitched,
)
from hwd.model.job import JobRank, JobRecord, JobState, OperationSent
from hwd.model.nic_port import NicPortId
from hwd.model.plane import Applied, Done, Event, Failure, Intent, NotReady, Recovery, Target, View
from hwd.model.program import ProgramEnd
from hwd.model.testbed import Testbed
from hwd.planes import AnnouncedDemand
from hwd.planes.actor import AnswerRanks, Command, DriveTo, PlaneActor, PrepareTarget, SetRoutes
from hwd.reconfigure.transfers import Transfers
from hwd_agents.wire import (
    ClaimOperation,
    ClaimTransfer,
    EndedOperation,
    EndOperation,
    EndTransfers,
    JobJoined,
    Operation,
    OperationGranted,
    RankPlace,
)
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Fact, Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import DeadlineError, FailedError, HwdError, RefusedError
from hwd_drivers.core.ids import Ids
from hwd_drivers.core.offload import Offload
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.values import natural_key

TICK_S: Final = 0.1
"""At least so often the plane is told how late it is."""
STOP_WITHIN_S: Final = 30.0
"""For ranks to end, on hosts that may be away; then the job ends without them, and says so."""
PACE_S: Final = 0.5
"""Between a switch that failed and the next one."""
AGAIN_S: Final = 5.0
"""Between two attempts to give back what a job holds."""
REFUSALS_TOLD: Final = 100
"""Refusals of one job that are recorded: a stranger may ask in a loop."""
LATE_S: Final = 60.0
"""A job that is still there so long after its longest time has lost its ranks."""

log = logging.getLogger(__name__)


class JobStore(EventStore, Protocol):
    """The durable jobs: `hwd.records`."""

    async def save(self, record: JobRecord) -> None: ...


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
        routes: JobRoutes,
        ranks: Callable[[JobRecord, Callable[[int, ProgramEnd], Coroutine[Any, Any, None]]], JobRanks],
        transfers: Transfers,
        rates: PortRates,
        health: RackHealth,
        clock: Clock,
        ids: Ids,
        offload: Offload,
        sink: Sink,
        announce: Sink,
        is_new: bool,
    ) -> None:
        self.record = record
        self._is_new = is_new
        self._testbed = testbed
        self._store = store
        self._light = light
        self._routes = routes
        self._ranks = ranks(record, self._rank_ended)
        self._transfers = transfers
        self._rates = rates
        self._health = health
        self._failures: JobFailures | None = None
        self._lit: tuple[Target | None, frozenset[NicPortId]] = None, frozenset()
        """The ports that have light at a target, and which target that is."""
        self._looked_s = 0.0
        self._clock = clock
        self._ids = ids
        self._sink = Emitter(clock, sink)
        self._announce = Emitter(clock, announce)
        self._job = record.job
        self._made_view: View | None = None
        self._plane: PlayedPlane | None = None
        self._queue: asyncio.Queue[Told | None] = asyncio.Queue()
        self._waiting: dict[int, _Waiting] = {}
        self._sending: dict[int, _Sending] = {}
        self._turns: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._refused: dict[int, str] = {}
        """Why each rank was refused last."""
        self._refusals = 0
        self._agreement = Agreement(self._job.groups)
        self._untold: dict[int, asyncio.Future[None]] = {}
        """Ranks whose last operation has ended, until that is durable."""
        self._efficiency = LiveEfficiency(self._with_rates, clock=clock, offload=offload, tell=self._tell_efficiency)
        self._paced_s = 0.0
        """From when on the light may be switched: a plane may try again and again."""
        self._drives: set[asyncio.Task[None]] = set()
        self._not_ready = ""
        """The last target, and why the light was not brought to it; empty where it was."""
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
        actor, record = self._plane.actor if self._plane else None, self.record
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
            longest_s=self._transfers.rules.longest_s,
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

    async def ended(self, by: AskedBy, ended: EndedOperation) -> None:
        """An operation has ended; returns when that is durable. Raises DeadlineError where it cannot be now: the agent
        tells it again.
        """
        if self._outcome is None and self._plane is None:
            raise DeadlineError(f"{self.record}: it is not running yet. Tell it again")
        one = self._sending.get(ended.rank)
        if one is not None and one.operation == ended.operation and self.record.ranks[ended.rank].host == by.host:
            self._done(ended.rank, sent_of(by, ended))
        await self._durable(by, ended.rank)

    async def end(self, by: AskedBy, asked: EndOperation) -> None:
        """A rank whose agent was started anew has ended its operation."""
        rank = asked.rank
        self._check_rank(by, rank, asked.key)
        if (one := self._sending.get(rank)) is not None and one.operation == asked.operation:
            await self._end_transfer(rank)
            self._done(rank, sent_of(by, asked))
        await self._durable(by, rank)

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
        every_s = find(record.plane).demand_s
        demand = None if every_s is None else AnnouncedDemand(self._job, every_s=every_s)
        plane = PlayedPlane(actor, record.id, store=self._store, clock=self._clock, demand=demand)
        if record.state is JobState.RUNNING:
            await self._resume(plane)
            return
        if not self._is_new:
            raise FailedError("the daemon ended while it was started")
        lease = await self._light.take(record, self._view, actor.targets.values())
        await self._save(
            lambda record: replace(
                record,
                lease=lease,
                ranks=self._placed(),
                fibres=self._fibres(),
                packet_switches=packet_switches(self._testbed, self._ports),
                rates_mbit_s=self._rates.of(self._testbed, self._ports),
            )
        )
        prepared_set = await self._light.prepare(self.record, actor.targets)
        await self._save(lambda record: replace(record, prepared_set=prepared_set))
        self._plane = plane
        self._failures = JobFailures(self._job, self._view, self._health)
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
        await self._ranks.start(address=self._meeting_address())

    def _meeting_address(self) -> str | None:
        """Where all reach rank 0: within its host, else over packet switches, else over light."""
        if len(self._job.hosts) == 1:
            return "127.0.0.1"
        addresses = self._addresses(0, optical=False) or self._addresses(0, optical=True)
        return next(iter(addresses.values()), None)

    def _placed(self) -> list[JobRank]:
        """The ranks with the NIC ports that they can send over, for whoever reads the records."""
        return [
            replace(
                at,
                optical=sorted(map(str, self._view.ports_of(rank)), key=natural_key),
                electrical=sorted((str(id) for id in self._view.electrical if id.host == rank.host), key=natural_key),
            )
            for at, rank in zip(self.record.ranks, self._job.ranks, strict=True)
        ]

    def _fibres(self) -> dict[str, list[str]]:
        """By NIC port: the ports of switches that its fibres lead to."""
        found: dict[str, set[str]] = {str(id): set() for id in self._view.ports}
        for strand in self._testbed.strands:
            for near, far in (strand.ends, strand.ends[::-1]):
                if f"{near.owner}.{near.port}" in found and far.owner in self._testbed.switches:
                    found[f"{near.owner}.{near.port}"].add(f"{far.owner}.{far.port}")
        return {port: sorted(ends, key=natural_key) for port, ends in found.items()}

    @property
    def _ports(self) -> tuple[NicPortId, ...]:
        """All NIC ports of its ranks."""
        return *self._view.ports, *self._view.electrical

    def _made(self) -> PlaneActor:
        record = self.record
        fallback = Target(links=self._view.topology("giant-ring")) if record.fallback else None
        actor = PlaneActor(make(record.plane, record.plane_arguments), self._job, self._view, fallback=fallback)
        check_names(actor.targets)
        for target in actor.targets.values():
            self._routes.check(target.routes)
        return actor

    async def _resume(self, plane: PlayedPlane) -> None:
        """Tell the plane all that was told before, and go on from there."""
        played = await plane.play_again()
        if played.has_prepared:
            await self._plan_each_switch()
        now_s = asyncio.get_running_loop().time()
        self._sending = {rank: _Sending(operation=operation) for rank, operation in played.sending.items()}
        for rank, operation in plane.actor.waiting.items():
            self._waiting[rank] = _Waiting(operation=operation, since_s=now_s, answered=_future())
        self._failures = JobFailures(self._job, self._view, self._health, played.failed)
        self._emit(JobResumed, events=played.events)
        await self._ranks.attach()
        self._judge_ends()
        if played.has_routed or any(target.routes for target in plane.actor.targets.values()):
            busy = {self.record.ranks[rank].host for rank in self._sending}
            await self._routes.resume(self.record, plane.actor.routes, busy, is_over=self._is_over)
        self._plane = plane  # only now: ranks that waited behind a route may go by what is recorded
        if plane.actor.moving is not None:  # where it was done already, nothing moves now
            self._drive(plane.actor.moving)

    async def _serve(self) -> None:
        """Tell the plane what happens, until the job has come to an end."""
        over = asyncio.Event()
        work = self._efficiency.run(str(self.record), over)
        measuring = asyncio.create_task(work, name=f"hwd:jobs/{self.record.id}/efficiency")
        try:
            await self._serve_plane()
        finally:
            over.set()
            await measuring

    async def _serve_plane(self) -> None:
        while self._outcome is None:
            assert self._plane is not None
            batch: list[Told] = []
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    batch += filter(None, [await self._queue.get()])
            while not self._queue.empty():
                batch += filter(None, [self._queue.get_nowait()])
            batch += self._failed()
            commands = await self._plane.tell(batch, at_s=self._lasted_s())
            for one in batch:
                if isinstance(one.event, Done) and (untold := self._untold.pop(one.event.rank, None)) is not None:
                    untold.set_result(None)
            for command in commands:
                await self._do(command)
            self._check_time()

    async def _with_rates(self) -> JobRecord:
        """The job, with the rates of its ports: a link that is lit now may have a speed that it did not have before."""
        rates = self._rates.of(self._testbed, self._ports)
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

    def _failed(self) -> list[Told]:
        """What has failed of the job's part of the rack, or recovered, since the last look."""
        assert self._plane is not None
        assert self._failures is not None
        actor, now_s = self._plane.actor, asyncio.get_running_loop().time()
        if now_s - self._looked_s < TICK_S:
            return []
        self._looked_s = now_s
        if actor.moving is not None or actor.at is None:
            self._lit = None, frozenset()
        elif (target := actor.targets[actor.at]) is not self._lit[0]:  # a fallback may become another one
            self._lit = target, frozenset(end for link in self._light.links_of(target) for end in link.ends)
        found = self._failures.look(self._lit[1], now_s)
        for one in found:
            why = one.why if isinstance(one, Failure) else ""
            ports, hosts = [*map(str, one.ports)], [*one.hosts]
            level, word = (logging.INFO, "recovered") if isinstance(one, Recovery) else (logging.WARNING, "failed")
            log.log(level, "%s: %s: %s%s", self.record, ", ".join((*ports, *hosts)), word, why and f": {why}")
            self._emit(JobFailure, ports=ports, hosts=hosts, why=why, is_over=isinstance(one, Recovery))
        return [Told(event=one) for one in found]

    async def _do(self, command: Command) -> None:
        match command:
            case AnswerRanks(ranks=ranks, why=why):
                for rank in ranks:
                    waiting = self._waiting.pop(rank)
                    if not why:
                        self._sending[rank] = _Sending(operation=waiting.operation)
                    waiting.answered.set_result(why)
            case DriveTo(target=target, why=why):
                if why:
                    log.warning("%s: plane %s goes to its fallback: %s", self.record, self.record.plane, why)
                self._drive(target, why)
            case PrepareTarget(target=target):
                self._routes.check(target.routes)
                await self._plan_each_switch()
            case SetRoutes(routes=routes):
                self._routes.check(routes)
                await self._routes.keep(self.record, routes, is_over=self._is_over)

    async def _plan_each_switch(self) -> None:
        """From now on: a prepared set can have no further target."""
        if not (before := self.record).prepared_set:
            return
        if self._drives:
            await asyncio.wait(self._drives)
        await self._save(lambda record: replace(record, prepared_set=""))
        await self._light.release_set(before)

    def _drive(self, target: str, fallback: str = "") -> None:
        assert self._plane is not None
        work = self._driven(target, self._plane.actor.targets[target], self._ids.token(length=8), fallback)
        task = asyncio.create_task(work, name=f"hwd:jobs/{self.record.id}/light")
        self._drives.add(task)
        task.add_done_callback(self._drives.discard)

    async def _driven(self, id: str, target: Target, reconfiguration: str, fallback: str) -> None:
        began_s = asyncio.get_running_loop().time()
        event: Event = Applied(target=id)
        why = ""
        await asyncio.sleep(self._paced_s - began_s)
        try:
            await self._light.go(self.record, id, target, reconfiguration=reconfiguration)
            await self._routes.set(self.record, target.routes)
        except Exception as error:
            if not isinstance(error, HwdError):
                log.exception("%s: on the way to %s: a defect of hwd", self.record, id)
            why = reason_of(error) if isinstance(error, HwdError) else f"a defect of hwd: {error!r}"
            self._paced_s = asyncio.get_running_loop().time() + PACE_S
            event = NotReady(target=id, why=why)
        self._not_ready = f"{id}: {why}" if why else ""
        seconds = asyncio.get_running_loop().time() - began_s
        self._emit(
            JobSwitched,
            target=id,
            reconfiguration=reconfiguration,
            why=why,
            seconds=seconds,
            fallback=fallback or UNSET,
        )
        self._queue.put_nowait(Told(event=event, reconfiguration=reconfiguration))

    # --- the end

    def _come_to(self, state: JobState, why: str) -> None:
        if self._outcome is None:
            self._outcome = state, why
            self._queue.put_nowait(None)

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
        for untold in self._untold.values():
            untold.set_result(None)
        self._untold.clear()
        for rank in [*self._waiting]:
            self._waiting.pop(rank).answered.set_result(f"{self.record}: {why or 'it has ended'}")
        for rank in [*self._sending]:
            if not left:  # else it may still be sending, until its longest time is over
                await self._end_transfer(rank)
        if self._drives:
            await asyncio.wait(self._drives)
        try:
            await self._routes.end(self.record)
        except HwdError as error:  # whoever comes next waits for that: its ports stay claimed until it is so
            log.warning("%s: %s", self.record, reason_of(error))
        await self._until_done(lambda: self._light.release(self.record))
        await self._until_done(
            lambda: self._save(
                lambda record: replace(
                    record, state=state, why=why, lease="", prepared_set="", ended_wall_ns=self._clock.wall_ns()
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
        if why := self._light.why_unleased(record):
            self._come_to(JobState.FAILED, f"its lease has ended, so others may take its light: {why}")
        if self._lasted_s() > record.within_s + LATE_S:
            self._come_to(JobState.FAILED, f"its longest time of {record.within_s:g} s is over")
        if (missing := [n for n in numbers if n not in record.joined]) and (
            now_s - self._since_s >= record.arrive_within_s
        ):
            self._come_to(JobState.FAILED, f"{named(record, missing)} did not come within {record.arrive_within_s:g} s")
        late = {n: one for n, one in self._waiting.items() if now_s - one.since_s >= record.answer_within_s}
        for number, one in late.items():
            members = self._job.groups[one.operation.group].ranks
            needed = members if one.operation.peer is None else tuple(sorted((number, one.operation.peer)))
            same = one.operation.shared(number)
            there = {n for n, other in self._waiting.items() if other.operation.shared(n) == same}
            absent = [n for n in needed if n not in there and n not in self._sending]
            who = f"{named(record, absent)} did not come to it" if absent else "all its ranks came to it"
            self._come_to(
                JobState.FAILED,
                f"rank {number} waited {record.answer_within_s:g} s for plane {record.plane} to answer "
                f"{one.operation}; {who}{self._about_light()}",
            )

    def _about_light(self) -> str:
        """What of its light may hold up its plane."""
        assert self._plane is not None
        words = ""
        if (moving := self._plane.actor.moving) is not None:
            words += f"; its light is on the way to {moving}"
        return words + (f"; it was not brought to {self._not_ready}" if self._not_ready else "")

    # --- inside

    async def _answer(self, by: AskedBy, asked: ClaimOperation) -> None:
        """Wait for the plane's answer to a rank."""
        rank = asked.rank
        waiting = self._waiting.get(rank)
        if waiting is None:
            if (sending := self._sending.get(rank)) is not None:  # who asks for the next one has ended the one before
                await self._end_transfer(rank)
                before = asked.ended
                is_known = before is not None and before.operation == sending.operation
                self._done(rank, sent_of(by, before) if before and is_known else None)
            now_s = asyncio.get_running_loop().time()
            waiting = self._waiting[rank] = _Waiting(operation=asked.operation, since_s=now_s, answered=_future())
            self._queue.put_nowait(Told(event=Intent(rank=rank, operation=asked.operation)))
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
            self._refuse_rank(by, rank, "it does not know the key of the job", is_own=False)
        if rank >= len(self.record.ranks) or self.record.ranks[rank].host != by.host:
            self._refuse_rank(by, rank, f"the job has no rank {rank} on {by.host}", is_own=False)
        self._check_running()

    def _check_running(self) -> None:
        """Raises DeadlineError while it starts and while it ends: who asks again meets it running, or finds it gone."""
        if self._outcome is not None or self._plane is None:
            what = "is not running yet" if self._outcome is None else f"is ending: {self._outcome[1] or 'it is done'}"
            raise DeadlineError(f"{self.record}: it {what}. Ask again")

    def _check_operation(self, by: AskedBy, asked: ClaimOperation) -> None:
        """Ranks that disagree would wait for each other for ever: the job fails, and says who."""
        if not 0 < asked.within_s <= self._transfers.rules.longest_s:
            why = f"{asked.operation}: it may take up to {self._transfers.rules.longest_s:g} s, not {asked.within_s:g}"
            self._refuse_rank(by, asked.rank, why)
        try:
            self._agreement.check(asked.rank, asked.operation)
        except DisagreeError as error:
            self._come_to(JobState.FAILED, f"rank {asked.rank} on {by.host}: {error}")
            self._refuse_rank(by, asked.rank, str(error))

    def _refuse_rank(self, by: AskedBy, rank: int, why: str, *, is_own: bool = True) -> NoReturn:
        if is_own:
            self._refused[rank] = why
        self._refusals += 1
        if self._refusals <= REFUSALS_TOLD:
            self._emit(JobRankRefused, rank=rank, host=by.host, why=why)
        raise RefusedError(f"{self.record}: rank {rank}: {why}" if is_own else f"job {self.record.id}: {why}")

    async def _end_transfer(self, rank: int) -> None:
        """End the transfer of a rank in the ledger, where it has one."""
        if (one := self._sending.get(rank)) is not None and one.by is not None and one.transfer is not None:
            self._sending[rank] = _Sending(operation=one.operation)
            await self._transfers.end(one.by, EndTransfers(transfers=[one.transfer]))

    def _done(self, rank: int, sent: OperationSent | None) -> None:
        if (one := self._sending.pop(rank, None)) is None:
            return  # it was said twice
        if sent is not None:
            self._efficiency.take(rank, one.operation, sent)
        self._untold[rank] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(Told(event=Done(rank=rank), sent=sent))

    async def _durable(self, by: AskedBy, rank: int) -> None:
        """Wait until the end of its last operation is; at once where there is none, or where the job is ending."""
        untold = self._untold.get(rank)
        if untold is None or self._outcome is not None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout_at(by.by_s):
                await asyncio.wait((untold,))
        if not untold.done():
            raise DeadlineError(f"{self.record}: the end of an operation is not recorded yet. Tell it again")

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


def _future() -> "asyncio.Future[str]":
    return asyncio.get_running_loop().create_future()
