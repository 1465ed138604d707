"""Jobs of one testbed: started from its file, followed to their ends, over restarts of the daemon too.

status = await jobs.start("train", ["--steps", "10"], caller)
await jobs.stop(status.id)
"""

import asyncio
import logging
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import ClassVar, Final

from msgspec import UNSET

from hwd.bus.asks import AskedBy
from hwd.config.planes import make
from hwd.config.yaml.file_problem import nearest
from hwd.fabric.in_use import InUse
from hwd.jobs.job_light import Applies, JobLight
from hwd.jobs.job_parts import JobParts
from hwd.jobs.job_ranks import JobRanks
from hwd.jobs.job_routes import HostSettings, JobRoutes
from hwd.jobs.job_run import AGAIN_S, STOP_WITHIN_S, JobRun
from hwd.jobs.job_status import status_of
from hwd.jobs.training.training import training
from hwd.model.job import JobOverridden, JobRank, JobRecord, JobState
from hwd.model.job_status import JobStatus
from hwd.model.lease import LeaseReleased
from hwd.model.prepared_set import SetSettled
from hwd.model.program import Processes, ProgramEnd
from hwd.model.reconfiguration import ReconfigurationEnded, WantedSwitch
from hwd.model.request import Caller
from hwd.model.run_facts import RunJob
from hwd.model.testbed import JobEntry
from hwd.ports.claim import holder_of, job_of
from hwd.ports.rules import Reason
from hwd.reconfigure.leases.leases import Leases
from hwd.reconfigure.plans.planner import Planner
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd_agents.wire import (
    ClaimOperation,
    ClaimTransfer,
    EndedOperation,
    EndOperation,
    EndTransfers,
    JobJoined,
    JoinJob,
    OperationEnded,
    OperationGranted,
    TransferGranted,
    TransfersEnded,
)
from hwd_drivers.core.documents import Document, Json
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import DeadlineError, FailedError, HwdError, RefusedError, UnknownError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.values import PortSide, natural_key
from hwd_drivers.devices.facts import SwitchOverride, SwitchRead, SwitchRestarted, SwitchUp

MOST: Final = 64
"""Jobs at a time."""
CLOSE_WITHIN_S: Final = 8.0
"""For the jobs of runs to end when the daemon ends; the next one goes on with their ends."""
SHOWN: Final = 100
"""Jobs that a list shows, newest first."""
UNNAMED_CALLER: Final = "a caller of the HTTP API"
LOG_BYTES: Final = 1024 * 1024
"""The most bytes of the output of a rank in one answer."""

log = logging.getLogger(__name__)


class Jobs:
    """Owns every job. Also a task, `run`, and a `Sink`: what others do to the light of jobs.

    Without `processes` none can be started. `folder` gets the output of ranks.
    """

    TAKES: ClassVar = (
        *(LeaseReleased, SwitchUp, SwitchRestarted, SwitchRead, SwitchOverride),
        *(ReconfigurationEnded, SetSettled),
    )

    def __init__(
        self,
        in_use: InUse,
        processes: Processes | None,
        *,
        parts: JobParts,
        applies: Applies,
        reconfigurer: Reconfigurer,
        leases: Leases,
        planner: Planner,
        settings: HostSettings,
        folder: Path,
    ) -> None:
        self._in_use = in_use
        self._processes = processes
        self._parts = parts
        self._store = parts.store
        self._log = parts.event_log
        self._applies = applies
        self._reconfigurer = reconfigurer
        self._leases = leases
        self._planner = planner
        self._transfers = parts.transfers
        self._settings = settings
        self._folder = folder
        self._clock = parts.clock
        self._ids = parts.ids
        self._offload = parts.offload
        self._emit = Emitter(parts.clock, parts.sink)
        self._runs: dict[str, JobRun] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._read_next: dict[str, str] = {}
        """By switch that was connected anew: who may have moved its light before its first report."""
        self._is_loaded = self._is_closing = False

    # --- what callers ask

    def under_way(self) -> list[JobStatus]:
        """The jobs that have not ended, oldest first."""
        return [run.status() for run in self._runs.values()]

    async def all(self) -> list[JobStatus]:
        """The newest ones, newest first, also those that have ended."""
        return [
            self._runs[record.id].status() if record.id in self._runs else status_of(record)
            for record in await self._store.latest(SHOWN)
        ]

    async def get(self, id: str) -> JobStatus:
        """Raises UnknownError."""
        if (run := self._runs.get(id)) is not None:
            return run.status()
        if (record := await self._store.get(id)) is None:
            raise UnknownError(f"job {id}: there is none of this id. `hwd job list` names those that there are")
        return status_of(record)

    async def start_of(self, run: str, name: str, arguments: Sequence[str]) -> str:
        """Start a job of a run: see `hwd.playbook.effects.RunJobs`."""
        return (await self.start(name, arguments, Caller(name=holder_of(run), is_verified=True), run=run)).id

    async def wait_for_end(self, job: str, arguments: Sequence[str], *, run: str, sweep: Mapping[str, Json]) -> None:
        """Wait for the end of a job of a run: see `hwd.playbook.effects.RunJobs`."""
        task = self._tasks[job]
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            if (under_way := self._runs.get(job)) is not None:
                under_way.stop(f"{holder_of(run)} was ended")
                await asyncio.wait((task,), timeout=STOP_WITHIN_S)
            raise
        status = await self.get(job)
        if status.state != JobState.SUCCEEDED:
            raise FailedError(f"job {job}: {status.state}: {status.why}")
        try:
            await self._tell_run(run, job, arguments, sweep)
        except HwdError as error:  # it has succeeded all the same
            log.warning("job %s: its iterations are not in the report of run %s: %s", job, run, reason_of(error))

    async def _tell_run(self, run: str, job: str, arguments: Sequence[str], sweep: Mapping[str, Json]) -> None:
        if (record := await self._store.get(job)) is None:
            return  # it was deleted
        found = await self._offload(training, record, await self._log.events(job))
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

    async def start(self, name: str, words: Sequence[str], caller: Caller | None, *, run: str = "") -> JobStatus:
        """Start a job of the testbed file; returns as soon as it is durable. Raises RefusedError for what is not
        allowed, UnknownError for an unknown entry, ConfigError for a plane that is not installed.
        """
        entry = self._entry(name, words)
        make(entry.plane, entry.plane_arguments)  # raises ConfigError for one that is not installed
        by = UNNAMED_CALLER if caller is None else str(caller)
        record = JobRecord(
            id=self._ids.token(length=8),
            entry=entry.name,
            command=[*entry.command, *words],
            user=entry.user,
            ranks=[JobRank(host=rank.host, gpu=rank.gpu) for rank in entry.ranks],
            groups={name: [*group.ranks] for name, group in entry.groups.items()},
            dimensions={name: group.dimension for name, group in entry.groups.items()},
            plane=entry.plane,
            plane_arguments=dict(entry.plane_arguments),
            shim=entry.shim,
            fallback=entry.fallback,
            within_s=entry.within_s,
            arrive_within_s=entry.arrive_within_s,
            answer_within_s=entry.answer_within_s,
            ready_within_s=entry.ready_within_s,
            key=self._ids.token(length=32),
            by=by,
            run=run,
            started_wall_ns=self._clock.wall_ns(),
        )
        await self._store.save(record)
        if self._is_closing:
            raise RefusedError(f"job {name}: the daemon is ending")
        return self._go(record, is_new=True).status()

    def stop(self, id: str, caller: Caller | None, *, why: str = "") -> JobStatus:
        """Let a job end; it ends within seconds, and then holds nothing. Raises RefusedError where none of this id is
        under way: it may have just ended. Raises DeadlineError where that is not known yet.
        """
        run = self._of(id)
        run.stop(f"stopped by {_words(caller, why)}")
        return run.status()

    async def output(self, id: str, rank: int, first: int) -> bytes:
        """Output of a rank from byte `first` on, at most `LOG_BYTES`. Raises UnknownError."""
        status = await self.get(id)
        if not 0 <= rank < len(status.ranks):
            raise UnknownError(f"job {id}: it has no rank {rank}; there are {len(status.ranks)}, from 0 on")

        def read() -> bytes:
            try:
                with (self._folder / id / f"rank{rank}.log").open("rb") as file:
                    if first >= file.seek(0, os.SEEK_END):  # how far a system can seek at all differs
                        return b""
                    file.seek(first)
                    return file.read(LOG_BYTES)
            except FileNotFoundError:
                return b""

        return await self._offload(read)

    # --- what others do to the light of a job

    def knows(self, id: str, key: str) -> bool:
        """Whether this is the key of a job. Raises as `stop` does."""
        return self._of(id).operations.knows(key)

    def new_id(self) -> str:
        """Draw the id of a reconfiguration."""
        return self._ids.token(length=8)

    def mover(self, reconfiguration: str) -> str | None:
        """The job whose light a reconfiguration under way moves, by its plane; None for any other one."""
        return next((id for id, run in self._runs.items() if run.moves_by(reconfiguration)), None)

    @contextmanager
    def overridden(
        self,
        id: str,
        prepared_set: str,
        *,
        target: str = "",
        reconfiguration: str = "",
        caller: Caller | None,
        why: str,
    ) -> Iterator[str]:
        """Somebody acts on the set of a job: an operator, for `why`, or (empty) a rank by the key of the job. The job
        is told before and after; an override is recorded. Yields whose right is overridden and why, else nothing.
        """
        run = self._runs.get(id)
        words = _words(caller, why) + (f", as {reconfiguration}" if reconfiguration else "")
        overridden, entry = "", ""
        if why:
            entry = "" if run is None else run.record.entry
            overridden = f"job {id}{f' ({entry})' if entry else ''}: {why}"
        is_refused = False
        try:
            with nullcontext() if run is None else run.act(words):
                yield overridden
        except RefusedError:  # before anything was done
            is_refused = True
            raise
        finally:
            if why and not is_refused:
                log.warning("job %s: prepared set %s was acted on by override of %s", id, prepared_set, words)
                self._emit(
                    JobOverridden(
                        job=id,
                        entry=entry,
                        act="switch" if target else "release",
                        prepared_set=prepared_set,
                        target=target or UNSET,
                        reconfiguration=reconfiguration or UNSET,
                        by=UNNAMED_CALLER if caller is None else caller.name,
                        verified=caller is not None and caller.is_verified,
                        why=why,
                    )
                )

    def __call__(self, document: Document) -> None:
        if not self._runs:
            return
        match document.fact:
            case LeaseReleased():
                for run in [*self._runs.values()]:
                    run.check_lease()
            case SwitchUp(switch=switch):
                self._read_next[switch] = f"somebody, or a fault of it, while {switch} could not be reached"
            case SwitchRestarted(switch=switch):
                self._read_next[switch] = f"a restart of {switch}"
            case SwitchRead(switch=switch) as read:
                by = self._read_next.pop(switch, "")
                if by:
                    self._changed((f"{switch}.{end.port}" for end in self._in_use.testbed.ends.get(switch, ())), by)
                elif not read.ours:
                    changed = [f"-{one}" for one in read.removed] + [f"+{one}" for one in read.added]
                    ends = (end for one in (*read.removed, *read.added) for end in one.ends)
                    by = f"another client of {switch}, or at its front panel: {' '.join(changed)}"
                    self._changed((f"{switch}.{end.port}" for end in ends), by)
            case SwitchOverride(switch=switch, ends=ends, to=to, by=by):
                ports = (f"{switch}.{end.port}" for end in ends)
                self._changed(ports, f"{by}, who sets {' '.join(ends)} of {switch} {to}")
            case ReconfigurationEnded(reconfiguration=id, wanted=list(wanted)) if self.mover(id) is None:
                named = ((one.switch, end) for one in wanted for end in _ends_of(one))
                self._changed((f"{switch}.{end.port}" for switch, end in named), f"reconfiguration {id}")
            case SetSettled(prepared_set=id, why=why):
                for run in [*self._runs.values()]:
                    if run.record.prepared_set == id:
                        run.light_changed(self._reconfigurer.sets.get(id).ports, f"its prepared set: {why}")

    def _changed(self, ports: Iterable[str], by: str) -> None:
        found = frozenset(ports)
        for run in [*self._runs.values()]:
            run.light_changed(found, by)

    # --- what agents ask

    async def claim_transfer(self, by: AskedBy, asked: ClaimTransfer) -> TransferGranted:
        """Let a process send. Over ports that a job has leased only one that has its key: any other would hold up its
        light.
        """
        ports, now = {f"{by.host}.{port}" for port in asked.ports}, self._clock.wall_ns()
        for lease in self._leases.ledger.all(Reason.LEASE):
            if not lease.is_in_force(now) or ports.isdisjoint(lease.ports) or (job := job_of(lease.owner)) is None:
                continue
            if asked.key is None or not self.knows(job, asked.key):
                named = ", ".join(sorted(ports & lease.ports, key=natural_key))
                raise RefusedError(
                    f"{named}: leased to {lease.owner}, whose ranks alone send over it: with its key, which they have "
                    "in HWD_JOB_KEY"
                )
        return await self._transfers.claim(by, asked)

    async def join(self, by: AskedBy, asked: JoinJob) -> JobJoined:
        return await self._of(asked.job).join(by, asked.rank, asked.key)

    async def claim(self, by: AskedBy, asked: ClaimOperation) -> OperationGranted:
        return await self._of(asked.job).operations.claim(by, asked)

    async def end(self, by: AskedBy, asked: EndOperation) -> OperationEnded:
        await self._of(asked.job).operations.end(by, asked)
        return OperationEnded()

    async def end_transfers(self, by: AskedBy, asked: EndTransfers) -> TransfersEnded:
        """First in the ledger, so that a plane which hears of it may switch. Raises DeadlineError where a job cannot
        hear of it yet: then the agent tells it again.
        """
        ended = await self._transfers.end(by, asked)
        held: DeadlineError | None = None
        for one in sorted(asked.operations, key=self._is_held):  # one job that is held holds up no other
            if one.job in self._runs or not self._is_up:
                try:
                    await self._of(one.job).operations.ended(by, one)
                except DeadlineError as error:
                    held = held or error
        if held is not None:
            raise held
        return ended

    def _is_held(self, one: EndedOperation) -> bool:
        run = self._runs.get(one.job)
        return run is None or run.operations.is_held

    # --- the task

    async def load(self) -> None:
        """What the jobs of an earlier process have set on hosts is theirs, before anybody puts it back."""
        for record in await self._store.under_way():
            self._routes(record)

    async def run(self) -> None:
        """Go on with the jobs of an earlier process, until cancelled."""
        left = await self._left()
        if left and self._processes is None:
            log.error("%s: left as they are: this daemon has no way to reach programs", ", ".join(map(str, left)))
            left = []
        for record in left:
            self._go(record)
        self._is_loaded = True
        await asyncio.Event().wait()

    async def _left(self) -> list[JobRecord]:
        """The jobs of an earlier process, as soon as the records tell them: ranks ask again until then."""
        while True:
            try:
                await self._remove_old_output()
                return [record for record in await self._store.under_way() if record.id not in self._runs]
            except HwdError as error:
                log.warning("the jobs of an earlier daemon cannot be read yet: %s", reason_of(error))
            await asyncio.sleep(AGAIN_S)

    async def close(self) -> None:
        """Let the ranks go on without the daemon, which goes on with the jobs at its next start. Those of runs end, as
        their runs do.
        """
        self._is_closing = True
        of_runs = [one for one in self._runs.values() if one.record.run]
        for one in of_runs:
            one.stop("its run ends with the daemon")
        if of_runs:
            await asyncio.wait([self._tasks[one.record.id] for one in of_runs], timeout=CLOSE_WITHIN_S)
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- inside

    def _go(self, record: JobRecord, *, is_new: bool = False) -> JobRun:
        processes = self._processes
        assert processes is not None

        def ranks(record: JobRecord, on_end: Callable[[int, ProgramEnd], Awaitable[None]]) -> JobRanks:
            return JobRanks(
                record,
                self._in_use.testbed.hosts,
                processes,
                folder=self._folder / record.id,
                offload=self._offload,
                on_end=on_end,
            )

        run = JobRun(
            record,
            self._in_use.testbed,
            self._parts,
            light=JobLight(
                self._in_use.testbed,
                applies=self._applies,
                reconfigurer=self._reconfigurer,
                leases=self._leases,
                planner=self._planner,
                transfers=self._transfers,
            ),
            routes=self._routes(record),
            ranks=ranks,
            is_new=is_new,
        )
        self._runs[record.id] = run
        task = self._tasks[record.id] = asyncio.create_task(run.run(), name=f"hwd:jobs/{record.id}")
        task.add_done_callback(lambda done: self._ended(record, done))
        return run

    def _routes(self, record: JobRecord) -> JobRoutes:
        routes = JobRoutes(self._in_use.testbed, self._settings, self._leases.ledger)
        routes.begin(record)
        return routes

    def _ended(self, record: JobRecord, task: "asyncio.Task[None]") -> None:
        del self._runs[record.id], self._tasks[record.id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: its task ended: %s", record, reason_of(error), exc_info=error)

    def _of(self, id: str) -> JobRun:
        if (run := self._runs.get(id)) is not None:
            return run
        if not self._is_up:
            raise DeadlineError(f"job {id}: the daemon does not serve jobs now, it starts or ends. Ask again")
        raise RefusedError(f"job {id}: none of this id is under way")

    @property
    def _is_up(self) -> bool:
        return self._is_loaded and not self._is_closing

    async def _remove_old_output(self) -> None:
        """Remove the output of jobs that the records do not have any more."""
        known = await self._store.ids()

        def remove() -> None:
            for folder in self._folder.iterdir() if self._folder.is_dir() else ():
                if folder.name not in known and folder.name not in self._runs:  # one may have begun meanwhile
                    shutil.rmtree(folder)

        try:
            await self._offload(remove)
        except OSError as error:
            log.warning("old output of jobs cannot be removed: %s", reason_of(error))

    def _entry(self, name: str, words: Sequence[str]) -> JobEntry:
        entries = self._in_use.testbed.jobs
        if (entry := entries.get(name)) is None:
            raise UnknownError(
                f"job {name!r}: not among the jobs of testbed {self._in_use.testbed.name}; "
                f"{nearest(name, entries) or 'it has none: an operator adds them to its file under `jobs`'}"
            )
        if words and not entry.arguments:
            raise RefusedError(
                f"job {name}: it takes no arguments: its entry in the testbed file has not arguments: true"
            )
        if self._processes is None:
            raise RefusedError(f"job {name}: this daemon has no way to start programs on hosts")
        if self._is_closing:
            raise RefusedError(f"job {name}: the daemon is ending")
        if len(self._runs) >= MOST:
            raise RefusedError(f"job {name}: {MOST} jobs are under way, the most at a time. Wait for one, or stop one")
        return entry


def _words(caller: Caller | None, why: str) -> str:
    """`ada (unverified): measures the loss`."""
    return f"{UNNAMED_CALLER if caller is None else caller}{why and f': {why}'}"


def _ends_of(wanted: WantedSwitch) -> Iterator[PortSide]:
    yield from (end for one in wanted.crossconnects for end in one.ends)
    yield from wanted.free
