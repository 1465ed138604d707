"""RunCalls: runs of playbooks, under way, in the queue and in the records."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Final

from fastapi import Query
from msgspec.structs import replace
from starlette.responses import Response, StreamingResponse

from hwd.jobs.jobs import Jobs
from hwd.model.bodies import ActBody, ByBody, RunBody
from hwd.model.document_list import DocumentJson
from hwd.model.recorded_run import Run, RunSummary
from hwd.model.request import Caller
from hwd.model.run import AbortedRun, AcceptedRun, RunState, RunStatus
from hwd.playbook.runs import Runs
from hwd.records.recorder import RecordingSink
from hwd.records.records import Records
from hwd.web.calls.call import Call, Calls, name_of
from hwd.web.stream import EventStream
from hwd_agents.wire.access import ANYONE, OPERATOR
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import RefusedError, UnknownError

RUNS_MAX: Final = 500
"""Runs in one answer: some 5 ms of the loop's time."""
PIECE: Final = 100
"""Documents in one piece of an answer: some 1 ms of the loop's time."""


class RunCalls:
    """The calls about runs: see `Runs`."""

    def __init__(
        self, runs: Runs, *, jobs: Jobs, records: Records, recorder: RecordingSink, events: EventStream
    ) -> None:
        self._runs = runs
        self._jobs = jobs
        self._records = records
        self._recorder = recorder
        self._events = events

    async def runs(
        self,
        *,
        limit: Annotated[int, Query(ge=1, le=RUNS_MAX)] = RUNS_MAX,
        before: Annotated[str | None, Query(description="the id of a run: only those that began before it")] = None,
    ) -> list[RunSummary]:
        """Runs of the records, newest first, each with its `state`, without the texts and inventory of `/runs/{id}`."""
        found = await self._records.runs.newest(limit=limit, before=before)
        return [replace(run, state=self._state(run)) for run in found]

    async def start(self, body: RunBody) -> AcceptedRun:
        """Start a playbook, or queue it until its due time and until the runs before it leave it its ports.

        `after` is an event id: the event stream from there on has all of this run.
        """
        after = self._events.last_id
        status = await self._runs.start(
            text=body.text,
            file=body.file,
            parameters=body.parameters,
            due_wall_ns=body.due_wall_ns,
            trial=body.trial,
        )
        return AcceptedRun.of(status, after=after)

    async def wait(self, id: str) -> None:
        """Wait until a run has ended."""
        await self._runs.wait(id)

    def queue(self) -> list[RunStatus]:
        """States of the runs that wait, in the order in which they start."""
        return [*self._runs.queue]

    async def run(self, id: str) -> Run:
        """One run that began, by its id or the beginning of it."""
        run = await self._recorded(id)
        return replace(run, state=self._state(run))

    async def state(self, id: str) -> RunStatus:
        """The state of a run: queued, running (step and stage), paused, or its end.

        Also on the bus and in the events.
        """
        return await self._runs.state(id)

    async def documents(self, id: str) -> Response:
        """Everything that happened in a run, oldest first."""
        return StreamingResponse(array(await self.recorded(id)), media_type="application/json")

    async def recorded(self, id: str) -> AsyncIterator[dict[str, Json]]:
        """All documents of a run, oldest first; also those that still wait for the records."""
        run = await self._recorded(id)
        return (document.to_data() async for document in self._recorder.documents(run.id))

    def pause(self, id: str, body: ByBody, caller: Caller | None = None) -> RunStatus:
        """Pause before the next step, with all leases. Answers at once; the state is `paused` when it is reached."""
        return self._runs.pause(id, by=name_of(caller, body.by))

    def resume(self, id: str, body: ByBody, caller: Caller | None = None) -> RunStatus:
        """Resume a paused run."""
        return self._runs.resume(id, by=name_of(caller, body.by))

    async def abort(self, id: str, body: ActBody, caller: Caller | None = None) -> AbortedRun:
        """End a run in its safe state, within 5 s; answers after that. A queued run is taken out of the queue."""
        if any(job.id == id for job in self._jobs.under_way()):
            raise RefusedError(f"run {id}: it is a job, and no run. `hwd job stop {id}` ends it")
        by = name_of(caller, body.by)
        end = await self._runs.abort(id, by=f'{by} ("{body.why}")' if body.why else by)
        return AbortedRun(run=end.run, outcome=end.state, why=end.why, safe_state=end.safe_state)

    def _state(self, run: RunSummary) -> RunState:
        if (status := self._runs.board.get(run.id)) is not None:
            return status.state
        return RunState.RUNNING if run.outcome is None else RunState(run.outcome)

    async def _recorded(self, id: str) -> Run:
        try:
            return await self._records.runs.get(id)
        except UnknownError:
            if id and any(status.run.startswith(id) for status in self._runs.queue):
                raise UnknownError(
                    f"run {id}: is in the queue, and nothing is recorded of it. See `hwd queue`"
                ) from None
            raise


async def array(items: AsyncIterator[Json]) -> AsyncGenerator[str, None]:
    """One JSON array in pieces, so that neither the loop waits for all of it nor a client longer than for a piece."""
    piece: list[str] = []
    before = "["
    async for item in items:
        piece.append(json.dumps(item, separators=(",", ":")))
        if len(piece) == PIECE:
            yield before + ",".join(piece)
            piece, before = [], ","
    yield (before + ",".join(piece) if piece or before == "[" else "") + "]"


RUNS: Final = Calls(
    part="runs",
    tag="runs",
    rows=(
        Call(method="GET", path="/runs", handler=RunCalls.runs, access=ANYONE),
        Call(method="POST", path="/runs", handler=RunCalls.start, access=OPERATOR, status=201),
        Call(method="GET", path="/queue", handler=RunCalls.queue, access=ANYONE),
        Call(method="GET", path="/runs/{id}", handler=RunCalls.run, access=ANYONE),
        Call(method="GET", path="/runs/{id}/state", handler=RunCalls.state, access=ANYONE),
        Call(
            method="GET",
            path="/runs/{id}/documents",
            handler=RunCalls.documents,
            access=ANYONE,
            answer=list[DocumentJson],
        ),
        Call(method="POST", path="/runs/{id}/pause", handler=RunCalls.pause, access=OPERATOR),
        Call(method="POST", path="/runs/{id}/resume", handler=RunCalls.resume, access=OPERATOR),
        Call(method="POST", path="/runs/{id}/abort", handler=RunCalls.abort, access=OPERATOR),
    ),
)
