"""The sink that records documents: buffers them and writes them in batches, without ever blocking the emitter."""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial

from hwd.model.host import HostEvent, HostLost
from hwd.model.plural import plural
from hwd.model.reconfiguration import EndFact, ReconfigurationEnded, ReconfigurationStarted
from hwd.model.recorded_run import Run, RunOutcome
from hwd.model.run_facts import RunEnded, RunStarted
from hwd.records.entry import Entry, entry
from hwd.records.finish import to_its_end
from hwd.records.records import Records
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import BugError, FailedError, HwdError

BUFFERED_MAX = 100_000
"""Documents buffered while the database cannot be written (about 50 MB); later ones are counted and dropped."""
BATCH = 1000
"""Documents in one transaction: some 10 ms of the disk's time."""
PAGE = 500
"""Documents read at once: some 5 ms of the loop's time to send them on."""
NEVER_DROPPED = (HostEvent, HostLost)
"""An agent deletes its events when they are acknowledged: the gateway acknowledges none while the sink is `full`, and
those it passed on are recorded.
"""
GATHER_S = 0.05
"""How long the first document of a batch waits for others."""
RETRY_S = 1.0
"""Between attempts while the database cannot be written."""
PATIENCE_S = 5.0
"""A locked database, or a full disk that somebody cleans up, may recover within this time; after it,
runs are failed.
"""

log = logging.getLogger(__name__)


class RecordingSink:
    """A `Sink`. A document belongs to the run that it names, else to the run of its reconfiguration, else to the only
    run under way.

    While several runs are under way, a document that names none of them belongs to none. `run()` writes. `flush()`
    returns when all earlier documents are on the disk, and raises the cause where they cannot be. Documents are only
    dropped beyond `buffered_max`, never events of an agent; a run that lost documents fails. `on_end` is called with
    each end of a reconfiguration that the database has committed; `on_refused` with the reason when documents cannot be
    written, and with None when they can again.
    """

    def __init__(
        self,
        records: Records,
        *,
        buffered_max: int = BUFFERED_MAX,
        on_end: Callable[[EndFact], None] = lambda fact: None,
        on_refused: Callable[[HwdError | None], None] = lambda failure: None,
    ) -> None:
        self._records = records
        self._on_end = on_end
        self._on_refused = on_refused
        self._buffered_max = buffered_max
        self._buffer: deque[Entry] = deque()
        self._runs: dict[str, None] = {}
        self._run_of: dict[str, str] = {}
        self._dropped: dict[str | None, int] = {}
        self._ends: dict[str, Callable[[], Awaitable[None]]] = {}
        """By run: the call that writes its end."""
        self._came = asyncio.Event()
        self._flushing = asyncio.Lock()
        self._failing_since_s: float | None = None
        self._failing = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._documents_failure: HwdError | None = None
        self._ends_failure: HwdError | None = None

    @property
    def failure(self) -> HwdError | None:
        """Why the last attempt to write failed, documents or the end of a run; None when it succeeded."""
        return self._documents_failure or self._ends_failure

    @property
    def dropped(self) -> int:
        """Documents lost since the start, because the buffer was full or their data were no JSON."""
        return sum(self._dropped.values())

    def full(self) -> bool:
        """Whether documents are dropped now, except those of `NEVER_DROPPED`: senders that can wait shall wait."""
        return len(self._buffer) >= self._buffered_max

    def __call__(self, document: Document) -> None:
        run = self._owner(document)
        if not isinstance(document.fact, NEVER_DROPPED) and self.full():
            self._drop(
                run, f"{plural(self._buffered_max, 'document')} wait for {self._records.name}, and it cannot be written"
            )
            return
        try:
            self._buffer.append(entry(document, run=run))
        except (TypeError, UnicodeEncodeError) as error:
            self._drop(run, f"document {document.kind} is not JSON: {error}")
        self._came.set()

    async def run(self) -> None:
        """Write until cancelled, then write the rest."""
        try:
            while True:
                await self._came.wait()
                self._came.clear()
                await asyncio.sleep(GATHER_S if self.failure is None else RETRY_S)
                await self._try_flush()
        finally:
            await self._try_flush()
            if self._buffer:
                log.error("%s: %d documents could not be written", self._records.name, len(self._buffer))
            if self._ends:
                log.error("%s: the ends of runs %s could not be written", self._records.name, ", ".join(self._ends))

    async def flush(self) -> None:
        """Raises FailedError where the disk is full, LinkError where the database cannot be reached.

        Dropped documents, and ends of runs that cannot be written, are reported by `end_run`.
        """
        async with self._flushing:  # what another caller is writing is on the disk then
            if self._buffer or self._ends:
                await to_its_end(self._write_all(), name="hwd:records/flush")

    async def why_not_on_disk(self, run: str) -> HwdError | None:
        """Why not all documents of a run are on the disk; None when they are."""
        try:
            await self.flush()
        except HwdError as error:
            return error
        dropped = self._dropped.get(run)
        return FailedError(f"run {run}: it has lost {plural(dropped, 'document')}; see the log") if dropped else None

    async def end_run(
        self, id: str, *, outcome: RunOutcome, why: str, ended_wall_ns: int, safe_state: str | None = None
    ) -> None:
        """End a run when all its documents are on the disk. A run that lost some is ended as failed, and the reason is
        raised.

        An end that cannot be written now is written when the database can be.
        """
        failure = await self.why_not_on_disk(id)
        if failure is not None and str(failure) not in why:
            outcome, why = RunOutcome.FAILED, f"{why}; {failure}" if why else str(failure)
        self._ends[id] = partial(
            self._records.runs.end, id, outcome=outcome, why=why, ended_wall_ns=ended_wall_ns, safe_state=safe_state
        )
        async with self._flushing:  # before documents take the room that is reserved for it
            failures = await self._write_ends()
        if (failure := failure or failures.get(id)) is not None:
            raise failure

    async def close_crashed(self, now_wall_ns: int) -> tuple[Run, ...]:
        """End every run that was under way when the daemon ended, at its next start, and return them so.

        What cannot be written now is written when the database can be.
        """
        crashed = await self._records.runs.crashed(now_wall_ns)
        for run in crashed:
            assert run.outcome is not None
            assert run.ended_wall_ns is not None
            end = partial(self._records.runs.end, outcome=run.outcome, why=run.why, ended_wall_ns=run.ended_wall_ns)
            self._ends[run.id] = partial(end, run.id, safe_state=run.safe_state)
        async with self._flushing:
            await self._write_ends()
        return crashed

    async def documents(self, run: str) -> AsyncGenerator[Document, None]:
        """All documents of a run, oldest first, read page by page; while the database cannot be written, with those
        that wait for it.
        """
        if (failure := await self.why_not_on_disk(run)) is not None:
            log.debug("run %s: read while not all of it is held: %s", run, failure)
        after, more = 0, True
        waiting: list[Entry] = []
        while more:
            page = await self._records.documents(run=run, after=after, limit=PAGE)
            if len(page) < PAGE:
                async with (
                    self._flushing
                ):  # a document written meanwhile is in the last page or in the buffer, not in both
                    page = await self._records.documents(run=run, after=after, limit=PAGE)
                    waiting = [one for one in self._buffer if one.run == run]
            for stored in page:
                yield stored.document
            more = len(page) == PAGE
            after = page[-1].id if page else after
        for start in range(0, len(waiting), PAGE):
            await asyncio.sleep(0)  # other tasks run between two pages
            for one in waiting[start : start + PAGE]:
                yield one.document()

    async def lasting_failure(self) -> HwdError:
        """Returns when documents could not be written for `PATIENCE_S`, with the reason."""
        while True:
            await self._failing.wait()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._writable.wait()
            except TimeoutError:
                if self._documents_failure is not None:
                    return self._documents_failure

    def _owner(self, document: Document) -> str | None:
        match document.fact:
            case RunStarted(run=run):
                self._runs[run] = None
            case RunEnded(run=run):
                self._runs.pop(run, None)
            case ReconfigurationStarted(reconfiguration=reconfiguration, run=str(run)):
                self._run_of[reconfiguration] = run
            case ReconfigurationEnded(reconfiguration=reconfiguration, run=str()):
                self._run_of.pop(reconfiguration, None)
        named: str | None = getattr(document.fact, "run", None)  # facts of many kinds name a run, or a reconfiguration
        if named is not None:
            return named
        of_reconfiguration = self._run_of.get(getattr(document.fact, "reconfiguration", ""))
        if of_reconfiguration is not None:
            return of_reconfiguration
        return next(iter(self._runs)) if len(self._runs) == 1 else None

    def _drop(self, run: str | None, why: str) -> None:
        if run not in self._dropped:
            log.error("documents of %s are lost: %s", "no run" if run is None else f"run {run}", why)
        self._dropped[run] = self._dropped.get(run, 0) + 1

    async def _try_flush(self) -> None:
        try:
            await self.flush()
        except HwdError:
            self._came.set()  # `failure` has it and it is logged; try again

    async def _write_all(self) -> None:
        while self._buffer:
            batch = list(itertools.islice(self._buffer, BATCH))
            try:
                await self._records.add(batch)
            except HwdError as error:
                self._failed(error)
                raise
            for _ in batch:
                self._buffer.popleft()
            for one in batch:
                if one.end is not None:
                    self._on_end(one.end)
            self._worked()
        if self._ends:
            await self._write_ends()

    async def _write_ends(self) -> Mapping[str, HwdError]:
        """Write each separately: one that cannot be written now delays no other, and is tried again. Returns the
        reasons, by run.
        """
        failures: dict[str, HwdError] = {}
        for id, write_end in list(self._ends.items()):
            try:
                await write_end()
            except HwdError as error:
                failures[id] = error
                if not isinstance(error, BugError):
                    continue
                log.error("%s", error)  # a later attempt would fail too
            del self._ends[id]
        waits = next((failures[id] for id in self._ends if id in failures), None)
        if waits is not None:
            self._came.set()
            if self._ends_failure is None:
                log.warning("%s. %d ends of runs wait", waits, len(self._ends))
        elif self._ends_failure is not None:
            log.info("%s: the ends of all runs are written", self._records.name)
        self._ends_failure = waits
        return failures

    def _failed(self, error: HwdError) -> None:
        self._failing.set()
        self._writable.clear()
        if self._documents_failure is None:
            self._failing_since_s = asyncio.get_running_loop().time()
            log.warning("%s. %d documents wait", error, len(self._buffer))
            self._documents_failure = error
            self._on_refused(error)
        self._documents_failure = error

    def _worked(self) -> None:
        if self._failing_since_s is not None:
            seconds = asyncio.get_running_loop().time() - self._failing_since_s
            log.info("%s: can be written again after %.1f s", self._records.name, seconds)
            self._on_refused(None)
        self._documents_failure, self._failing_since_s = None, None
        self._failing.clear()
        self._writable.set()
