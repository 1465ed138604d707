"""The service of the daemon: one method for each call of the HTTP API, bodies in and answers out, without HTTP."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from msgspec import UNSET
from msgspec.structs import asdict, replace

from hwd.bus.host_settings.run_settings import HostSettings
from hwd.bus.host_switches.delegations import Delegations
from hwd.config.playbook.step_claims import harmed
from hwd.config.testbed.ends import parse_ends
from hwd.config.yaml.file_problem import nearest
from hwd.fabric.in_use import InUse
from hwd.jobs.efficiency.efficiency_reader import EfficiencyReader
from hwd.jobs.jobs import Jobs
from hwd.jobs.programs import ProgramRun, Programs
from hwd.jobs.training.training_reader import TrainingReader
from hwd.jobs.verification.job_verifier import JobVerifier
from hwd.model.bodies import (
    ActBody,
    ByBody,
    JobBody,
    OverrideOf,
    PlanBody,
    PrepareBody,
    ProgramBody,
    ReconfigurationBody,
    ReloadBody,
    SignalBody,
)
from hwd.model.daemon import JournalGivenUp
from hwd.model.demand import DemandKey, DemandMatrix, DemandSummary
from hwd.model.fault import parse_fault
from hwd.model.fault_confirmation import FaultConfirmation
from hwd.model.host import HostStatus
from hwd.model.job_status import JobDemand, JobEfficiency, JobOutput, JobStatus, JobTraining, JobVerification
from hwd.model.lease import RESERVED, WAITING, HeldLease, HeldSettings
from hwd.model.plan_summary import PlanSummary
from hwd.model.prepared_set import PreparedSetStatus
from hwd.model.program import ProgramStatus
from hwd.model.reconfiguration import HistoryEntry, ReconfigurationStatus
from hwd.model.recorded_run import Run, RunSummary
from hwd.model.reload import ReloadReport
from hwd.model.request import Caller
from hwd.model.run import AbortedRun, RunProgress, RunState, RunStatus, TrialRun
from hwd.model.status import Readiness, Status
from hwd.model.switch import HeldEnds, SwitchStatus
from hwd.model.testbed import Testbed
from hwd.playbook.runs import Runs
from hwd.playbook.twin_faults import TwinFaults
from hwd.ports.claim import Claim
from hwd.ports.delegation import Delegation
from hwd.ports.lease_request import LeaseRequest
from hwd.ports.ledger import Asker
from hwd.ports.rules import PortAction
from hwd.ports.testbed_ports import all_ports, leasable
from hwd.reconfigure.leases.leases import Leases
from hwd.reconfigure.leases.requests import CLAIM_WITHIN_S, WAITER_SILENT_S, LeaseRequests, Place
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.reconfigure.transfers import Transfers
from hwd.records.finish import to_its_end
from hwd.records.reconfiguration_log import ReconfigurationLog
from hwd.records.recorder import RecordingSink
from hwd.records.records import Records
from hwd.web.access import CALLS
from hwd.web.applies import Applies, under_way
from hwd.web.demands import AddDemand, Demands
from hwd.web.rack_status import RackStatus, delegated
from hwd.web.rights import Rights
from hwd_agents.wire.access import Access
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError, RefusedError, UnknownError
from hwd_drivers.core.values import PortOverride, natural_key


class Reloads(Protocol):
    """Takes a changed testbed file while the daemon runs."""

    def reload(self, body: ReloadBody, caller: Caller | None) -> Coroutine[Any, Any, ReloadReport]: ...


class Service:
    """The daemon's offer to callers. All methods raise HwdError; its `exit_status` and `title` go to the caller."""

    def __init__(
        self,
        *,
        in_use: InUse,
        rack: RackStatus,
        reloads: Reloads,
        applies: Applies,
        runs: Runs,
        faults: TwinFaults,
        reconfigurer: Reconfigurer,
        leases: Leases,
        requests: LeaseRequests,
        settings: HostSettings,
        transfers: Transfers,
        programs: Programs,
        jobs: Jobs,
        job_verifier: JobVerifier,
        job_efficiency: EfficiencyReader,
        job_training: TrainingReader,
        demands: Demands,
        delegations: Delegations,
        records: Records,
        log: ReconfigurationLog,
        recorder: RecordingSink,
        clock: Clock,
    ) -> None:
        self._in_use = in_use
        self._rack = rack
        self._reloads = reloads
        self._applies = applies
        self._runs = runs
        self._faults = faults
        self._reconfigurer = reconfigurer
        self._leases = leases
        self._requests = requests
        self._settings = settings
        self._transfers = transfers
        self._programs = programs
        self._jobs = jobs
        self._rights = Rights(leases.ledger, jobs)
        self._job_verifier = job_verifier
        self._job_efficiency = job_efficiency
        self._job_training = job_training
        self._demands = demands
        self._delegations = delegations
        self._records = records
        self._log = log
        self._recorder = recorder
        self._clock = clock

    @property
    def testbed(self) -> Testbed:
        """As it is now."""
        return self._in_use.testbed

    # --- state

    async def status(self) -> Status:
        """All that the status screen shows. A large rack is looked at in turns of the event loop: what is under way
        before or after that is named, so that nothing moves that is not said to.
        """
        moving = {one.id: one for one in self.reconfigurations()}
        switches, hosts = await self.switches(), await self.hosts()
        links, desired = await self._rack.links(), await self._rack.desired()
        unlit, orphans = self._rack.unlit(), await self._rack.orphans()
        moving |= {one.id: one for one in self.reconfigurations()}
        return Status(
            testbed=self.testbed.name,
            version=self._rack.version,
            wall_ns=self._clock.wall_ns(),
            alerts=self._rack.alerts(),
            bus=self._rack.bus(),
            disk=self._rack.disk(),
            records=self._rack.records(),
            journal=self._rack.journal(),
            leases=self.leases(),
            lease_requests=self.lease_requests(),
            transfers=self._transfers.status(),
            programs=self.programs(),
            jobs=self._jobs.under_way(),
            sets=self.sets(),
            ended_sets=[*self._reconfigurer.sets.ends.unasked(self._clock.wall_ns())],
            held=self.held_settings(),
            reconfigurations=[*moving.values()],
            open=[*self._reconfigurer.left_open],
            runs=[
                RunProgress(**{**asdict(status), **runner.progress})
                for runner in self._runs.active
                if (status := self._runs.board.get(runner.id)) is not None
            ],
            queue=self.queue(),
            switches=switches,
            composites=self._rack.composites(),
            hosts=hosts,
            lit=links,
            desired=desired,
            unlit=unlit,
            orphans=orphans,
        )

    def ready(self) -> Readiness:
        """See `RackStatus.ready`."""
        return self._rack.ready()

    async def switches(self) -> list[SwitchStatus]:
        """See `RackStatus.switches`."""
        return await self._rack.switches()

    async def hosts(self) -> list[HostStatus]:
        """See `RackStatus.hosts`."""
        return await self._rack.hosts()

    def reconfigurations(self) -> list[ReconfigurationStatus]:
        """Those that have not ended."""
        return [*map(under_way, self._reconfigurer.under_way)]

    def leases(self) -> list[HeldLease]:
        """Leases of ports, then those of switches delegated to hosts."""
        delegated = [self._delegation(one) for one in self._delegations.all()]
        return [*(self._lease(lease) for lease in self._leases.all()), *delegated]

    def lease_requests(self) -> list[HeldLease]:
        """Leases that are not granted yet: the queue in the order of turns, then reservations by their times."""
        places = self._requests.places()
        waiting = [self._waiting(one, places[one.id]) for one in self._requests.waiting]
        return [*waiting, *(self._reserved(one) for one in self._requests.reserved)]

    def held_settings(self) -> list[HeldSettings]:
        """Settings of ended runs still in force."""
        now = self._clock.wall_ns()
        return [
            HeldSettings(hold=one.id, run=str(one.run), ports=sorted(one.ports, key=natural_key), why=one.text(now))
            for one in self._settings.claims_of_ended_runs
        ]

    # --- plan, apply, confirm, roll back: see `Applies`

    async def plan(self, body: PlanBody) -> PlanSummary:
        self._rights.check(CALLS["POST /api/v1/plans"], body.lease)
        await self._note_act(body.lease, body.epoch)
        return await self._applies.plan(body)

    async def apply(self, body: ReconfigurationBody, caller: Caller | None = None) -> ReconfigurationStatus:
        self._rights.check(CALLS["POST /api/v1/reconfigurations"], body.lease)
        await self._note_act(body.lease, body.epoch)
        return await self._applies.apply(body, caller)

    async def history(
        self, *, limit: int, switch: str | None = None, port: str | None = None, before: str | None = None
    ) -> list[HistoryEntry]:
        """Who applied what, when, with what outcome, newest first. Raises ConfigError where there is no such port."""
        if switch is not None and switch not in self.testbed.switches:
            raise ConfigError(f"history: no switch {switch} in testbed {self.testbed.name}")
        if port is not None and port not in leasable(self.testbed):
            raise ConfigError(f"history: no port {port}. Ports are written ocs1.3 or h0.eth0")
        found = await self._log.newest(limit=limit, switch=switch, port=port, before=before)
        states = {one.id: str(one.state) for one in self._reconfigurer.under_way}
        return [replace(one, state=states.get(one.id or "")) if one.outcome is None else one for one in found]

    async def confirm(self, reconfiguration: str | None) -> ReconfigurationStatus:
        self._check_reconfiguration(CALLS["POST /api/v1/reconfigurations/{id}/confirm"], reconfiguration)
        return await self._applies.confirm(reconfiguration)

    async def roll_back(self, reconfiguration: str | None) -> ReconfigurationStatus:
        self._check_reconfiguration(CALLS["POST /api/v1/reconfigurations/{id}/rollback"], reconfiguration)
        return await self._applies.roll_back(reconfiguration)

    async def give_up(self, reconfiguration: str, *, by: str, why: str = "") -> JournalGivenUp:
        """Leave as it is what the journal holds open."""
        return await self._reconfigurer.give_up(reconfiguration, by=by, reason=why)

    # --- prepared sets

    def sets(self) -> list[PreparedSetStatus]:
        """Those that have not ended."""
        return [*self._reconfigurer.sets.all()]

    async def prepare(self, body: PrepareBody, caller: Caller | None = None) -> PreparedSetStatus:
        self._rights.check(CALLS["POST /api/v1/sets"], body.lease)
        await self._note_act(body.lease, body.epoch)
        return await self._applies.prepare(body, caller)

    async def switch(
        self,
        prepared_set: str,
        target: str,
        *,
        id: str | None = None,
        epoch: int | None = None,
        by: str | None = None,
        caller: Caller | None = None,
        override: Mapping[OverrideOf, str] | None = None,
        access: Access = CALLS["POST /api/v1/sets/{id}/switch"],
        key: str | None = None,
    ) -> ReconfigurationStatus:
        """Bring a prepared set to a target: see `Applies.switch`. One of a job only by its `key`, or with an
        `override`, as `access` allows; the job is told before it moves.
        """
        lease = self._reconfigurer.sets.lease_of(prepared_set)
        job = self._rights.check(access, lease, key=key, override=override)
        self._leases.note_act(lease)
        if job is None:
            return await self._applies.switch(prepared_set, target, id=id, epoch=epoch, by=by, caller=caller)
        why, who = (override or {}).get("job", ""), Caller.of(caller, by)
        of_switch = id or self._jobs.new_id()

        async def switch() -> ReconfigurationStatus:
            with self._jobs.overridden(
                job, prepared_set, target=target, reconfiguration=of_switch, caller=who, why=why
            ) as overridden:
                return await self._applies.switch(
                    prepared_set, target, id=of_switch, epoch=epoch, by=by, caller=caller, override=overridden
                )

        return await to_its_end(switch(), name=f"hwd:jobs/{job}/overridden")  # the job hears of its end

    async def release_set(
        self,
        id: str,
        *,
        epoch: int | None = None,
        override: Mapping[OverrideOf, str] | None = None,
        by: str | None = None,
        caller: Caller | None = None,
    ) -> PreparedSetStatus:
        """End a prepared set; its switches stay as they are. One of a job only with an `override`."""
        sets, access = self._reconfigurer.sets, CALLS["POST /api/v1/sets/{id}/release"]
        job = self._rights.check(access, sets.lease_of(id), override=override)
        if job is None:
            return await sets.release(id, epoch=epoch)
        why = (override or {}).get("job", "")
        with self._jobs.overridden(job, id, caller=Caller.of(caller, by), why=why) as overridden:
            return await sets.release(id, epoch=epoch, why=f"released by override of {overridden}")

    # --- leases and faults

    async def take_lease(
        self,
        *,
        holder: str,
        ports: list[str],
        for_s: float,
        queue: bool = False,
        priority: int = 0,
        at_wall_ns: int | None = None,
        heartbeat_s: float | None = None,
    ) -> HeldLease:
        """A lease in force, one that waits in the queue, or one that is reserved: see `LeaseBody`."""
        self._rights.check_name(holder)
        wanted = self._ports(ports)
        if at_wall_ns is not None:
            if queue:
                raise ConfigError("at_wall_ns, queue: name one of them; a reservation does not wait in the queue")
            reserved = await self._requests.reserve(
                holder=holder, ports=wanted, for_s=for_s, at_wall_ns=at_wall_ns, heartbeat_s=heartbeat_s
            )
            return self._reserved(reserved)
        if priority and not queue:
            raise ConfigError("priority: is that of the queue; ask for the queue too")
        try:
            taken = await self._leases.take(holder=holder, ports=wanted, for_s=for_s, heartbeat_s=heartbeat_s)
        except RefusedError:
            if not queue:
                raise
            waiting = await self._requests.enqueue(
                holder=holder, ports=wanted, for_s=for_s, priority=priority, heartbeat_s=heartbeat_s
            )
            return self._request(waiting)
        return self._lease(taken)

    async def renew_lease(self, id: str, *, for_s: float, epoch: int | None = None) -> HeldLease:
        self._rights.check(CALLS["POST /api/v1/leases/{id}/renew"], id)
        return self._lease(await self._leases.renew(id, for_s=for_s, epoch=epoch))

    async def beat_lease(self, id: str, *, epoch: int | None = None) -> HeldLease:
        """A heartbeat: of a holder, who claims a lease by it, or of a client that waits."""
        if (request := self._requests.get(id)) is not None:
            self._requests.heartbeat(id)
            return self._request(request)
        self._rights.check(CALLS["POST /api/v1/leases/{id}/heartbeat"], id)
        return self._lease(await self._leases.heartbeat(id, epoch=epoch))

    async def grant_lease(self, id: str, *, by: str) -> HeldLease:
        """Delegate a switch to its host again, under the next epoch. `told`: whether its agent has the grant.

        Raises ConfigError for what is no switch, RefusedError where it was not taken back.
        """
        if id not in self.testbed.switches:
            raise ConfigError(
                f"{id!r} is no switch of testbed {self.testbed.name}; {nearest(id, self.testbed.switches)}"
            )
        granted = await self._delegations.grant(id, by=by)
        return replace(self._delegation(granted), told=self._delegations.has(granted))

    async def release_lease(
        self, id: str, *, kick: bool = False, by: str = "", why: str = "", epoch: int | None = None
    ) -> HeldLease:
        """Release a lease, or withdraw a request for one. `kick`: of somebody else; `by` and `why` are recorded."""
        self._rights.check(CALLS[f"POST /api/v1/leases/{{id}}/{'kick' if kick else 'release'}"], id)
        end = {"why": "kicked", "by": by, "reason": why} if kick else {"why": "released"}
        if kick and (kicked_claim := self._settings.kick(id)) is not None:
            ports = sorted(kicked_claim.ports, key=natural_key)
            return HeldLease(lease=id, holder=f"settings of run {kicked_claim.run}", ports=ports, expires_in_s=0.0)
        if (delegation := self._delegations.get(id)) is not None:
            if not kick:
                raise RefusedError(
                    f"lease {id}: it is host {delegation.host}'s; take it back with `hwd lease kick {id}`"
                )
            kicked = await self._delegations.kick(id, by=by)
            if kicked is not None:
                return replace(self._delegation(kicked.delegation), told=not kicked.why, why=kicked.why)
        if (request := self._requests.get(id)) is not None:
            withdrawn = self._request(request)
            await self._requests.withdraw(id, **end)
            return withdrawn
        lease, sets = self._leases.get(id, epoch=epoch), self._reconfigurer.sets.under(id)
        await self._leases.release(id, **end)
        return replace(self._lease(lease), ended_sets=[*sets] or UNSET)

    async def fault(
        self, data: Mapping[str, Json], *, lease: str | None = None, epoch: int | None = None
    ) -> FaultConfirmation:
        """Set or clear a fault of a twin. Raises RefusedError where another lease has its ports."""
        fault = parse_fault(data)
        self._rights.check(CALLS["POST /api/v1/faults"], lease)
        ports = harmed(fault, all_ports(self.testbed))
        await self._note_act(lease, epoch)
        asker = Asker(lease=lease, epoch=epoch)
        self._leases.ledger.check(asker, ports, PortAction.FAULT, now_wall_ns=self._clock.wall_ns())
        await self._faults.set(fault)
        return FaultConfirmation(done=True)

    # --- programs on hosts

    def programs(self) -> list[ProgramStatus]:
        """Those that run now."""
        return self._programs.status()

    async def start_program(self, host: str, body: ProgramBody, caller: Caller | None) -> ProgramRun:
        """Start a program that the testbed file allows. The caller closes the run."""
        return await self._programs.start(host, body.words, Caller.of(caller, body.by))

    async def signal_program(self, id: str, body: SignalBody) -> ProgramStatus:
        """Send a signal to a program."""
        return await self._programs.signal(id, body.signal)

    # --- jobs

    async def jobs(self) -> list[JobStatus]:
        """The newest ones, newest first."""
        return await self._jobs.all()

    async def job(self, id: str) -> JobStatus:
        return await self._jobs.get(id)

    async def verify_job(self, id: str) -> list[JobVerification]:
        """Whether a job, or the jobs of a run, kept their promises."""
        return await self._job_verifier.verify(id)

    async def job_efficiency(self, id: str) -> list[JobEfficiency]:
        """The efficiency of a job, or of the jobs of a run."""
        return await self._job_efficiency.efficiency(id)

    async def job_training(self, id: str) -> list[JobTraining]:
        """The iterations of a job, or of the jobs of a run, and the moves of its light."""
        return await self._job_training.training(id)

    async def job_demand(self, id: str, *, iteration: int | None, layer: int | None) -> list[JobDemand]:
        """What the hosts of a job, or of the jobs of a run, had for each other in its all-to-alls."""
        return await self._job_training.demand(id, iteration=iteration, layer=layer)

    async def start_job(self, body: JobBody, caller: Caller | None) -> JobStatus:
        """Start a job that the testbed file allows."""
        return await self._jobs.start(body.name, body.words, Caller.of(caller, body.by))

    def stop_job(self, id: str, body: ByBody, caller: Caller | None) -> JobStatus:
        """Let a job end."""
        why = body.why if isinstance(body, ActBody) else ""
        return self._jobs.stop(id, Caller.of(caller, body.by), why=why)

    async def job_output(self, id: str, rank: int, first: int) -> JobOutput:
        """What a rank has written."""
        data = await self._jobs.output(id, rank, first)
        return JobOutput(data=data, first=first, next=first + len(data))

    # --- stored demands: see `Demands`

    async def add_demand(self, terms: AddDemand, data: bytes, caller: Caller | None) -> DemandSummary:
        """Store the demand of a file."""
        return await self._demands.add(terms, data, caller)

    async def demands(self) -> list[DemandSummary]:
        """In the order of their names."""
        return [*await self._demands.all()]

    async def demand(self, key: DemandKey) -> DemandMatrix:
        """One matrix."""
        return await self._demands.matrix(key)

    async def remove_demand(self, name: str) -> DemandSummary:
        """Returns what it was."""
        return await self._demands.remove(name)

    # --- overrides and reload

    async def override(
        self, switch: str, ends: Sequence[str], to: str, *, lease: str | None = None, epoch: int | None = None, by: str
    ) -> HeldEnds:
        """Hold fibre ends dark, or release them."""
        self._rights.check(CALLS["POST /api/v1/overrides"], lease)
        found = parse_ends(switch, ends, self.testbed)
        await self._note_act(lease, epoch)
        await self._reconfigurer.overrides.set(switch, found, PortOverride(to), lease=lease, epoch=epoch, by=by)
        blocked = [*self._rack.blocked(switch)]
        return HeldEnds(switch=switch, ends=[*found], to=to, blocked=blocked)

    async def reload(self, body: ReloadBody, caller: Caller | None = None) -> ReloadReport:
        """Take the changed testbed file, or say what it would change. Goes on when its caller goes away."""
        if body.dry_run:
            return await self._reloads.reload(body, caller)
        return await to_its_end(self._reloads.reload(body, caller), name="hwd:testbed/reload")

    # --- runs: see `Runs`

    async def start_run(
        self,
        *,
        text: str,
        file: str,
        parameters: Mapping[str, str],
        due_wall_ns: int | None = None,
        trial: TrialRun | None = None,
    ) -> RunStatus:
        return await self._runs.start(text=text, file=file, parameters=parameters, due_wall_ns=due_wall_ns, trial=trial)

    async def wait_run(self, id: str) -> None:
        """Until it has ended."""
        await self._runs.wait(id)

    async def abort_run(self, id: str, *, by: str, why: str = "") -> AbortedRun:
        if any(job.id == id for job in self._jobs.under_way()):
            raise RefusedError(f"run {id}: it is a job, and no run. `hwd job stop {id}` ends it")
        end = await self._runs.abort(id, by=f'{by} ("{why}")' if why else by)
        return AbortedRun(run=end.run, outcome=end.state, why=end.why, safe_state=end.safe_state)

    def pause_run(self, id: str, *, by: str) -> RunStatus:
        return self._runs.pause(id, by=by)

    def resume_run(self, id: str, *, by: str) -> RunStatus:
        return self._runs.resume(id, by=by)

    async def run_state(self, id: str) -> RunStatus:
        return await self._runs.state(id)

    def queue(self) -> list[RunStatus]:
        """In the order in which they start."""
        return [*self._runs.queue]

    async def runs(self, *, limit: int | None = None, before: str | None = None) -> list[RunSummary]:
        """Runs that began, newest first, each with its `state`, in short. `before`: only those older than this one."""
        found = await self._records.runs(limit=limit, before=before)
        return [replace(run, state=self._state(run)) for run in found]

    async def run(self, id: str) -> Run:
        """One run that began, by its id or the beginning of it."""
        run = await self._run(id)
        return replace(run, state=self._state(run))

    async def run_documents(self, id: str) -> AsyncIterator[dict[str, Json]]:
        """All documents of a run, oldest first; also those that still wait for the records."""
        run = await self._run(id)
        return (document.to_data() async for document in self._recorder.documents(run.id))

    async def close(self) -> None:
        """Bring runs and reconfigurations into their safe states, and end programs; jobs go on without the daemon.
        Nothing new begins from here on.
        """
        await self._jobs.close()
        await asyncio.gather(self._runs.close(), self._applies.close(), self._programs.close())

    # --- inside

    def _check_reconfiguration(self, access: Access, id: str | None) -> None:
        """`id` None: the only one under way."""
        under_way = self._reconfigurer.under_way
        if id is None and len(under_way) == 1:
            id = under_way[0].id
        if id is not None:
            self._rights.check_reconfiguration(access, id)

    def _lease(self, lease: Claim) -> HeldLease:
        return HeldLease(
            lease=lease.id,
            kind="claim",
            holder=lease.owner,
            ports=sorted(lease.ports, key=natural_key),
            expires_in_s=lease.left_s(self._clock.wall_ns()),
            epoch=UNSET if lease.epoch is None else lease.epoch,
            heard_within_s=UNSET if (within_s := self._leases.silence_left_s(lease.id)) is None else within_s,
        )

    def _request(self, request: LeaseRequest) -> HeldLease:
        if request.at_wall_ns is not None:
            return self._reserved(request)
        return self._waiting(request, self._requests.places()[request.id])

    def _waiting(self, request: LeaseRequest, place: Place) -> HeldLease:
        return HeldLease(
            lease=request.id,
            kind=WAITING,
            holder=request.holder,
            ports=sorted(request.ports, key=natural_key),
            expires_in_s=None,
            heard_within_s=WAITER_SILENT_S,
            for_s=request.for_s,
            priority=request.priority,
            place=place.number,
            waits_for=[*place.waits_for],
        )

    def _reserved(self, request: LeaseRequest) -> HeldLease:
        return HeldLease(
            lease=request.id,
            kind=RESERVED,
            holder=request.holder,
            ports=sorted(request.ports, key=natural_key),
            expires_in_s=request.claim.left_s(self._clock.wall_ns()),
            heard_within_s=CLAIM_WITHIN_S,
            for_s=request.for_s,
            at_wall_ns=UNSET if request.at_wall_ns is None else request.at_wall_ns,
            until_wall_ns=UNSET if request.ends_wall_ns is None else request.ends_wall_ns,
            waits_for=UNSET if (waits_for := self._requests.delay(request)) is None else [*waits_for],
        )

    def _ports(self, names: list[str]) -> frozenset[str]:
        """The ports that a lease of these names covers. Raises ConfigError for names that are none."""
        known = leasable(self.testbed)
        named = all_ports(self.testbed) if names == ["all"] else frozenset(names)
        if unknown := sorted(named - known.keys(), key=natural_key):
            raise ConfigError(
                f"lease: no such port: {', '.join(unknown)}. Ports are written ocs1.3 or h0.eth0; `all` takes every one"
            )
        return frozenset(port for name in named for port in known[name])

    async def _note_act(self, lease: str | None, epoch: int | None) -> None:
        """An act under a lease is a sign of its holder. Raises RefusedError where it is not in force."""
        if lease is not None:
            await self._leases.heartbeat(lease, epoch=epoch)

    def _delegation(self, lease: Delegation) -> HeldLease:
        ends = self.testbed.ends_of(lease.switch)
        return HeldLease(
            lease=lease.switch,
            kind="delegated",
            holder=f"host {lease.host}",
            ports=[*dict.fromkeys(f"{lease.switch}.{end.port}" for end in ends)],
            expires_in_s=None,
            **asdict(delegated(lease)),
        )

    def _state(self, run: RunSummary) -> RunState:
        if (status := self._runs.board.get(run.id)) is not None:
            return status.state
        return RunState.RUNNING if run.outcome is None else RunState(run.outcome)

    async def _run(self, id: str) -> Run:
        try:
            return await self._records.run(id)
        except UnknownError:
            if id and any(status.run.startswith(id) for status in self._runs.queue):
                raise UnknownError(
                    f"run {id}: is in the queue, and nothing is recorded of it. See `hwd queue`"
                ) from None
            raise
