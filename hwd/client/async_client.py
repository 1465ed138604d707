"""AsyncClient: every call of one daemon, for coroutines. `Client` has the same calls for programs that wait.

async with AsyncClient.find() as hwd:
    await hwd.apply(what="ring hosts=h0,h1", ready_within_s=15)
    async for state in hwd.follow((await hwd.start_run(text=text, file="smoke.yaml")).id):
        print(state)
"""

import asyncio
import math
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar, Unpack, cast

from hwd.client.connection import Connection
from hwd.client.event_stream import Event, Listening
from hwd.client.find import Whereabouts
from hwd.client.reconfiguration_follower import KINDS as RECONFIGURATION_KINDS
from hwd.client.reconfiguration_follower import LOOK_S, ReconfigurationFollower, Tell
from hwd.client.run_follower import KINDS, state_in
from hwd.client.wanted import Waits, Wanted, body_of, waits_of
from hwd.model import bodies
from hwd.model.daemon import JournalGivenUp
from hwd.model.demand import FILE_BYTES_MAX, DemandMatrix, DemandSummary
from hwd.model.document_list import DocumentJson, DocumentList
from hwd.model.host import HostStatus
from hwd.model.job_status import JobDemand, JobEfficiency, JobOutput, JobStatus, JobTraining, JobVerification
from hwd.model.lease import HeldLease
from hwd.model.plan_summary import PlanSummary
from hwd.model.prepared_set import PreparedSetStatus
from hwd.model.program import ProgramNews, ProgramStatus, Signal
from hwd.model.reconfiguration import HistoryEntry, ReconfigurationStatus
from hwd.model.recorded_run import Run, RunSummary
from hwd.model.reload import ReloadReport
from hwd.model.run import AbortedRun, AcceptedRun, RunStatus, TrialRun
from hwd.model.status import FaultConfirmation, Status
from hwd.model.switch import HeldEnds, SwitchStatus
from hwd_drivers.core.documents import Document, Json
from hwd_drivers.core.errors import ConfigError, HwdError
from hwd_drivers.core.structs import from_json

if TYPE_CHECKING:
    from hwd.client.timelines import MeasuredTimeline, RunResult, Timelines
    from hwd.model.interlock import InterlockName
    from hwd_drivers.switching.moves import ApplyMode

T = TypeVar("T")

DRIVE_S = 60.0
"""Added to the time that an apply may wait for readiness."""

UPLOAD_S = 120.0
"""For a file to come to the daemon, and to be read there after the files before it."""
TIME_LEFT = re.compile(r"[\d.]+ s\b")
"""What changes of the reason for a wait while nothing happens."""
OLDEST = "-.0"
"""An id before all events that the event stream retains."""

RUNS_PAGE = 500
"""Runs in one answer: the most that the daemon returns."""

WAITS_LOOK_S = 1.0
"""Between two heartbeats of a client that waits for a lease."""

Fault = Mapping[str, Json]
"""One fault, as `hwd.model.fault` reads it: {"switch": "ocs1", "fault": "slow", "seconds": 0.5}."""


class AsyncClient:
    """Belongs to one event loop: close it there, or use it as a context. Every call raises HwdError: LinkError when
    the daemon cannot be reached.
    """

    def __init__(self, daemon: str | Whereabouts, *, token: str | None = None, within_s: float = math.inf) -> None:
        """`within_s` limits every answer, whatever its call allows: it raises DeadlineError then."""
        self._connection = Connection(daemon, token=token, within_s=within_s)

    @classmethod
    def find(
        cls,
        url: str | None = None,
        environment: Mapping[str, str] = os.environ,
        *,
        testbed: str | None = None,
        within_s: float = math.inf,
    ) -> Self:
        """The daemon at `url`, else at HWD_URL, else the one of this user on this machine; `testbed` selects among
        several.

        The token is HWD_TOKEN, the content of the file HWD_TOKEN_FILE, or that in the daemon's own token file. A daemon
        that was found in the run directory is looked up again after a restart on another port.
        """
        return cls(Whereabouts.find(url, environment, testbed=testbed), within_s=within_s)

    @property
    def url(self) -> str:
        return self._connection.url

    async def aclose(self) -> None:
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    # --- state

    async def status(self) -> Status:
        """The answer behind `hwd status`."""
        return await self._connection.get(Status, "status")

    async def switches(self) -> list[SwitchStatus]:
        """All switches, with the state that they report."""
        return await self._connection.get(list[SwitchStatus], "switches")

    async def hosts(self) -> list[HostStatus]:
        """Hosts, their agents, and the alignment of their clocks."""
        return await self._connection.get(list[HostStatus], "hosts")

    async def reconfigurations(self) -> list[ReconfigurationStatus]:
        """Reconfigurations that are under way."""
        return await self._connection.get(list[ReconfigurationStatus], "reconfigurations")

    async def programs(self) -> list[ProgramStatus]:
        """Programs that run on hosts."""
        return await self._connection.get(list[ProgramStatus], "programs")

    async def run_program(self, host: str, *words: str, by: str | None = None) -> AsyncGenerator[ProgramNews, None]:
        """Start a program of the testbed file on a host, with further arguments: that it has started, what it writes,
        and how it ended. Close it to end the program.

        Raises RefusedError for what is not allowed, FailedError where it cannot be executed, LinkError where the
        daemon, or the host, goes away.
        """
        body = bodies.ProgramBody(words=[*words], by=by)
        async with aclosing(self._connection.lines("hosts", host, "programs", body=body)) as lines:
            async for line in lines:
                yield from_json(line, ProgramNews)

    async def signal_program(self, id: str, signal: Signal) -> ProgramStatus:
        """Send a signal to a program and its process group, by the id in its first news."""
        return await self._connection.post(
            ProgramStatus, "programs", id, "signal", body=bodies.SignalBody(signal=signal)
        )

    async def start_job(self, name: str, *words: str, by: str | None = None) -> JobStatus:
        """Start a job of the testbed file, with further arguments of its command; it goes on without this caller."""
        return await self._connection.post(JobStatus, "jobs", body=bodies.JobBody(name=name, words=[*words], by=by))

    async def jobs(self) -> list[JobStatus]:
        """The newest jobs, newest first, also those that have ended."""
        return await self._connection.get(list[JobStatus], "jobs")

    async def job(self, id: str) -> JobStatus:
        """One job. Raises UnknownError."""
        return await self._connection.get(JobStatus, "jobs", id)

    async def verify_job(self, id: str) -> list[JobVerification]:
        """Whether a job, or all jobs of a run, kept their promises, from the records. Raises UnknownError."""
        return await self._connection.get(list[JobVerification], "jobs", id, "verification")

    async def job_efficiency(self, id: str) -> list[JobEfficiency]:
        """How much of the capacity of its network became data that its ranks go on with: of a job, or all of a run."""
        return await self._connection.get(list[JobEfficiency], "jobs", id, "efficiency")

    async def job_training(self, id: str) -> list[JobTraining]:
        """The iterations of a job, or of all jobs of a run, and the moves of its light. Raises UnknownError."""
        return await self._connection.get(list[JobTraining], "jobs", id, "training")

    async def job_demand(self, id: str, *, iteration: int | None = None, layer: int | None = None) -> list[JobDemand]:
        """What hosts had for each other in the all-to-alls of a job, or of all jobs of a run. Raises UnknownError."""
        return await self._connection.get(list[JobDemand], "jobs", id, "demand", iteration=iteration, layer=layer)

    async def stop_job(self, id: str, *, by: str | None = None, why: str = "") -> JobStatus:
        """Let a job end; `by` and `why` are recorded. Raises RefusedError where none of this id is under way: it may
        have just ended.
        """
        body = bodies.ActBody(why=why) if by is None else bodies.ActBody(by=by, why=why)
        return await self._connection.post(JobStatus, "jobs", id, "stop", body=body)

    async def job_output(self, id: str, rank: int = 0, *, first: int = 0) -> JobOutput:
        """What a rank has written, from byte `first` on, at most 1 MiB."""
        return await self._connection.get(JobOutput, "jobs", id, "ranks", str(rank), "output", first=first)

    async def documents(self, *, after: str | None = None, kinds: Iterable[str] = ()) -> DocumentList:
        """Retained events after an id, at once. Without `after` only the newest id, from which to continue."""
        return await self._connection.get(DocumentList, "documents", kind=tuple(kinds), after=after)

    @asynccontextmanager
    async def events(
        self, *, after: str | None = None, kinds: Iterable[str] = (), say: Callable[[str], None] | None = None
    ) -> AsyncGenerator[AsyncGenerator[Event, None]]:
        """Events from now on, or after an id; reconnects when the connection is lost.

        async with client.events(kinds=["run."]) as events:
            async for event in events: ...

        `say` gets a line when the daemon stops answering, and one when it answers again. Raises LinkError when it does
        not come back.
        """
        async with aclosing(self.listen(after=after, kinds=kinds, say=say)) as found:
            yield found

    def listen(
        self, *, after: str | None = None, kinds: Iterable[str] = (), say: Callable[[str], None] | None = None
    ) -> AsyncGenerator[Event, None]:
        """`events` as a generator, which the caller has to close."""
        return self._connection.listen(Listening(after=after, kinds=kinds, say=say))

    # --- reconfigurations

    async def plan(
        self,
        **wanted: Unpack[Wanted],
    ) -> PlanSummary:
        """Plan what an apply would move, without touching a switch.

        hwd.plan(what="ring hosts=h0,h1", mode="safe", lease=None, ready_within_s=15, confirm_within_s=60)

        See `Wanted` for all arguments.
        """
        return await self._connection.post(PlanSummary, "plans", body=body_of(bodies.PlanBody, wanted))

    async def apply(
        self,
        *,
        id: str | None = None,
        by: str | None = None,
        tell: Tell | None = None,
        **wanted: Unpack[Wanted],
    ) -> ReconfigurationStatus:
        """Plan and apply. Answers when the switches are read back and, where that was asked for, the links are ready.

        Takes the arguments of `plan`.

        `by`: who asks, for the history.

        `id`: of the reconfiguration, 8 characters of a-z and 0-9; by default the daemon chooses one. With your own you
        can roll it back before the answer has come, and `tell` gets its steps and states meanwhile; it is called in the
        client's thread.
        """
        body = body_of(bodies.ReconfigurationBody, wanted, id=id, by=by)
        return await self._applied(body, DRIVE_S, tell)

    async def apply_hash(
        self,
        hash: str,
        *,
        id: str | None = None,
        by: str | None = None,
        within_s: float = 10 * DRIVE_S,
        tell: Tell | None = None,
        **waits: Unpack[Waits],
    ) -> ReconfigurationStatus:
        """Apply a plan of this daemon; `within_s` limits the whole of it, beside `waits`, which are those of the plan
        where they are None. `id`, `by`, `tell`: see `apply`. Raises StalePlanError where it is not what would be
        planned now.
        """
        body = body_of(bodies.ReconfigurationBody, waits, names=Waits.__annotations__, hash=hash, id=id, by=by)
        return await self._applied(body, within_s, tell)

    async def restore(
        self, ports: Sequence[str] = (), *, id: str | None = None, by: str | None = None, **wanted: Unpack[Wanted]
    ) -> ReconfigurationStatus | None:
        """Plan the way back to the desired state of these switches and ports (by default all), and apply that plan.

        None where there is nothing to do. Switches that cannot be reached are left out: `plan.away` of the answer.
        `hwd.plan(restore=[])` shows what it would move.
        """
        wanted["restore"] = [*ports]
        made = await self.plan(**wanted)
        return None if made.empty else await self.apply_hash(made.hash, id=id, by=by, **waits_of(wanted))

    async def history(
        self, *, limit: int = 50, switch: str | None = None, port: str | None = None, before: str | None = None
    ) -> list[HistoryEntry]:
        """Who applied what, when, with what outcome, newest first.

        `switch`, `port`: only those that moved it. `before`: the id of the oldest that you have, to get older ones.
        """
        return await self._connection.get(
            list[HistoryEntry], "history", limit=limit, switch=switch, port=port, before=before
        )

    # --- prepared sets

    async def prepare(
        self,
        targets: Mapping[str, str | tuple[str, str]],
        *,
        lease: str,
        epoch: int | None = None,
        after_crash: str = "finish",
        for_s: float | None = None,
        mode: str = "update",
        ready_within_s: float | None = None,
        overrides: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> PreparedSetStatus:
        """Route, check, hold and journal targets once; `switch` then drives to one of them at once.

        hwd.prepare({"day": "ring hosts=h0,h1", "night": "pairs rail=0"}, lease=lease.id)

        `targets`: by name, each as on the command line, or the name and the text of a topology file. `lease`: the set
        is held under it, and ends with it, at the latest after `for_s` seconds. `after_crash`: what becomes of a switch
        that a crash cuts off: `finish`, `before` (the state at the preparation), or the name of a target.
        `ready_within_s`: each switch waits until its links are ready.
        """
        body = bodies.PrepareBody(
            targets={
                name: bodies.TargetBody(what=what)
                if isinstance(what, str)
                else bodies.TargetBody(file=bodies.File(name=what[0], text=what[1]))
                for name, what in targets.items()
            },
            lease=lease,
            epoch=epoch,
            after_crash=after_crash,
            for_s=for_s,
            mode=cast("ApplyMode", mode),  # only the daemon checks it
            ready_within_s=ready_within_s,
            overrides=cast("dict[InterlockName, str]", dict(overrides or {})),
            by=by,
        )
        return await self._connection.post(PreparedSetStatus, "sets", body=body, within_s=DRIVE_S)

    async def switch(
        self,
        prepared_set: str,
        target: str,
        *,
        epoch: int | None = None,
        id: str | None = None,
        by: str | None = None,
        override: Mapping[str, str] | None = None,
        tell: Tell | None = None,
    ) -> ReconfigurationStatus:
        """Bring a prepared set to one of its targets. Answers when the switches are read back, and where the set says
        so the links are ready. `override`: `{"job": why}` for the set of a job, which is recorded; the job brings its
        light back, or fails. `id`, `by`, `tell`: see `apply`.
        """
        body = bodies.SwitchBody(target=target, epoch=epoch, override=_overriding(override), id=id, by=by)
        switch = partial(self._connection.post, ReconfigurationStatus, "sets", prepared_set, "switch")
        return await self._followed(partial(switch, body=body, within_s=10 * DRIVE_S), id, tell)

    async def sets(self) -> list[PreparedSetStatus]:
        """Prepared sets that have not ended."""
        return await self._connection.get(list[PreparedSetStatus], "sets")

    async def release_set(
        self,
        prepared_set: str,
        *,
        epoch: int | None = None,
        override: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> PreparedSetStatus:
        """End a prepared set: its ports are free, its switches stay as they are. `override`, `by`: as of `switch`."""
        body = bodies.ReleaseSetBody(epoch=epoch, override=_overriding(override), by=by)
        return await self._connection.post(
            PreparedSetStatus, "sets", prepared_set, "release", body=body, within_s=DRIVE_S
        )

    async def confirm(self, reconfiguration: str | None = None) -> ReconfigurationStatus:
        """Keep the new state. None: the only reconfiguration under way."""
        id = reconfiguration or "-"
        return await self._connection.post(ReconfigurationStatus, "reconfigurations", id, "confirm", within_s=DRIVE_S)

    async def roll_back(self, reconfiguration: str | None = None) -> ReconfigurationStatus:
        """Restore the state before it. None: the only reconfiguration under way."""
        id = reconfiguration or "-"
        return await self._connection.post(ReconfigurationStatus, "reconfigurations", id, "rollback", within_s=DRIVE_S)

    async def give_up(self, reconfiguration: str, *, by: str = "a Python client", why: str = "") -> JournalGivenUp:
        """Stop trying to roll back an interrupted reconfiguration, which frees its ports.

        The switches stay as they are. Raises RefusedError for a reconfiguration that is not open.
        """
        body = bodies.ActBody(by=by, why=why)
        return await self._connection.post(
            JournalGivenUp, "reconfigurations", reconfiguration, "give-up", body=body, within_s=DRIVE_S
        )

    async def _applied(
        self, body: bodies.ReconfigurationBody, within_s: float, tell: Tell | None
    ) -> ReconfigurationStatus:
        """The answer to what applies a plan, within this time beside what it waits for."""
        within_s += body.waits_s
        path = partial(self._connection.post, ReconfigurationStatus, "reconfigurations")
        return await self._followed(partial(path, body=body, within_s=within_s), body.id, tell)

    async def _followed(self, call: Callable[[], Awaitable[T]], id: str | None, tell: Tell | None) -> T:
        """The answer of a call that applies `id`; meanwhile `tell` gets how far it is."""
        if id is None or tell is None:
            return await call()
        follower = ReconfigurationFollower(id, tell, (await self.documents()).last)
        over = asyncio.Event()

        async def look() -> None:
            while True:
                is_over = over.is_set()
                found = await self.documents(after=follower.after, kinds=RECONFIGURATION_KINDS)
                follower.take(found, is_over=is_over)
                if is_over:
                    return
                with suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), LOOK_S)

        looking = asyncio.create_task(look(), name=f"hwd:client/follow-{id}")
        try:
            return await call()
        except asyncio.CancelledError:
            looking.cancel()
            raise
        finally:
            over.set()
            with suppress(HwdError, asyncio.CancelledError):  # the call itself says what is wrong
                await looking

    async def reload(
        self,
        *,
        dry_run: bool = False,
        hash: str | None = None,
        drain_s: float = 10.0,
        by: str = "a Python client",
    ) -> ReloadReport:
        """Let the daemon take its changed testbed file, or with `dry_run` say what it would change.

        `hash`: of the answer that was looked at; refused where the file has changed since. `drain_s`: how long to wait
        for those who hold what changes. Raises ConfigError with all problems of the file, RefusedError where it cannot
        be taken now; nothing has changed then.
        """
        body = bodies.ReloadBody(dry_run=dry_run, hash=hash, drain_s=drain_s, by=by)
        return await self._connection.post(ReloadReport, "reload", body=body, within_s=DRIVE_S + drain_s)

    async def timeline(self, reconfiguration: str) -> "MeasuredTimeline":
        """The timeline of a reconfiguration that has ended, as long as the event stream retains it. Raises FailedError
        where there is none.
        """
        from hwd.client.timelines import Timelines

        retained = await self.documents(after=OLDEST, kinds=["timeline"])
        return Timelines.of_documents(retained.documents).of(reconfiguration)

    # --- runs

    async def start_run(
        self,
        *,
        text: str,
        file: str,
        parameters: Mapping[str, str] | None = None,
        due_wall_ns: int | None = None,
        trial: TrialRun | None = None,
    ) -> AcceptedRun:
        """Start a playbook, or queue it: `due_wall_ns` is its earliest start. `trial`: its place in a trial.

        `events(after=started.after)` delivers all its events.
        """
        body = bodies.RunBody(
            text=text, file=file, parameters=dict(parameters or {}), due_wall_ns=due_wall_ns, trial=trial
        )
        return await self._connection.post(AcceptedRun, "runs", body=body)

    async def start_playbook(
        self,
        playbook: str | Path,
        *,
        parameters: Mapping[str, object] | None = None,
        due_wall_ns: int | None = None,
    ) -> AcceptedRun:
        """`start_run` of a file, or of a playbook that is part of hwd, by name. Included files are sent along."""
        from hwd.client.playbook_bundle import read_playbook

        defined = {key: str(value) for key, value in (parameters or {}).items()}
        file, text = read_playbook(playbook, defined)
        return await self.start_run(text=text, file=file, parameters=defined, due_wall_ns=due_wall_ns)

    async def runs(self, *, limit: int = RUNS_PAGE, before: str | None = None) -> list[RunSummary]:
        """The newest runs of the records, without the texts and inventories that `run` has.

        `before`: the id of the oldest run that you have, to get older ones.
        """
        return await self._connection.get(list[RunSummary], "runs", limit=limit, before=before)

    async def run(self, id: str) -> Run:
        """One run, by its id or a prefix of it."""
        return await self._connection.get(Run, "runs", id)

    async def run_state(self, id: str) -> RunStatus:
        """The state of a run as one value: what it is doing, or how it ended."""
        return await self._connection.get(RunStatus, "runs", id, "state")

    async def follow(self, run: str) -> AsyncGenerator[RunStatus, None]:
        """The state of a run, now and at every change, until it has ended. Survives lost connections and restarts of
        the daemon.
        """
        last = (await self.documents()).last
        status = await self.run_state(run)
        yield status
        if status.state.ended:
            return
        async with self.events(after=last, kinds=KINDS) as found:
            async for event in found:
                now = state_in(event, status.run) if event.document else await self.run_state(run)
                if now is not None and now != status:
                    status = now
                    yield status
                if status.state.ended:
                    return

    async def queue(self) -> list[RunStatus]:
        """Runs that wait, in the order in which they will start."""
        return await self._connection.get(list[RunStatus], "queue")

    async def pause(self, run: str, *, by: str) -> RunStatus:
        """Pause a run after its present step; its lease is renewed meanwhile."""
        return await self._connection.post(RunStatus, "runs", run, "pause", body=bodies.ByBody(by=by))

    async def resume(self, run: str, *, by: str) -> RunStatus:
        """Continue a run that was paused."""
        return await self._connection.post(RunStatus, "runs", run, "resume", body=bodies.ByBody(by=by))

    async def abort(self, run: str, *, by: str, why: str = "") -> AbortedRun:
        """End a run in its safe state; answers when that is reached, within 5 s. A queued run is removed from the
        queue.
        """
        return await self._connection.post(AbortedRun, "runs", run, "abort", body=bodies.ActBody(by=by, why=why))

    async def run_documents(self, id: str) -> list[Document]:
        """All documents of a run, oldest first."""
        sent = await self._connection.get(list[DocumentJson], "runs", id, "documents")
        return [one.document() for one in sent]

    async def timelines(self, run: str) -> "Timelines":
        """The timelines of a run's reconfigurations, in their order."""
        from hwd.client.timelines import Timelines

        return Timelines.of_documents(await self.run_documents(run))

    async def result(self, run: str) -> "RunResult":
        """The measurements of a run: its timelines, and the table of their stages."""
        from hwd.client.timelines import RunResult

        return RunResult.of(await self.run(run), await self.run_documents(run))

    # --- leases

    async def leases(self) -> list[HeldLease]:
        """Leases in force."""
        return await self._connection.get(list[HeldLease], "leases")

    async def lease_requests(self) -> list[HeldLease]:
        """Leases that are not granted yet: the queue in the order of turns, then reservations by their times."""
        return await self._connection.get(list[HeldLease], "leases", "requests")

    async def take_lease(
        self,
        *,
        holder: str,
        ports: Sequence[str],
        for_s: float,
        queue: bool = False,
        priority: int = 0,
        at_wall_ns: int | None = None,
        heartbeat_s: float | None = None,
    ) -> HeldLease:
        """Lease ports (`ocs1.3`, `h0.eth0`, or `all`) for some seconds; raises RefusedError where one is taken.

        `queue`: wait in the queue instead, before those of a lower `priority`; go on with `wait_lease`. `at_wall_ns`:
        reserve it from this unix time on. `heartbeat_s`: it ends where `beat_lease` is not called for so long.
        """
        body = bodies.LeaseBody(
            holder=holder,
            ports=[*ports],
            for_s=for_s,
            queue=queue,
            priority=priority,
            at_wall_ns=at_wall_ns,
            heartbeat_s=heartbeat_s,
        )
        return await self._connection.post(HeldLease, "leases", body=body)

    async def wait_lease(self, lease: str, *, say: Callable[[HeldLease], None] | None = None) -> HeldLease:
        """Wait until a lease that was taken with `queue`, or reserved, is granted; `say` gets it at first and whenever
        its place, or what it waits for, changes.

        Leaves the queue when it is cancelled, or interrupted. Raises RefusedError where somebody kicks it.
        """
        last: object = None
        try:
            while not (found := await self.beat_lease(lease)).is_in_force:
                now = (found.place, [TIME_LEFT.sub("", one) for one in found.waits_for or ()])
                if say is not None and now != last:
                    say(found)
                last = now
                await asyncio.sleep(WAITS_LOOK_S)
        except asyncio.CancelledError:
            await self.release_lease(lease)
            raise
        return found

    async def beat_lease(self, lease: str, *, epoch: int | None = None) -> HeldLease:
        """A heartbeat of its holder, who claims a reserved lease by it, or of who waits for it. Says what it is now."""
        return await self._connection.post(HeldLease, "leases", lease, "heartbeat", body=bodies.EpochBody(epoch=epoch))

    async def renew_lease(self, lease: str, *, for_s: float, epoch: int | None = None) -> HeldLease:
        """Renew a lease: it expires `for_s` seconds from now."""
        return await self._connection.post(
            HeldLease, "leases", lease, "renew", body=bodies.RenewBody(for_s=for_s, epoch=epoch)
        )

    async def release_lease(self, lease: str, *, epoch: int | None = None) -> HeldLease:
        """Release a lease, leave the queue, or withdraw a reservation."""
        return await self._connection.post(HeldLease, "leases", lease, "release", body=bodies.EpochBody(epoch=epoch))

    async def kick_lease(self, lease: str, *, by: str = "a Python client", why: str = "") -> HeldLease:
        """Revoke a lease. `by`: who revokes it; its holder reads that and `why` at the next act, and jobs on a host
        whose own switch it is do.
        """
        return await self._connection.post(HeldLease, "leases", lease, "kick", body=bodies.KickBody(by=by, why=why))

    async def grant_lease(self, switch: str, *, by: str = "a Python client") -> HeldLease:
        """Delegate a switch again to the host that owns it, after `kick_lease` revoked that. Raises RefusedError where
        it was not revoked.
        """
        return await self._connection.post(HeldLease, "leases", switch, "grant", body=bodies.ByBody(by=by))

    # --- stored demands

    async def add_demand(
        self,
        name: str,
        data: bytes,
        *,
        hosts: Sequence[str] = (),
        experts_per_gpu: int | None = None,
        gpus_per_server: int | None = None,
        replace: bool = False,
        by: str | None = None,
    ) -> DemandSummary:
        """Store the demand of a CSV or NPZ file, as `demand=NAME` of a topology reads it.

        hwd.add_demand("moe", Path("gates.npz").read_bytes(), hosts=["h0", "h1"], experts_per_gpu=1, gpus_per_server=8)

        `hosts`: the servers of its rows, in their order; none where a CSV file names hosts. `experts_per_gpu`,
        `gpus_per_server`: both where its rows are experts. Raises ConfigError with the place of what is wrong in it,
        RefusedError where there is one of that name, unless `replace`, or no room.
        """
        if len(data) > FILE_BYTES_MAX:  # a server that refuses a body may close the connection under it
            raise ConfigError(f"demand {name}: the file has {len(data)} bytes, over the {FILE_BYTES_MAX} of one demand")
        return await self._connection.post(
            DemandSummary,
            "demands",
            body=data,
            within_s=UPLOAD_S,
            name=name,
            hosts=",".join(hosts) or None,
            experts_per_gpu=experts_per_gpu,
            gpus_per_server=gpus_per_server,
            replace="true" if replace else None,
            by=by,
        )

    async def demands(self) -> list[DemandSummary]:
        """Stored demands, in the order of their names."""
        return await self._connection.get(list[DemandSummary], "demands")

    async def demand(self, name: str, *, layer: int = 0, microbatch: int = 0) -> DemandMatrix:
        """One matrix of a stored demand. Raises UnknownError."""
        return await self._connection.get(DemandMatrix, "demands", name, layer=layer, microbatch=microbatch)

    async def remove_demand(self, name: str) -> DemandSummary:
        """Remove a stored demand; returns what it was. Raises UnknownError."""
        return await self._connection.ask("DELETE", DemandSummary, "demands", name)

    # --- overrides and faults

    async def block(
        self,
        switch: str,
        ends: Sequence[str],
        *,
        lease: str | None = None,
        why: str = "",
        by: str = "a Python client",
    ) -> HeldEnds:
        """Block fibre ends of a switch, whatever crossconnect they are in: `3A`, or a range `4A..6A`.

        Answers when the switch confirms it. Raises RefusedError where others lease a port whose light it is, and where
        the switch cannot do it.
        """
        body = bodies.OverrideBody(switch=switch, ends=[*ends], to="force-blocked", lease=lease, why=why, by=by)
        return await self._connection.post(HeldEnds, "overrides", body=body)

    async def unblock(
        self,
        switch: str,
        ends: Sequence[str],
        *,
        lease: str | None = None,
        why: str = "",
        by: str = "a Python client",
    ) -> HeldEnds:
        """Unblock fibre ends of a switch."""
        body = bodies.OverrideBody(switch=switch, ends=[*ends], to="normal", lease=lease, why=why, by=by)
        return await self._connection.post(HeldEnds, "overrides", body=body)

    async def fault(self, fault: Fault, *, lease: str | None = None) -> None:
        """Inject a fault into a twin, under a lease; {"fault": "clear"} ends all faults.

        Raises RefusedError where the subject is no twin, or others lease it.
        """
        await self._connection.post(FaultConfirmation, "faults", body={**fault, "lease": lease})


def _overriding(override: Mapping[str, str] | None) -> "dict[bodies.OverrideOf, str]":
    """Only the daemon checks whose right it is."""
    return cast("dict[bodies.OverrideOf, str]", dict(override or {}))
