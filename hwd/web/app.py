"""The HTTP API: a `Service` behind paths. Reads and writes JSON; errors are problem documents.

app = make_app(service, metrics=metrics.render, events=EventStream(hub, boot=...), tokens=..., session=...)
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from msgspec.structs import asdict
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hwd.jobs.programs import ProgramRun
from hwd.model import bodies
from hwd.model.daemon import JournalGivenUp
from hwd.model.demand import FILE_BYTES_MAX
from hwd.model.document_list import DocumentJson, DocumentList
from hwd.model.fault_confirmation import FaultConfirmation
from hwd.model.host import HostStatus
from hwd.model.job_status import JobDemand, JobEfficiency, JobOutput, JobStatus, JobTraining, JobVerification
from hwd.model.lease import HeldLease
from hwd.model.limit import Reached
from hwd.model.plan_summary import PlanSummary
from hwd.model.prepared_set import PreparedSetStatus
from hwd.model.program import ProgramStatus
from hwd.model.reconfiguration import HistoryEntry, ReconfigurationStatus
from hwd.model.recorded_run import Run, RunSummary
from hwd.model.reload import ReloadReport
from hwd.model.run import AbortedRun, AcceptedRun, RunStatus
from hwd.model.status import Liveness, Problem, Readiness, Status
from hwd.model.switch import HeldEnds, SwitchStatus
from hwd.telemetry import Exposition
from hwd.web.access import CALLS
from hwd.web.bodies import JSON, Api, body_of, content_of, decode, described, encoded, object_body
from hwd.web.bounds import Bounds
from hwd.web.demand_calls import PATH as DEMANDS
from hwd.web.demand_calls import demands_router
from hwd.web.door import Door, caller_of
from hwd.web.problem import MEDIA_TYPE, on_bug, on_http_exception, on_hwd_error, on_invalid_request
from hwd.web.service import Service
from hwd.web.stream import EventStream
from hwd.web.turns import to_json_in_turns
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import BugError, HwdError
from hwd_drivers.core.structs import to_json

PROBLEMS: dict[int | str, dict[str, Any]] = {
    "default": {"description": "A problem document (RFC 9457)", "content": content_of(Problem, MEDIA_TYPE)}
}
"""What any call may answer with, for the OpenAPI document."""

API: Final = "/api/v1"
Data = dict[str, Any]
"""One JSON object with any fields: the body of a fault."""
RUNS_MAX = 500
"""Runs in one answer: some 5 ms of the loop's time."""
HISTORY_MAX = 500
"""Reconfigurations in one answer."""
PIECE = 100
"""Documents in one piece of an answer: some 1 ms of the loop's time."""


def make_app(
    service: Service,
    *,
    metrics: Callable[[str], Exposition],
    events: EventStream,
    version: str,
    tokens: frozenset[str] = frozenset(),
    names: Mapping[str, str] = MappingProxyType({}),
    session: str = "",
    local: bool = True,
    reached: Reached = lambda limit, detail: None,
) -> FastAPI:
    """The ASGI application.

    Without `tokens` it refuses every request; `names`, `session` and `local` are those of the `Door`.
    """
    if tokens and not session:
        raise BugError("an app with tokens needs a session, which browsers get for one of them")
    app = Api(
        title="hwd",
        version=version,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        description="Runs a rack of hosts and optical circuit switches. Errors are problem documents (RFC 9457).",
    )
    app.add_exception_handler(HwdError, on_hwd_error)
    app.add_exception_handler(RequestValidationError, on_invalid_request)
    app.add_exception_handler(HTTPException, on_http_exception)
    app.add_exception_handler(Exception, on_bug)
    app.add_middleware(Bounds, reached=reached, files={f"{API}{DEMANDS}": FILE_BYTES_MAX})
    app.add_middleware(Door, tokens=tokens, names=names, session=session, local=local)  # the first that a request meets
    routers = (
        _looks(service),
        _testbed(service),
        _reconfigurations(service),
        _sets(service),
        _runs(service, events),
        _leases(service),
        _overrides(service),
        _faults(service),
        _programs(service),
        _jobs(service),
        demands_router(service),
        _events(events),
    )
    probes = (_probes(service), metrics_router(metrics))
    for router in routers:
        _check_access(API, router)
        app.include_router(router, prefix=API, responses=PROBLEMS)
    for router in probes:
        _check_access("", router)
        app.include_router(router)
    return app


def _check_access(prefix: str, router: APIRouter) -> None:
    """Raises BugError for a route of which nobody has said who may call it."""
    routes = [route for route in router.routes if isinstance(route, Route)]
    calls = {f"{method} {prefix}{one.path}" for one in routes for method in one.methods or ()}
    if missing := sorted(calls - CALLS.keys()):
        raise BugError(f"{', '.join(missing)}: nobody has said who may call it. Add a row to hwd/web/access.py")


def _looks(service: Service) -> APIRouter:
    router = APIRouter(tags=["what is"])

    @router.get("/status", openapi_extra=described(answer=Status))
    async def status() -> Response:
        """Everything of one screen: bus, switches, hosts, leases, reconfigurations and runs under way."""
        return Response(await to_json_in_turns(await service.status()), media_type=JSON)

    @router.get("/switches", openapi_extra=described(answer=list[SwitchStatus]))
    async def switches() -> Response:
        """Switches, what they report, and their power readings."""
        return encoded(await service.switches())

    @router.get("/hosts", openapi_extra=described(answer=list[HostStatus]))
    async def hosts() -> Response:
        """Hosts, their agents and the alignment of their clocks."""
        return encoded(await service.hosts())

    return router


def _testbed(service: Service) -> APIRouter:
    router = APIRouter(tags=["testbed"])

    @router.post("/reload", openapi_extra=described(bodies.ReloadBody, needed=False, answer=ReloadReport))
    async def reload(
        request: Request, body: Annotated[bodies.ReloadBody, body_of(bodies.ReloadBody, needed=False)]
    ) -> Response:
        """Take the changed testbed file, whole or not at all; with `dry_run` only say what it would change.

        Answers after those who hold what changes are done. It goes on when the caller goes away.
        """
        return encoded(await service.reload(body, caller_of(request)))

    return router


def _reconfigurations(service: Service) -> APIRouter:
    router = APIRouter(tags=["reconfigurations"])

    @router.get("/reconfigurations", openapi_extra=described(answer=list[ReconfigurationStatus]))
    async def under_way() -> Response:
        """Reconfigurations that have not ended."""
        return encoded(service.reconfigurations())

    @router.get("/history", openapi_extra=described(answer=list[HistoryEntry]))
    async def history(
        limit: Annotated[int, Query(ge=1, le=HISTORY_MAX)] = 50,
        switch: Annotated[str | None, Query(description="only those that moved this switch")] = None,
        port: Annotated[str | None, Query(description="only those of this port: `ocs1.3`, `h0.eth0`")] = None,
        before: Annotated[str | None, Query(description="an id: only those that began before that one")] = None,
    ) -> Response:
        """Reconfigurations of the records, newest first: who applied what, when, with what outcome."""
        return encoded(await service.history(limit=limit, switch=switch, port=port, before=before))

    @router.post("/plans", openapi_extra=described(bodies.PlanBody, answer=PlanSummary))
    async def plan(body: Annotated[bodies.PlanBody, body_of(bodies.PlanBody)]) -> Response:
        """Read the switches and say what would move. Touches nothing; the plan's `hash` can be applied."""
        return encoded(await service.plan(body))

    @router.post("/reconfigurations", openapi_extra=described(bodies.ReconfigurationBody, answer=ReconfigurationStatus))
    async def apply(
        request: Request, body: Annotated[bodies.ReconfigurationBody, body_of(bodies.ReconfigurationBody)]
    ) -> Response:
        """Plan, drive, read back, wait for ready links where asked; answers after that, with the plan.

        It goes on when the caller goes away.
        """
        return encoded(await service.apply(body, caller_of(request)))

    @router.post("/reconfigurations/{id}/confirm", openapi_extra=described(answer=ReconfigurationStatus))
    async def confirm(id: str) -> Response:
        """Confirm a reconfiguration: the new state stays. `-` is the only one under way."""
        return encoded(await service.confirm(_named(id)))

    @router.post("/reconfigurations/{id}/rollback", openapi_extra=described(answer=ReconfigurationStatus))
    async def roll_back(id: str) -> Response:
        """Roll a reconfiguration back to the state before it. `-` is the only one under way."""
        return encoded(await service.roll_back(_named(id)))

    @router.post("/reconfigurations/{id}/give-up", openapi_extra=described(bodies.ActBody, answer=JournalGivenUp))
    async def give_up(id: str, request: Request, body: Annotated[bodies.ActBody, body_of(bodies.ActBody)]) -> Response:
        """Leave one that was cut off as it is, and free its ports."""
        return encoded(await service.give_up(id, by=_name(request, body), why=body.why))

    return router


def _sets(service: Service) -> APIRouter:
    router = APIRouter(tags=["prepared sets"])

    @router.get("/sets", openapi_extra=described(answer=list[PreparedSetStatus]))
    async def sets() -> Response:
        """Prepared sets that have not ended, each with the target that its switches have."""
        return encoded(service.sets())

    @router.post(
        "/sets", status_code=201, openapi_extra=described(bodies.PrepareBody, answer=PreparedSetStatus, status=201)
    )
    async def prepare(request: Request, body: Annotated[bodies.PrepareBody, body_of(bodies.PrepareBody)]) -> Response:
        """Route and check targets, hold their ports under a lease, and journal them. No switch moves.

        A lease that ends ends its sets.
        """
        return encoded(await service.prepare(body, caller_of(request)), 201)

    @router.post("/sets/{id}/switch", openapi_extra=described(bodies.SwitchBody, answer=ReconfigurationStatus))
    async def switch(
        id: str, request: Request, body: Annotated[bodies.SwitchBody, body_of(bodies.SwitchBody)]
    ) -> Response:
        """Bring a set to a target: driven at once, without a plan; answers when it is read back and confirmed.

        Every set has the target `before`: what its switches carried at the preparation. A set of a job: only with
        `override`; the job brings its light back, or fails.
        """
        status = await service.switch(
            id,
            body.target,
            id=body.id,
            epoch=body.epoch,
            by=body.by,
            caller=caller_of(request),
            override=body.override,
        )
        return encoded(status)

    @router.post(
        "/sets/{id}/release", openapi_extra=described(bodies.ReleaseSetBody, needed=False, answer=PreparedSetStatus)
    )
    async def release(
        id: str,
        request: Request,
        body: Annotated[bodies.ReleaseSetBody, body_of(bodies.ReleaseSetBody, needed=False)],
    ) -> Response:
        """End a set: its ports are free, its switches stay as they are. A set of a job: only with `override`."""
        ended = await service.release_set(
            id, epoch=body.epoch, override=body.override, by=body.by, caller=caller_of(request)
        )
        return encoded(ended)

    return router


def _runs(service: Service, events: EventStream) -> APIRouter:
    router = APIRouter(tags=["runs"])

    @router.get("/runs", openapi_extra=described(answer=list[RunSummary]))
    async def runs(
        limit: Annotated[int, Query(ge=1, le=RUNS_MAX)] = RUNS_MAX,
        before: Annotated[str | None, Query(description="the id of a run: only those that began before it")] = None,
    ) -> Response:
        """Runs of the records, newest first, each with its `state`, without the texts and inventory of `/runs/{id}`."""
        return encoded(await service.runs(limit=limit, before=before))

    @router.post("/runs", status_code=201, openapi_extra=described(bodies.RunBody, answer=AcceptedRun, status=201))
    async def start(body: Annotated[bodies.RunBody, body_of(bodies.RunBody)]) -> Response:
        """Start a playbook, or queue it until its due time and until the runs before it leave it its ports.

        `after` is an event id: the event stream from there on has all of this run.
        """
        after = events.last_id
        status = await service.start_run(
            text=body.text,
            file=body.file,
            parameters=body.parameters,
            due_wall_ns=body.due_wall_ns,
            trial=body.trial,
        )
        return encoded(AcceptedRun.of(status, after=after), 201)

    @router.get("/queue", openapi_extra=described(answer=list[RunStatus]))
    async def queue() -> Response:
        """States of the runs that wait, in the order in which they start."""
        return encoded(service.queue())

    @router.get("/runs/{id}", openapi_extra=described(answer=Run))
    async def run(id: str) -> Response:
        """One run that began, by its id or the beginning of it."""
        return encoded(await service.run(id))

    @router.get("/runs/{id}/state", openapi_extra=described(answer=RunStatus))
    async def state(id: str) -> Response:
        """The state of a run: queued, running (step and stage), paused, or its end.

        Also on the bus and in the events.
        """
        return encoded(await service.run_state(id))

    @router.get("/runs/{id}/documents", openapi_extra=described(answer=list[DocumentJson]))
    async def documents(id: str) -> Response:
        """Everything that happened in a run, oldest first."""
        return StreamingResponse(array(await service.run_documents(id)), media_type="application/json")

    @router.post("/runs/{id}/pause", openapi_extra=described(bodies.ByBody, answer=RunStatus))
    async def pause(id: str, request: Request, body: Annotated[bodies.ByBody, body_of(bodies.ByBody)]) -> Response:
        """Pause before the next step, with all leases. Answers at once; the state is `paused` when it is reached."""
        return encoded(service.pause_run(id, by=_name(request, body)))

    @router.post("/runs/{id}/resume", openapi_extra=described(bodies.ByBody, answer=RunStatus))
    async def resume(id: str, request: Request, body: Annotated[bodies.ByBody, body_of(bodies.ByBody)]) -> Response:
        """Resume a paused run."""
        return encoded(service.resume_run(id, by=_name(request, body)))

    @router.post("/runs/{id}/abort", openapi_extra=described(bodies.ActBody, answer=AbortedRun))
    async def abort(id: str, request: Request, body: Annotated[bodies.ActBody, body_of(bodies.ActBody)]) -> Response:
        """End a run in its safe state, within 5 s; answers after that. A queued run is taken out of the queue."""
        return encoded(await service.abort_run(id, by=_name(request, body), why=body.why))

    return router


def _faults(service: Service) -> APIRouter:
    router = APIRouter(tags=["faults"])

    @router.post("/faults", openapi_extra=described(bodies.FaultBody, answer=FaultConfirmation))
    async def fault(body: Annotated[Data, Depends(object_body)]) -> Response:
        """Set a fault of a twin: `{"switch": "ocs1", "fault": "slow", "seconds": 0.5}`; `{"fault": "clear"}` ends all.

        Refused for a subject that is no twin, and for ports that others lease.
        """
        under = decode({name: body.pop(name, None) for name in ("lease", "epoch")}, bodies.FaultBody)
        return encoded(await service.fault(body, lease=under.lease, epoch=under.epoch))

    return router


def _programs(service: Service) -> APIRouter:
    router = APIRouter(tags=["programs on hosts"])

    @router.get("/programs", openapi_extra=described(answer=list[ProgramStatus]))
    async def programs() -> Response:
        """Programs that run on hosts now."""
        return encoded(service.programs())

    @router.post("/hosts/{host}/programs", openapi_extra=described(bodies.ProgramBody), response_class=ProgramResponse)
    async def start(
        host: str, request: Request, body: Annotated[bodies.ProgramBody, body_of(bodies.ProgramBody)]
    ) -> Response:
        """Start a program of the testbed file on a host: JSON lines of what it says, until it has ended.

        A first one `{"is": "started"}`, then `{"is": "output"}`, at last `{"is": "end"}`; an empty line after 10 s of
        silence. It is ended when its caller goes away.
        """
        return ProgramResponse(await service.start_program(host, body, caller_of(request)))

    @router.post("/programs/{id}/signal", openapi_extra=described(bodies.SignalBody, answer=ProgramStatus))
    async def send_signal(id: str, body: Annotated[bodies.SignalBody, body_of(bodies.SignalBody)]) -> Response:
        """Send a signal to a program and its process group."""
        return encoded(await service.signal_program(id, body))

    return router


def _jobs(service: Service) -> APIRouter:
    router = APIRouter(tags=["jobs"])

    @router.get("/jobs", openapi_extra=described(answer=list[JobStatus]))
    async def jobs() -> Response:
        """The newest jobs, newest first, also those that have ended."""
        return encoded(await service.jobs())

    @router.post("/jobs", openapi_extra=described(bodies.JobBody, answer=JobStatus))
    async def start(request: Request, body: Annotated[bodies.JobBody, body_of(bodies.JobBody)]) -> Response:
        """Start a job of the testbed file. It goes on when its caller goes away."""
        return encoded(await service.start_job(body, caller_of(request)))

    @router.get("/jobs/{id}", openapi_extra=described(answer=JobStatus))
    async def job(id: str) -> Response:
        """One job, under way or ended."""
        return encoded(await service.job(id))

    @router.get("/jobs/{id}/verification", openapi_extra=described(answer=list[JobVerification]))
    async def verification(id: str) -> Response:
        """Whether a job, or all jobs of a run, kept their promises, from the records: one for each job."""
        return encoded(await service.verify_job(id))

    @router.get("/jobs/{id}/efficiency", openapi_extra=described(answer=list[JobEfficiency]))
    async def efficiency(id: str) -> Response:
        """How much of the capacity of its network became data that its ranks go on with, of a job or all of a run."""
        return encoded(await service.job_efficiency(id))

    @router.get("/jobs/{id}/training", openapi_extra=described(answer=list[JobTraining]))
    async def training(id: str) -> Response:
        """The iterations of a job, or of all jobs of a run, the moves of its light, and what waited for them."""
        return encoded(await service.job_training(id))

    @router.get("/jobs/{id}/demand", openapi_extra=described(answer=list[JobDemand]))
    async def demand(
        id: str,
        iteration: Annotated[int | None, Query(ge=0, le=bodies.WHOLE_MAX, description="only those of this one")] = None,
        layer: Annotated[int | None, Query(ge=0, le=bodies.WHOLE_MAX, description="only those of this one")] = None,
    ) -> Response:
        """What the hosts of a job, or of all jobs of a run, had for each other in its all-to-alls."""
        return encoded(await service.job_demand(id, iteration=iteration, layer=layer))

    @router.post("/jobs/{id}/stop", openapi_extra=described(bodies.ActBody, answer=JobStatus))
    async def stop(id: str, request: Request, body: Annotated[bodies.ActBody, body_of(bodies.ActBody)]) -> Response:
        """Let a job end: its ranks are ended, and it gives back what it holds, within half a minute."""
        return encoded(service.stop_job(id, body, caller_of(request)))

    @router.get("/jobs/{id}/ranks/{rank}/output", openapi_extra=described(answer=JobOutput))
    async def output(id: str, rank: int, first: Annotated[int, Query(ge=0, le=bodies.WHOLE_MAX)] = 0) -> Response:
        """What a rank has written, from byte `first` on, at most 1 MiB."""
        return encoded(await service.job_output(id, rank, first))

    return router


def _leases(service: Service) -> APIRouter:
    router = APIRouter(tags=["leases"])

    @router.get("/leases", openapi_extra=described(answer=list[HeldLease]))
    async def leases() -> Response:
        """Leases in force."""
        return encoded(service.leases())

    @router.get("/leases/requests", openapi_extra=described(answer=list[HeldLease]))
    async def requests() -> Response:
        """Leases that are not granted yet: the queue in the order of turns, then reservations by their times."""
        return encoded(service.lease_requests())

    @router.post("/leases", status_code=201, openapi_extra=described(bodies.LeaseBody, answer=HeldLease, status=201))
    async def take(body: Annotated[bodies.LeaseBody, body_of(bodies.LeaseBody)]) -> Response:
        """Claim ports (`ocs1.3`, `h0.eth0`, or `all`) for some seconds, wait for them in the queue, or reserve them.

        `kind` says which: `claim`, `waiting` or `reserved`. All three keep the id that they get here.
        """
        return encoded(await service.take_lease(**asdict(body)), 201)

    @router.post("/leases/{id}/heartbeat", openapi_extra=described(bodies.EpochBody, needed=False, answer=HeldLease))
    async def heartbeat(
        id: str, body: Annotated[bodies.EpochBody, body_of(bodies.EpochBody, needed=False)]
    ) -> Response:
        """A sign of a holder, who claims a lease by it, or of a client that waits: it answers what became of it."""
        return encoded(await service.beat_lease(id, epoch=body.epoch))

    @router.post("/leases/{id}/renew", openapi_extra=described(bodies.RenewBody, answer=HeldLease))
    async def renew(id: str, body: Annotated[bodies.RenewBody, body_of(bodies.RenewBody)]) -> Response:
        """Renew a lease: it expires `for_s` seconds from now."""
        return encoded(await service.renew_lease(id, for_s=body.for_s, epoch=body.epoch))

    @router.post("/leases/{id}/release", openapi_extra=described(bodies.EpochBody, needed=False, answer=HeldLease))
    async def release(id: str, body: Annotated[bodies.EpochBody, body_of(bodies.EpochBody, needed=False)]) -> Response:
        """Release a lease, leave the queue, or withdraw a reservation."""
        return encoded(await service.release_lease(id, epoch=body.epoch))

    @router.post("/leases/{id}/kick", openapi_extra=described(bodies.KickBody, needed=False, answer=HeldLease))
    async def kick(
        id: str, request: Request, body: Annotated[bodies.KickBody, body_of(bodies.KickBody, needed=False)]
    ) -> Response:
        """Take a lease from its holder, who reads at the next act by whom and why.

        A delegated switch, by its name: its host may not set it until the next grant.
        """
        return encoded(await service.release_lease(id, kick=True, by=_name(request, body), why=body.why))

    @router.post("/leases/{id}/grant", openapi_extra=described(bodies.ByBody, answer=HeldLease))
    async def grant(id: str, request: Request, body: Annotated[bodies.ByBody, body_of(bodies.ByBody)]) -> Response:
        """Give a switch whose delegated lease was taken back to its host again, under the next epoch."""
        return encoded(await service.grant_lease(id, by=_name(request, body)))

    return router


def _overrides(service: Service) -> APIRouter:
    router = APIRouter(tags=["overrides"])

    @router.post("/overrides", openapi_extra=described(bodies.OverrideBody, answer=HeldEnds))
    async def override(
        request: Request, body: Annotated[bodies.OverrideBody, body_of(bodies.OverrideBody)]
    ) -> Response:
        """Hold fibre ends dark (`force-blocked`), or release them (`normal`).

        Answers when the switch reports it.
        """
        by = f"{_name(request, body)}: {body.why}" if body.why else _name(request, body)
        held = await service.override(body.switch, body.ends, body.to, lease=body.lease, epoch=body.epoch, by=by)
        return encoded(held)

    return router


def _events(events: EventStream) -> APIRouter:
    router = APIRouter(tags=["events"])

    @router.get("/events", response_class=EventResponse)
    async def follow(
        last_event_id: Annotated[str | None, Header()] = None,
        after: Annotated[str | None, Query(description="the same as Last-Event-ID, for whom a header is hard")] = None,
        kind: Annotated[list[str] | None, Query(description="only these; `run.` is all that begin so")] = None,
    ) -> Response:
        """Documents as server-sent events, from now on or from after an id."""
        start = events.after(last_event_id or after)
        return EventResponse(events.follow(start, tuple(kind or ())))

    @router.get("/documents", openapi_extra=described(answer=DocumentList))
    async def documents(
        after: Annotated[str | None, Query(description="an event id; without one, only `last` is told")] = None,
        kind: Annotated[list[str] | None, Query(description="only these; `run.` is all that begin so")] = None,
    ) -> Response:
        """What the event stream keeps, at once. `last` is the id to go on after."""
        return encoded(events.snapshot(events.after(after), tuple(kind or ())))

    return router


def _probes(service: Service) -> APIRouter:
    router = APIRouter(tags=["probes"])

    @router.get("/", include_in_schema=False)
    async def start() -> Response:
        """Redirect a browser to the status."""
        return RedirectResponse("/api/v1/status")

    @router.get("/healthz", openapi_extra=described(answer=Liveness))
    async def healthz() -> Response:
        """200 where the process runs and its event loop answers."""
        return encoded(Liveness(alive=True))

    @router.get("/readyz", openapi_extra=described(answer=Readiness))
    async def readyz() -> Response:
        """200 when every switch answers and the broker is connected; 503 with `why` when not."""
        found = service.ready()
        return encoded(found, 200 if found.ready else 503)

    return router


def metrics_router(metrics: Callable[[str], Exposition]) -> APIRouter:
    """Alone: the bench measures for how long it keeps the loop from others."""
    router = APIRouter(tags=["probes"])

    @router.get("/metrics", response_class=StreamingResponse)
    async def render(accept: Annotated[str, Header()] = "") -> Response:
        """For Prometheus: the text format, or OpenMetrics with exemplars where `Accept` asks for it."""
        exposition = metrics(accept)
        return StreamingResponse(exposition, headers={"Content-Type": exposition.content_type})

    return router


class EventResponse(StreamingResponse):
    """Closes its stream when the listener disconnects, not when the garbage collector runs."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None], status_code: int = 200) -> None:
        super().__init__(events, status_code, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._events):
            await super().__call__(scope, receive, send)


class ProgramResponse(StreamingResponse):
    """What a program says, one JSON document a line; the program is ended when the caller disconnects."""

    media_type = "application/jsonl"

    def __init__(self, run: ProgramRun, status_code: int = 200) -> None:
        super().__init__(_lines(run), status_code, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._run = run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await asyncio.shield(self._run.close())


async def _lines(run: ProgramRun) -> AsyncGenerator[bytes, None]:
    async with aclosing(run.news()) as found:
        async for news in found:
            yield (b"" if news is None else to_json(news)) + b"\n"


def _name(request: Request, body: bodies.ByBody) -> str:
    """Who asks: as the token says, else as they state."""
    caller = caller_of(request)
    return body.by if caller is None else caller.name


def _named(id: str) -> str | None:
    return None if id == "-" else id


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
