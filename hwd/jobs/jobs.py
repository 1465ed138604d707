"""Jobs of one testbed: started from its file, followed to their ends, over restarts of the daemon too.

status = await jobs.start("train", ["--steps", "10"], caller)
await jobs.stop(status.id)
"""

import asyncio
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import UNSET

from hwd.config.planes.installed import check_installed
from hwd.config.yaml.file_problem import nearest
from hwd.fabric.in_use import InUse
from hwd.jobs.job_light import JobLight
from hwd.jobs.job_parts import JobParts
from hwd.jobs.job_ranks import JobRanks
from hwd.jobs.job_routes import HostSettings, JobRoutes
from hwd.jobs.job_run import AGAIN_S, JobRun
from hwd.jobs.job_status import status_of
from hwd.jobs.live_job import LiveJob
from hwd.model.job import JobOverridden, JobRank, JobRecord
from hwd.model.job_status import JobStatus
from hwd.model.program import Processes
from hwd.model.request import Caller
from hwd.model.testbed import JobEntry
from hwd.reconfigure.applies import Applies
from hwd.reconfigure.leases.leases import Leases
from hwd.reconfigure.plans.planner import Planner
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import DeadlineError, HwdError, RefusedError, UnknownError
from hwd_drivers.core.reason import reason_of

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
    """Owns every job; a task: `run`. Without `processes` none can be started. `folder` gets the output of ranks."""

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
        self.runs: dict[str, JobRun] = {}
        """Those under way, by id."""
        self._in_use = in_use
        self._processes = processes
        self._parts = parts
        self._store = parts.store
        self._new_light = partial(
            JobLight,
            applies=applies,
            reconfigurer=reconfigurer,
            leases=leases,
            planner=planner,
            transfers=parts.transfers,
        )
        self._ledger = leases.ledger
        self._settings = settings
        self._folder = folder
        self._clock = parts.clock
        self._ids = parts.ids
        self._offload = parts.offload
        self._emit = Emitter(parts.clock, parts.sink)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_loaded = self._is_closing = False

    # --- what callers ask

    def under_way(self) -> list[JobStatus]:
        """The jobs that have not ended, oldest first."""
        return [run.status() for run in self.runs.values()]

    async def all(self) -> list[JobStatus]:
        """The newest ones, newest first, also those that have ended."""
        return [
            self.runs[record.id].status() if record.id in self.runs else status_of(record)
            for record in await self._store.latest(SHOWN)
        ]

    async def get(self, id: str) -> JobStatus:
        """Raises UnknownError."""
        if (run := self.runs.get(id)) is not None:
            return run.status()
        if (record := await self._store.get(id)) is None:
            raise UnknownError(f"job {id}: there is none of this id. `hwd job list` names those that there are")
        return status_of(record)

    async def wait(self, id: str, *, within_s: float | None = None) -> None:
        """Wait for the end of a job; no error where it has ended."""
        if (task := self._tasks.get(id)) is not None:
            await asyncio.wait((task,), timeout=within_s)

    async def start(self, name: str, words: Sequence[str], caller: Caller | None, *, run: str = "") -> JobStatus:
        """Start a job of the testbed file; returns as soon as it is durable. Raises RefusedError for what is not
        allowed, UnknownError for an unknown entry, ConfigError for a plane that is not installed.
        """
        entry = self._entry(name, words)
        check_installed(entry.plane)
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
            plane_within_s=entry.plane_within_s,
            plane_memory_mib=entry.plane_memory_mib,
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
        run = self.of(id)
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

    def of(self, id: str) -> JobRun:
        """The job of this id. Raises RefusedError where none is under way, DeadlineError where that is not known."""
        if (run := self.runs.get(id)) is not None:
            return run
        if not self.is_up:
            raise DeadlineError(f"job {id}: the daemon does not serve jobs now, it starts or ends. Ask again")
        raise RefusedError(f"job {id}: none of this id is under way")

    @property
    def is_up(self) -> bool:
        """Whether the jobs under way are known."""
        return self._is_loaded and not self._is_closing

    # --- what others do to the light of a job

    def knows(self, id: str, key: str) -> bool:
        """Whether this is the key of a job. Raises as `stop` does."""
        return self.of(id).operations.knows(key)

    def new_id(self) -> str:
        """Draw the id of a reconfiguration."""
        return self._ids.token(length=8)

    def mover(self, reconfiguration: str) -> str | None:
        """The job whose light a reconfiguration under way moves, by its plane; None for any other one."""
        return next((id for id, run in self.runs.items() if run.moves.has(reconfiguration)), None)

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
        run = self.runs.get(id)
        words = _words(caller, why) + (f", as {reconfiguration}" if reconfiguration else "")
        overridden, entry = "", ""
        if why:
            entry = "" if run is None else run.job.record.entry
            overridden = f"job {id}{f' ({entry})' if entry else ''}: {why}"
        is_refused = False
        try:
            with nullcontext() if run is None else run.watch.act(words):
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
                return [record for record in await self._store.under_way() if record.id not in self.runs]
            except HwdError as error:
                log.warning("the jobs of an earlier daemon cannot be read yet: %s", reason_of(error))
            await asyncio.sleep(AGAIN_S)

    async def close(self) -> None:
        """Let the ranks go on without the daemon, which goes on with the jobs at its next start. Those of runs end, as
        their runs do.
        """
        self._is_closing = True
        of_runs = [one for one in self.runs.values() if one.job.record.run]
        for one in of_runs:
            one.stop("its run ends with the daemon")
        if of_runs:
            await asyncio.wait([self._tasks[one.job.record.id] for one in of_runs], timeout=CLOSE_WITHIN_S)
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- inside

    def _go(self, record: JobRecord, *, is_new: bool = False) -> JobRun:
        assert self._processes is not None
        testbed = self._in_use.testbed
        job = LiveJob(record, self._parts)
        run = JobRun(
            job,
            testbed,
            self._parts,
            light=self._new_light(job, testbed),
            routes=self._routes(record),
            ranks=partial(
                JobRanks,
                record,
                testbed.hosts,
                self._processes,
                folder=self._folder / record.id,
                offload=self._offload,
            ),
            is_new=is_new,
        )
        self.runs[record.id] = run
        task = self._tasks[record.id] = asyncio.create_task(run.run(), name=f"hwd:jobs/{record.id}")
        task.add_done_callback(lambda done: self._ended(record, done))
        return run

    def _routes(self, record: JobRecord) -> JobRoutes:
        routes = JobRoutes(self._in_use.testbed, self._settings, self._ledger)
        routes.begin(record)
        return routes

    def _ended(self, record: JobRecord, task: "asyncio.Task[None]") -> None:
        del self.runs[record.id], self._tasks[record.id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: its task ended: %s", record, reason_of(error), exc_info=error)

    async def _remove_old_output(self) -> None:
        known = await self._store.ids()

        def remove() -> None:
            for folder in self._folder.iterdir() if self._folder.is_dir() else ():
                if folder.name not in known and folder.name not in self.runs:  # one may have begun meanwhile
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
        if len(self.runs) >= MOST:
            raise RefusedError(f"job {name}: {MOST} jobs are under way, the most at a time. Wait for one, or stop one")
        return entry


def _words(caller: Caller | None, why: str) -> str:
    """`ada (unverified): measures the loss`."""
    return f"{UNNAMED_CALLER if caller is None else caller}{why and f': {why}'}"
