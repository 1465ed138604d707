"""Runs: takes playbooks, starts each when it is due and its ports are free, and brings it to its end.

status = await runs.start(text=..., file=..., parameters={})     # running, or queued
await runs.pause(status.run, by="ada")
await runs.abort(status.run, by="ada")
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace as replace_field

from msgspec import UNSET
from msgspec.structs import replace

from hwd.model.recorded_run import RunOutcome
from hwd.model.run import RunState, RunStatus, TrialRun
from hwd.model.run_facts import RunEnded, RunOverdue, RunStarted
from hwd.playbook.board import ENDED_KEPT, Board
from hwd.playbook.execution import execute, record_end
from hwd.playbook.playbook_reader import PlaybookReader
from hwd.playbook.queue import Queue, WaitingRun
from hwd.playbook.run_access import RunAccess
from hwd.playbook.run_lookup import RunLookup
from hwd.playbook.run_record import RunTemplate, ended_fact, ended_status, status_of
from hwd.playbook.run_recovery import AGAIN_S, RunRecovery
from hwd.playbook.runner import RunEnd, Runner, why_failed
from hwd.playbook.safe_state import SafeState
from hwd.ports.claim import Claim, holder_of
from hwd.ports.rules import ROWS, PortAction, Reason
from hwd.records.finish import to_its_end
from hwd.records.queue_table import QueuedRun
from hwd.records.recorder import RecordingSink
from hwd.records.records import Records
from hwd_drivers.core.documents import Document, Fact, Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import FailedError, HwdError, RefusedError
from hwd_drivers.core.ids import Ids
from hwd_drivers.core.offload import Offload

LOOK_S = 30.0
"""The longest sleep before a due time: the clock on the wall may be set meanwhile."""
SETTLED_WITHIN_S = 30.0
"""The longest that queued runs of an earlier process wait for switches and hosts; then they start and may fail."""
SETTLED_LOOK_S = 0.25
THE_LAB = "the switches and hosts to be there"
ABORTED_WITHIN_S = 5.0
"""The longest that an abort waits for the end of a run."""
DAEMON_END = "the end of the daemon"
ENDING = "the daemon is ending; nothing new begins"

log = logging.getLogger(__name__)


class Runs:
    """Owns every run from its request to its end; an active run has its ports in the ledger.

    `is_settled()`: whether all switches and hosts are connected, and no reconfiguration is left open. `announce`: a
    sink for documents that the records have already.
    """

    def __init__(
        self,
        *,
        template: RunTemplate,
        access: RunAccess,
        is_settled: Callable[[], bool],
        records: Records,
        recorder: RecordingSink,
        ids: Ids,
        announce: Sink,
        offload: Offload,
    ) -> None:
        self._template = template
        self._reader = PlaybookReader(template.in_use, offload, records.demands.matrix)
        self._access = access
        self._ledger = ledger = access.leases.ledger
        self._is_settled = is_settled
        self._records = records
        self._recorder = recorder
        self._clock = access.clock
        self._ids = ids
        self._emit = Emitter(access.clock, access.sink)
        self._announce = announce
        self.board = Board(run_of=self._run_of, paused_by=self._paused_by, tell=self._emit)
        self._lookup = RunLookup(board=self.board, records=records)
        self._queue = Queue(ledger)
        self._from_before_start: set[str] = set()
        self._aborted_by: dict[str, str] = {}
        self._active: dict[str, Runner] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ended: dict[str, asyncio.Event] = {}
        self._starting = asyncio.Lock()
        self._requests = 0
        """The requests that are neither refused nor started nor queued yet."""
        self._changed = asyncio.Event()
        self._closing = False
        self.recovery = RunRecovery(
            records=records,
            board=self.board,
            ledger=ledger,
            lookup=self._lookup,
            on_change=self._changed.set,
        )
        ledger.on_release(self._take_release)
        ledger.report_why(Reason.RUN, self._left_of)

    @property
    def is_starting(self) -> bool:
        """Whether a run is about to begin or to queue: its ports are not claimed yet."""
        return self._requests > 0 or self._starting.locked()

    @property
    def waiting(self) -> tuple[WaitingRun, ...]:
        """Queued runs, with their ports."""
        return self._queue.waiting

    async def open(self) -> None:
        """Close crashed runs, and load the queue of earlier processes of the daemon."""
        crashed = await self._recorder.close_crashed(self._clock.wall_ns())
        known = {run.id for run in crashed}
        ended = [run for run in await self._records.runs.newest(limit=ENDED_KEPT) if run.id not in known]
        self.board.load([await self._lookup.recorded(run) for run in reversed(ended)])
        for status in self.board.all:  # who followed a run when the daemon crashed may not know its end
            self._announce(self._document(status))
        for run in crashed:
            status = replace(await self._lookup.recorded(run), safe_state=SafeState.UNKNOWN)
            self._emit(RunEnded(run=run.id, outcome=RunOutcome.CRASHED, why=run.why, safe_state=status.safe_state))
            self.board.put(status)
            log.warning("run %s: closed as crashed, the daemon ended under it", run.id)
            if not self._ledger.is_left_open(run.id):
                await self.recovery.take_crashed(run.id)
        for queued in await self._records.queue.all():
            await self._take_up(queued)

    async def run(self) -> None:
        """Start what is due, until cancelled."""
        loop = asyncio.get_running_loop()
        await self._access.faults.clear_left()
        settled_by_s = loop.time() + SETTLED_WITHIN_S
        while True:
            self._changed.clear()
            if self._from_before_start and (self._is_settled() or loop.time() >= settled_by_s):
                self._from_before_start.clear()
            settles_s = await self.recovery.settle()
            starts_s = await self._start_due()
            again_s = min((wait_s for wait_s in (settles_s, starts_s) if wait_s is not None), default=None)
            try:
                async with asyncio.timeout(again_s):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def close(self) -> None:
        """Abort active runs into their safe states. Queued runs stay in the queue, and no run begins any more."""
        self._closing = True
        for runner in self._active.values():
            runner.abort(DAEMON_END)
        await asyncio.gather(*self._tasks.values())
        async with self._starting:
            pass  # one that was about to begin has ended its record

    # --- requests

    @property
    def active(self) -> tuple[Runner, ...]:
        """Active runs, also paused ones."""
        return tuple(self._active.values())

    @property
    def queue(self) -> tuple[RunStatus, ...]:
        """Queued runs, in the order of their start."""
        return tuple(status for one in self._queue.waiting if (status := self.board.get(one.id)) is not None)

    async def state(self, id: str) -> RunStatus:
        """The state of a run, by its id or a prefix of it. Raises UnknownError for none, ConfigError for several."""
        return await self._lookup.state(id)

    async def start(
        self,
        *,
        text: str,
        file: str,
        parameters: Mapping[str, str],
        due_wall_ns: int | None = None,
        trial: TrialRun | None = None,
    ) -> RunStatus:
        """Check the playbook, and start or queue it. Raises ConfigError with every problem, before any switch moves."""
        self._requests += 1
        try:  # the caller may go away meanwhile
            return await to_its_end(self._start(text, file, parameters, due_wall_ns, trial), name="hwd:runs/start")
        finally:
            self._requests -= 1

    async def wait(self, id: str) -> None:
        """Wait for the end of a run."""
        if id in self._ended:
            await self._ended[id].wait()

    async def abort(self, id: str, *, by: str) -> RunStatus:
        """End a run in its safe state; one that waits is taken out of the queue. Returns its end within 5 s, and the
        testbed's `drain_s` where transfers are in flight.

        An end that the records do not take by then is returned nevertheless. Raises FailedError where the run has not
        ended; that is emitted too.
        """
        if id not in self._tasks:
            id = self._lookup.live(id)
        runner = self._active.get(id)
        drains = self._ledger.all(Reason.TRANSFER) or self._ledger.all(Reason.UNREPORTED)
        within_s = ABORTED_WITHIN_S + (self._access.reconfigurer.drain_s if drains else 0.0)
        aborting = asyncio.create_task(self._abort(id, by), name=f"hwd:runs/abort-{id}")
        try:
            await asyncio.wait([aborting], timeout=within_s)
        finally:
            if not aborting.done():
                aborting.add_done_callback(_log_failure)
        if aborting.done():
            return aborting.result()
        if runner is not None and runner.end is not None:
            end = replace_field(
                runner.end, why=f"{runner.end.why}; the records do not answer, and do not have its end yet"
            )
            return ended_status(self._lookup.status_on_board(id), end, by=by, ended_wall_ns=self._clock.wall_ns())
        waits_for = "the records" if runner is None else runner.waits_for
        self._emit(RunOverdue(run=id, by=by, waits_for=waits_for, within_s=within_s))
        why = f"run {id}: not ended within {within_s:g} s of its abort: it waits for {waits_for}"
        log.error("%s", why)
        raise FailedError(f"{why}. `hwd status` shows where the switches are; ask again, or restart the daemon")

    async def _abort(self, id: str, by: str) -> RunStatus:
        if id not in self._active:
            async with self._starting:
                if (waiting := self._queue.get(id)) is not None:
                    return await to_its_end(self._take_out(waiting, by), name="hwd:runs/take-out")
        if (runner := self._active.get(id)) is not None:
            self._aborted_by.setdefault(id, by)
            runner.abort(by)
        if (task := self._tasks.get(id)) is not None:
            await asyncio.shield(task)
        return self._lookup.status_on_board(id)

    def pause(self, id: str, *, by: str) -> RunStatus:
        """Pause before the next step, with all leases; its state is `paused` when that is reached."""
        runner = self._get_active(self._lookup.live(id))
        runner.pause(by)
        self.board.look(runner.id)
        log.info("run %s: is to pause, by %s", runner.id, by)
        return self._lookup.status_on_board(runner.id)

    def resume(self, id: str, *, by: str) -> RunStatus:
        """End a pause; raises RefusedError for a run that is not paused."""
        runner = self._get_active(self._lookup.live(id))
        if runner.paused_by is None:
            raise RefusedError(f"run {runner.id}: is not paused")
        log.info("run %s: resumed by %s", runner.id, by)
        runner.resume()
        self.board.look(runner.id)
        return self._lookup.status_on_board(runner.id)

    # --- the queue

    async def _start(
        self, text: str, file: str, parameters: Mapping[str, str], due_wall_ns: int | None, trial: TrialRun | None
    ) -> RunStatus:
        playbook = await self._reader.read(text, file=file, parameters=parameters)
        async with self._starting:  # `close` waits for it
            self._check_open()
            queued = QueuedRun(
                id=self._ids.token(length=8),
                playbook=playbook.name,
                playbook_text=text,
                file=file,
                parameters=dict(parameters),
                queued_wall_ns=self._clock.wall_ns(),
                due_wall_ns=due_wall_ns,
                trial=UNSET if trial is None else trial,
            )
            waiting = WaitingRun(queued=queued, runner=Runner(queued.id, playbook, self._access))
            self._queue.check_calendar(waiting, now_wall_ns=self._clock.wall_ns())
            self._queue.add(waiting)
            waits_for = self._queue_waits()[queued.id]
            try:
                if not waits_for:
                    return await self._begin(waiting)
                self._queue.check_length()
                await self._records.queue.add(queued)
            except BaseException:
                self._queue.remove(queued.id)
                raise
            self._ended[queued.id] = asyncio.Event()
            self.board.put(waiting.status(RunState.QUEUED, waits_for=waits_for))
            self._changed.set()
            return self._lookup.status_on_board(queued.id)

    async def _start_due(self) -> float | None:
        """Start every run that can start; returns seconds until the next look, None if only a change matters."""
        async with self._starting:
            while not self._closing:
                waits = self._queue_waits()
                for run, waits_for in waits.items():
                    self.board.change(run, waits_for=waits_for)
                if (id := next((run for run, waits_for in waits.items() if not waits_for), None)) is None:
                    break
                waiting = self._queue.get(id)
                assert waiting is not None
                try:
                    await self._begin(waiting)
                except RefusedError as error:
                    log.info("%s", error)
                    break
                except HwdError as error:
                    log.warning("run %s: cannot start, and stays in the queue: %s", id, error)
                    self.board.change(id, waits_for=(str(error),))
                    return AGAIN_S
        now_ns = self._clock.wall_ns()
        next_ns = self._queue.next_wall_ns(now_ns)
        waits_s = [] if next_ns is None else [min(LOOK_S, (next_ns - now_ns) / 1e9)]
        return min([*waits_s, *([SETTLED_LOOK_S] if self._from_before_start else [])], default=None)

    def _queue_waits(self) -> dict[str, tuple[str, ...]]:
        waits = self._queue.look(self._clock.wall_ns())
        return {
            run: waits_for or ((THE_LAB,) if run in self._from_before_start else ()) for run, waits_for in waits.items()
        }

    async def _take_up(self, queued: QueuedRun) -> None:
        """Queue a run of an earlier process of the daemon; one with an invalid playbook fails."""
        try:
            playbook = await self._reader.read(queued.playbook_text, file=queued.file, parameters=queued.parameters)
        except HwdError as error:
            why = why_failed(error)
            record = self._template.never_begun(queued, RunOutcome.FAILED, why)
            try:
                await self._records.runs.start(record)
            except HwdError as cause:
                log.error("run %s: stays in the queue of the records until the next start: %s", queued.id, cause)
            self._emit(RunEnded(run=queued.id, outcome=RunOutcome.FAILED, why=why, safe_state=record.safe_state))
            self.board.put(replace(status_of(record, None), fault_class=error.title))
            log.error("run %s: was in the queue, and cannot be run: %s", queued.id, why)
            return
        waiting = WaitingRun(queued=queued, runner=Runner(queued.id, playbook, self._access))
        self._queue.add(waiting)
        self._from_before_start.add(queued.id)
        self._ended[queued.id] = asyncio.Event()
        self.board.put(waiting.status(RunState.QUEUED))

    async def _take_out(self, waiting: WaitingRun, by: str) -> RunStatus:
        why = f"by {by}, before it began"
        record = self._template.never_begun(waiting.queued, RunOutcome.ABORTED, why)
        await self._records.runs.start(record)
        self._queue.remove(waiting.id)
        self._end(waiting, why, by=by, ended_wall_ns=record.ended_wall_ns)
        return self._lookup.status_on_board(waiting.id)

    # --- a run

    async def _begin(self, waiting: WaitingRun) -> RunStatus:
        self._check_open()
        runner = waiting.runner
        record = self._template.begun(waiting.queued, runner.playbook.parameters)
        await self._records.runs.start(record)
        self._queue.remove(runner.id)
        if self._closing:
            why = "the daemon ended before its first step"
            safe, ended_ns = SafeState.UNTOUCHED, self._clock.wall_ns()
            await self._records.runs.end(
                runner.id, outcome=RunOutcome.ABORTED, why=why, safe_state=safe, ended_wall_ns=ended_ns
            )
            self._end(waiting, why, by=DAEMON_END, ended_wall_ns=ended_ns)
            raise RefusedError(f"run {runner.id}: {why}; nothing was moved")
        self._emit(
            RunStarted(
                run=runner.id,
                playbook=runner.playbook.name,
                parameters=dict(runner.playbook.parameters),
                steps=runner.total_steps,
                virtual_time=self._template.virtual_time,
            )
        )
        self._ended.setdefault(runner.id, asyncio.Event())
        self.board.put(waiting.status(RunState.RUNNING, started_wall_ns=record.started_wall_ns))
        self._active[runner.id] = runner
        self._ledger.claim(
            Claim(
                id=runner.id,
                reason=Reason.RUN,
                owner=holder_of(runner.id),
                ports=runner.ports,
                run=runner.id,
                what=runner.playbook.name,
            )
        )
        self._tasks[runner.id] = asyncio.create_task(self._go(waiting), name=f"hwd:run/{runner.id}/main")
        return self._lookup.status_on_board(runner.id)

    async def _go(self, waiting: WaitingRun) -> None:
        runner = waiting.runner
        end = await execute(runner, self._recorder)
        del self._active[runner.id]
        self._ledger.release(Reason.RUN, runner.id)
        ended_ns = self._clock.wall_ns()
        status, aborted_by = self._lookup.status_on_board(runner.id), self._aborted_by.pop(runner.id, DAEMON_END)

        def last(end: RunEnd) -> tuple[Document, ...]:
            by = aborted_by if end.outcome is RunOutcome.ABORTED else None
            now = ended_status(status, end, by=by, ended_wall_ns=ended_ns)
            return self._document(ended_fact(runner.id, end)), self._document(now)

        ended, state = await record_end(runner.id, end, last, ended_wall_ns=ended_ns, recorder=self._recorder)
        assert isinstance(state.fact, RunStatus)
        self._announce(ended)
        self.board.put(state.fact, tell=lambda _: self._announce(state))
        self._changed.set()
        del self._tasks[runner.id]
        self._set_ended(runner.id)

    def _end(self, waiting: WaitingRun, why: str, *, by: str, ended_wall_ns: int | None) -> None:
        """End a run that never began."""
        safe = SafeState.UNTOUCHED
        self._emit(RunEnded(run=waiting.id, outcome=RunOutcome.ABORTED, why=why, safe_state=safe))
        self.board.put(waiting.status(RunState.ABORTED, why=why, by=by, safe_state=safe, ended_wall_ns=ended_wall_ns))
        self._changed.set()
        self._set_ended(waiting.id)

    def _set_ended(self, run: str) -> None:
        if (ended := self._ended.pop(run, None)) is not None:
            ended.set()

    # --- the rest

    def _take_release(self, claim: Claim) -> None:
        """A queued run may be able to start. After an active run it may when the end of that one is recorded."""
        if claim.reason is not Reason.RUN and PortAction.START in ROWS[claim.reason].bars:
            self._changed.set()

    def _left_of(self, claim: Claim) -> str:
        """How long a run still lasts, for others who want its ports."""
        runner = self._active.get(claim.id)
        left_s = None if runner is None else runner.progress["expected_s"]
        return f"about another {left_s:.0f} s" if left_s else "for how long is not known"

    def _run_of(self, reconfiguration: str) -> str | None:
        claim = self._ledger.get(Reason.RECONFIGURATION, reconfiguration)
        return None if claim is None else claim.run

    def _get_active(self, id: str) -> Runner:
        if id not in self._active:
            raise RefusedError(f"run {id}: is {self._lookup.status_on_board(id).state}, and does not go on")
        return self._active[id]

    def _paused_by(self, id: str) -> str | None:
        return self._active[id].paused_by if id in self._active else None

    def _check_open(self) -> None:
        if self._closing:
            raise RefusedError(ENDING)

    def _document(self, fact: Fact) -> Document:
        return Document(at_ns=self._clock.monotonic_ns(), wall_ns=self._clock.wall_ns(), fact=fact)


def _log_failure(task: asyncio.Task[RunStatus]) -> None:
    """What came of an abort whose caller was answered before."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s: %s", task.get_name(), error)
