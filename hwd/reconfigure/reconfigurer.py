"""The reconfigurer: takes each reconfiguration from its request to its end.

Its steps: claim, read, plan, journal, drive, read back, wait for ready links, confirm or roll back.

reconfiguration = await reconfigurer.begin(request)          # switches driven and read back
await reconfigurer.wait_ready(reconfiguration, within_s=15)  # links ready, else it is rolled back
await reconfigurer.confirm(reconfiguration)
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from hwd.fabric.in_use import InUse
from hwd.model.circuit import Observed
from hwd.model.daemon import JournalGivenUp
from hwd.model.desired_state import wanted_of
from hwd.model.host import ClockAligned, ClockStepped, HostBirth, HostEvent, HostUp
from hwd.model.interlock import InterlockName, in_order, refusal, refused
from hwd.model.plan import Plan
from hwd.model.plan_summary import InterlockRefused, PlanMade
from hwd.model.reconfiguration import LeftOpen
from hwd.model.request import Caller, Request
from hwd.model.run_facts import RunHost
from hwd.ports.claim import Claim, holder_of
from hwd.ports.isolation import breach, isolation
from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import PortAction, Reason
from hwd.reconfigure.apply.agent_watch import Agents, AgentWatch
from hwd.reconfigure.apply.completion import Completion
from hwd.reconfigure.apply.crash_recovery import CrashRecovery
from hwd.reconfigure.apply.drive import Drive, Overrides
from hwd.reconfigure.apply.readiness import Hangs, Readiness, not_ready_error
from hwd.reconfigure.apply.reconfiguration import Emitter, Outcome, Reconfiguration, State
from hwd.reconfigure.apply.switches import Look, Switches, same_fault
from hwd.reconfigure.desired.desired_state import DesiredState
from hwd.reconfigure.desired.history import HostSettings, Outcomes
from hwd.reconfigure.journal.journal import Journal
from hwd.reconfigure.plans.move_counts import MoveCounts
from hwd.reconfigure.plans.planner import BackgroundPlanner, PlanWithInputs, relied_ports
from hwd.reconfigure.plans.route import RoutedRequest
from hwd.reconfigure.prepared.sets import PreparedSets
from hwd.reconfigure.transfers import InFlightError, Transfers
from hwd.timeline.clock_step import ClockStep
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Json, Sink
from hwd_drivers.core.errors import FailedError, HwdError, NotReadyError, RefusedError, StalePlanError
from hwd_drivers.core.ids import Ids
from hwd_drivers.core.values import natural_key
from hwd_drivers.devices.facts import SwitchDown, SwitchUp
from hwd_drivers.devices.supervisor import NOT_CONNECTED_YET
from hwd_drivers.switching.moves import ApplyMode

GRACE_NS = 1_000_000
"""Events that ended this long before the start still belong to it: the agents' stamps have an alignment error."""


class Reconfigurer:
    """Owns every write to the switches of one testbed. Also a `Sink`: it takes the events of agents and switches."""

    TAKES: ClassVar = (
        RunHost,
        HostEvent,
        HostUp,
        HostBirth,
        ClockAligned,
        ClockStepped,
        SwitchDown,
        SwitchUp,
    )

    def __init__(
        self,
        *,
        in_use: InUse,
        planner: BackgroundPlanner,
        switches: Switches,
        agents: Agents,
        hangs: Hangs,
        journal: Journal,
        ledger: Ledger,
        outcomes: Outcomes,
        move_counts: MoveCounts,
        desired: DesiredState,
        transfers: Transfers,
        clock: Clock,
        ids: Ids,
        sink: Sink,
        note_baseline: Callable[[Plan, Observed], Awaitable[None]] | None = None,
    ) -> None:
        self._note_baseline = note_baseline
        self._planner = planner
        self._switches = switches
        self._ledger = ledger
        self._outcomes = outcomes
        self._move_counts = move_counts
        self._transfers = transfers
        self.desired = desired
        self._clock = clock
        self._ids = ids
        self._emitter = emitter = Emitter(clock, sink)
        self._host_settings = HostSettings()
        self._under_way: dict[str, Reconfiguration] = {}
        self._last_of_run: dict[str, dict[str, Reconfiguration]] = {}
        self.overrides = Overrides(planner=planner, switches=switches, ledger=ledger, clock=clock)
        self._recovery = CrashRecovery(
            journal=journal,
            switches=switches,
            ledger=ledger,
            transfers=transfers,
            lit_by=planner.ports_lit_by,
            clock=clock,
            emit=self._emitter,
        )
        transfers.light_of_ways_back(self._recovery.light)
        ledger.report_why(Reason.RECONFIGURATION, self._left_of)
        agent_watch = AgentWatch(agents)
        self._readiness = Readiness(switches, agent_watch, hangs)
        self._drive = Drive(
            switches=switches,
            agent_watch=agent_watch,
            recovery=self._recovery,
            readiness=self._readiness,
            ledger=ledger,
            emitter=emitter,
            clock=clock,
            sink=sink,
        )
        self._completion = Completion(
            under_way=self._under_way,
            switches=switches,
            agent_watch=agent_watch,
            recovery=self._recovery,
            ledger=ledger,
            host_settings=self._host_settings,
            desired=desired,
            transfers=transfers,
            clock=clock,
            emitter=self._emitter,
        )
        for entry in self._recovery.awaiting:
            self._completion.take_over(entry)
        self.sets = PreparedSets(
            in_use=in_use,
            journal=journal,
            planner=planner,
            switches=switches,
            ledger=ledger,
            agent_watch=agent_watch,
            drive=self._drive,
            completion=self._completion,
            transfers=transfers,
            under_way=self._under_way,
            planned=self._plan_target,
            report_refusals=partial(self._report_refusals, run=None),
            isolate=self._isolated,
            note_baseline=note_baseline,
            clock=clock,
            ids=ids,
            emitter=emitter,
        )

    # --- reading and planning: nothing is touched

    @property
    def under_way(self) -> tuple[Reconfiguration, ...]:
        return tuple(self._under_way.values())

    @property
    def observed(self) -> Observed:
        """What each switch that the daemon drives reported last."""
        return self._switches.latest()

    @property
    def unread(self) -> frozenset[str]:
        """Switches that were not read yet, and may be soon: no attempt to connect to them has failed."""
        unread = {*self._switches.names} - self._switches.latest().keys()
        return frozenset(name for name in unread if self._switches.cause(name) in (None, NOT_CONNECTED_YET))

    @property
    def left_open(self) -> tuple[LeftOpen, ...]:
        """Reconfigurations that were cut off and that the journal still has open."""
        return self._recovery.left_open()

    @property
    def journal_trouble(self) -> str:
        """Which ends the journal did not take, or why it takes nothing; empty where all is well."""
        return self._recovery.trouble

    def last_of(self, run: str) -> tuple[Reconfiguration, ...]:
        """The last reconfiguration of each branch of a run, ended or not."""
        return tuple(self.last_by_branch(run).values())

    def last_by_branch(self, run: str) -> Mapping[str, Reconfiguration]:
        """The last reconfigurations of a run, as `last_of`, by the names of the branches."""
        return self._last_of_run.get(run, {})

    @property
    def drain_s(self) -> float:
        """How long a way back waits for transfers before it cuts them."""
        return self._transfers.rules.drain_s

    def unreadable(self, run: str) -> list[str]:
        """Switches that cannot be read now, of what the run confirmed last."""
        confirmed = (one for one in self.last_of(run) if one.outcome is Outcome.CONFIRMED)
        return sorted(
            {name for one in confirmed for name in one.switches if self._switches.away([name])}, key=natural_key
        )

    def forget(self, run: str, branch: str | None = None) -> None:
        """Forget a run that has ended, or one branch of it."""
        if branch is None:
            self._last_of_run.pop(run, None)
        else:
            self._last_of_run.get(run, {}).pop(branch, None)

    def get(self, id: str | None, *, or_else: str = "") -> Reconfiguration:
        """The one with this id, or the only one in progress.

        Raises RefusedError, with the outcome of one that has ended, and then `or_else`: what to do in its place.
        """
        if id is None and len(self._under_way) == 1:
            return next(iter(self._under_way.values()))
        if id is not None and id in self._under_way:
            return self._under_way[id]
        names = ", ".join(self._under_way) or "none"
        remedy = f". {or_else}" if or_else else ""
        if id is None and self._under_way:
            raise RefusedError(f"which reconfiguration? Under way: {names}")
        left = self._recovery.texts()
        if id is not None and id in left:
            raise RefusedError(left[id])
        if id is None and left:
            raise RefusedError(f"no reconfiguration is under way. Left open: {'; '.join(left.values())}")
        if id is None:
            last = self._outcomes.last
            raise RefusedError(f"no reconfiguration is under way{f'. The last one, {last}' if last else ''}{remedy}")
        if (became := self._outcomes.text(id)) is not None:
            raise RefusedError(f"reconfiguration {became}. It has ended, and nothing was changed now{remedy}")
        raise RefusedError(f"reconfiguration {id}: not known, or long over. Under way: {names}")

    def became(self, id: str) -> str | None:
        """The outcome of one that has ended lately; None for one that is unknown or in progress."""
        return self._outcomes.text(id)

    def is_known(self, id: str) -> bool:
        """Whether a reconfiguration of this id is in progress, left open, or ended lately."""
        return id in self._under_way or self._recovery.has(id) or self.became(id) is not None

    async def plan(self, request: Request) -> PlanWithInputs:
        """Read the switches and plan; emits `plan.made`, and `interlock.refused` where the plan has such."""
        routed = await self._planner.route(request)
        planned = await self._planned(routed, await self._switches.read_unmoved(routed.switches))
        plan = planned.plan
        asker = Asker(lease=plan.lease, epoch=request.body.epoch, cuts=True)  # transfers are an interlock of the plan
        self._ledger.check(asker, plan.touches, PortAction.CHANGE, now_wall_ns=self._clock.wall_ns())
        plan = self._isolated(self._in_flight(plan, request.body.overrides))
        planned = replace(planned, plan=plan)
        self._emitter(PlanMade(plan=plan.summary, what=plan.what, hash=plan.hash))
        self._report_refusals(plan, run=None)
        return planned

    # --- the way

    async def begin(
        self,
        request: Request,
        *,
        planned: PlanWithInputs | None = None,
        run: str | None = None,
        branch: str = "",
        sweep: Mapping[str, Json] | None = None,
        id: str | None = None,
        caller: Caller | None = None,
    ) -> Reconfiguration:
        """Drive the switches to what is wanted and read them back.

        `planned`: what `plan` made of the request; nothing else is applied. `id`: by default a new one. `sweep`: the
        parameter values of the sweep of `run`. `caller`: who asks for it. A request that is a way back is refused by no
        interlock and held off by no reload: it waits for the end of transfers for the testbed's `drain_s` and then cuts
        them. They refuse any other, after its `PlanBody.transfers_s`.
        Before any switch moves it raises RefusedError (lease, port in use by another one, an interlock), StalePlanError
        (the switches differ from what `planned` was made for), LinkError and ConfigError; after the switches were
        rolled back FailedError and LinkError. No interlock is asked on the way back.
        """
        self.write_ends()
        if planned is not None and self._planner.is_current(planned.routed):
            routed = planned.routed
        else:
            routed = await self._planner.route(request)
        id = id or self._ids.token(length=8)
        self._claim(id, routed, run=run, caller=caller, relies_on=routed.ports, is_way_back=request.is_way_back)
        reconfiguration: Reconfiguration | None = None
        try:
            drain = self._drain(request)
            while reconfiguration is None:
                try:
                    async with self._switches.turns.take(routed.switches):
                        reconfiguration = await self._prepare(
                            id, routed, planned, run=run, branch=branch, sweep=sweep or {}, caller=caller, drain=drain
                        )
                        await self._drive.run(reconfiguration)
                except InFlightError as error:
                    self._transfers.block(id, error.ports, request.wanted.name, by=_owner(run, caller))
                    await self._transfers.ended(error.ports, by_s=drain.by_s)
        except BaseException as error:
            self._transfers.unblock(id)
            if reconfiguration is None:
                self._ledger.release(Reason.RECONFIGURATION, id)
                raise
            why = str(error) if isinstance(error, HwdError) else repr(error)
            await self.roll_back(reconfiguration, "aborted" if isinstance(error, asyncio.CancelledError) else why)
            if not isinstance(error, HwdError):
                raise
            if isinstance(error, NotReadyError):  # in a step before the last
                raise not_ready_error(reconfiguration) from error
            after = reconfiguration.outcome or Outcome.FAILED
            raise same_fault(
                error, f"{error}. Outcome: {after}{'' if after is Outcome.ROLLED_BACK else f' ({reconfiguration.why})'}"
            ) from error
        return reconfiguration

    async def wait_ready(self, reconfiguration: Reconfiguration, *, within_s: float) -> None:
        """Wait until all links are ready, or somebody confirms the reconfiguration before.

        Raises NotReadyError after the roll-back, when the links are late or cannot become ready because a switch, all
        agents or an interface are away; NotRolledBackError where the roll-back failed; FailedError as soon as somebody
        rolls it back.
        """
        if reconfiguration.ending is None and reconfiguration.state is not State.ENDED:
            self._emitter.change_state(reconfiguration, State.WAITING)
        why = await self._readiness.wait(reconfiguration, within_s=within_s)
        if why is not None:
            await self.roll_back(reconfiguration, why)
            if reconfiguration.outcome is not Outcome.CONFIRMED:  # somebody confirmed it first
                raise not_ready_error(reconfiguration)
        zero_ns = reconfiguration.started_ns
        reconfiguration.remarks += [one.text(zero_ns=zero_ns) for one in reconfiguration.absences.over()]
        await self._completion.wait_end(reconfiguration)
        if reconfiguration.outcome not in (None, Outcome.CONFIRMED):
            raise FailedError(
                f"{reconfiguration.plan.what}: {reconfiguration.outcome} meanwhile: {reconfiguration.why}"
            )

    async def await_confirm(self, reconfiguration: Reconfiguration) -> None:
        """Roll it back unless it is confirmed in time: see `Completion.await_confirm`."""
        await self._completion.await_confirm(reconfiguration)

    async def confirm(self, reconfiguration: Reconfiguration) -> None:
        """Make the wanted state durable, and the desired one: see `Completion.confirm`. The journal has both; what
        moved nothing is not in it, and waits for the records.
        """
        await self._completion.confirm(reconfiguration)
        if not reconfiguration.journaled and (why := await self.desired.recorded()):
            reconfiguration.remarks.append(why)

    async def roll_back(self, reconfiguration: Reconfiguration, why: str) -> None:
        """Back to the state read at the start: see `Completion.roll_back`."""
        await self._completion.roll_back(reconfiguration, why)

    # --- after a crash, or when a switch comes back

    async def recover(self) -> None:
        """Undo what the journal has open, but for what awaits a confirm: its time goes on.

        With an unreachable switch it stays open.
        """
        self._completion.resume()
        self.write_ends()
        await self._recovery.recover()

    def write_ends(self) -> None:
        """Try again the ends that the journal did not take, and confirm what waited for that. See `journal_trouble`."""
        self._recovery.write_ends()
        self._completion.finish_written()

    async def give_up(self, id: str, *, by: str, reason: str = "") -> JournalGivenUp:
        """Close one that the journal has open, as it is: see `CrashRecovery.give_up`."""
        return await self._recovery.give_up(id, by=by, reason=reason)

    async def close(self) -> None:
        """Roll back all in progress but for what awaits a confirm, which the next start goes on with.

        Tries the failed ends of the journal again.
        """
        to_end = [one for one in self.under_way if not self._completion.leave(one)]
        await asyncio.gather(*(self.roll_back(one, "the daemon ends") for one in to_end))
        self.write_ends()

    def __call__(self, document: Document) -> None:
        """Sink: takes events of agents, settings of NIC ports, and connections of switches."""
        match document.fact:
            case RunHost() as action:
                self._host_settings.see(action, at_ns=document.at_ns)
            case HostEvent() as event:
                for reconfiguration in self._under_way.values():
                    if event.latest_ns >= reconfiguration.started_ns - GRACE_NS:
                        reconfiguration.see(event)
            case ClockStepped(host=host) as stepped:
                for reconfiguration in self._under_way.values():
                    if host in reconfiguration.hosts and stepped.latest_ns >= reconfiguration.started_ns:
                        reconfiguration.clock_steps.append((host, ClockStep.of(stepped)))
            case SwitchDown(switch=switch, cause=cause):
                for reconfiguration in self._under_way.values():
                    if switch in reconfiguration.switches:
                        reconfiguration.absences.down(switch, cause, at_ns=document.at_ns)
            case SwitchUp(switch=switch):
                for reconfiguration in self._under_way.values():
                    reconfiguration.absences.up(switch, at_ns=document.at_ns)
            case HostUp() | HostBirth() | ClockAligned():
                for reconfiguration in self._under_way.values():
                    reconfiguration.agents_changed.set()

    # --- steps

    async def _prepare(
        self,
        id: str,
        routed: RoutedRequest,
        planned: PlanWithInputs | None,
        *,
        run: str | None,
        branch: str,
        sweep: Mapping[str, Json],
        caller: Caller | None,
        drain: "_Drain",
    ) -> Reconfiguration:
        """Plan, or compare with what was planned for, and take the ports that the plan touches.

        Raises InFlightError while it is to wait for the end of transfers; nothing is taken then.
        """
        theirs = self._ports_of_others(id)  # later ones wait for the end of our turn
        look = await self._switches.read_unmoved(routed.switches)
        plan = (await self._planned(routed, look, planned)).plan
        if planned is not None and plan.hash != planned.plan.hash:
            raise StalePlanError(
                f"plan {planned.plan.hash}: {_difference(planned.plan, plan)}; "
                f"the plan now is {plan.hash}. Look at it and apply that"
            )
        overrides, waited_s = routed.request.body.overrides, drain.waited_s
        if not (
            drain.is_way_back and drain.is_over
        ):  # no await from here to the claim: a transfer comes before or after
            plan = self._in_flight(plan, overrides)
        cuts = drain.is_way_back or InterlockName.TRANSFER_IN_FLIGHT in overrides
        if why := refusal(plan.interlocks):
            if not drain.is_over and {one.name for one in refused(plan.interlocks)} == {
                InterlockName.TRANSFER_IN_FLIGHT
            }:
                self._check_change(id, routed.request, plan.touches, run=run, is_way_back=drain.is_way_back)
                raise InFlightError(why, plan.touches)
            self._report_refusals(plan, run=run)
            raise RefusedError(why)
        self._claim(
            id,
            routed,
            run=run,
            caller=caller,
            relies_on=routed.ports | relied_ports(plan),
            changes=plan.touches,
            cuts=cuts,
            is_way_back=drain.is_way_back,
        )
        self._transfers.unblock(id)
        remarks = self._transfers.cut(plan.touches, by=id, what=plan.what, waited_s=waited_s) if cuts else []
        plan = self._isolated(plan)
        if self._note_baseline is not None:
            await self._note_baseline(plan, look.observed)
        lease = None if plan.lease is None else self._ledger.get(Reason.LEASE, plan.lease)
        wanted = wanted_of(plan.moves, plan.freed)
        reconfiguration = Reconfiguration(
            id=id,
            plan=plan,
            run=run,
            started_ns=self._clock.monotonic_ns(),
            read_ns=dict(look.ended_ns),
            ports_of_others=theirs,
            sweep=dict(sweep),
            settings=self._host_settings.in_force({end for link in plan.links for end in link.routed.link.ends}),
            lease_holder=None if lease is None else lease.owner,
            caller=caller,
            wanted=self.desired.already(wanted) if plan.is_restore else wanted,
            lease_epoch=None if lease is None else lease.epoch,
            remarks=remarks,
        )
        self._under_way[id] = reconfiguration
        if run is not None:
            self._last_of_run.setdefault(run, {})[branch] = reconfiguration
        return reconfiguration

    async def _planned(self, routed: RoutedRequest, look: Look, before: PlanWithInputs | None = None) -> PlanWithInputs:
        """Plan, unless a plan was made before from the same."""
        blocked, motion = self._switches.blocked(routed.switches), self._move_counts.of(routed.switches)
        planned_from = (routed, look.observed, blocked, motion)
        if before is not None and (before.routed, before.observed, before.blocked, before.motion) == planned_from:
            return before
        plan = await self._planner.plan(*planned_from)
        return PlanWithInputs(routed=routed, observed=look.observed, blocked=blocked, motion=motion, plan=plan)

    def _drain(self, request: Request) -> "_Drain":
        now_s = asyncio.get_running_loop().time()
        for_s = self._transfers.rules.drain_s if request.is_way_back else request.body.transfers_s
        return _Drain(since_s=now_s, by_s=now_s + for_s, is_way_back=request.is_way_back)

    def _in_flight(self, plan: Plan, overrides: Mapping[InterlockName, str]) -> Plan:
        """The plan with the interlock of the transfers that are in flight now."""
        others = [one for one in plan.interlocks if one.name is not InterlockName.TRANSFER_IN_FLIGHT]
        found = self._planner.in_flight(self._transfers.on(plan.touches), len(plan.touches), overrides)
        return replace(plan, interlocks=in_order([*others, *found]))

    async def _plan_target(self, request: Request, look: Look) -> Plan:
        """A target of a prepared set, from one look at the switches for all of them."""
        return (await self._planned(await self._planner.route(request), look)).plan

    def _isolated(self, plan: Plan) -> Plan:
        """The plan with its proof that it touches no circuit of somebody else's lease; raises RefusedError where it
        does.
        """
        now = self._clock.wall_ns()
        leases = [one for one in self._ledger.all(Reason.LEASE) if one.is_in_force(now)]
        own = next((one for one in leases if one.id == plan.lease), None)
        others = [one for one in leases if own is None or one.owner != own.owner]
        latest = self._switches.latest()
        found = isolation(
            self._planner.circuits(latest) if others else {},
            others,
            plan.moves,
            plan.touches,
            unknown=set(self._switches.names) - latest.keys() if others else (),
        )
        if (why := breach(found)) is not None:
            raise RefusedError(why)
        return replace(plan, lease_epoch=None if own is None else own.epoch, isolation=found)

    def _report_refusals(self, plan: Plan, *, run: str | None) -> None:
        """One document for each interlock that refuses."""
        found = refused(plan.interlocks)
        subjects = Counter(one.name for one in found)
        for one in {one.name: one for one in reversed(found)}.values():
            self._emitter(
                InterlockRefused(
                    interlock=one.name,
                    subject=one.subject,
                    figure=one.figure,
                    limit=one.limit,
                    unit=one.unit,
                    why=one.why,
                    subjects=subjects[one.name],
                    what=plan.what,
                    hash=plan.hash,
                    run=run,
                )
            )

    def _claim(
        self,
        id: str,
        routed: RoutedRequest,
        *,
        run: str | None,
        caller: Caller | None,
        relies_on: frozenset[str],
        changes: frozenset[str] = frozenset(),
        cuts: bool = False,
        is_way_back: bool = False,
    ) -> None:
        """Claim ports for a reconfiguration, or widen its claim; raises RefusedError, and the old claim then stays.

        `cuts`: in spite of transfers in flight.
        """
        request, now = routed.request, self._clock.wall_ns()
        switches = frozenset(routed.switches)
        whole = request.body.mode is ApplyMode.OVERWRITE or bool(request.wanted.emptied)
        body = request.body
        asker = Asker(
            lease=body.lease,
            epoch=body.epoch,
            run=run,
            reconfiguration=id,
            switches=switches,
            whole=whole,
            cuts=cuts,
            is_way_back=is_way_back,
        )
        self._ledger.check(asker, relies_on | changes, PortAction.RELY, now_wall_ns=now)
        if changes:
            self._ledger.check(asker, changes, PortAction.CHANGE, now_wall_ns=now)
        self._ledger.claim(
            Claim(
                id=id,
                reason=Reason.RECONFIGURATION,
                owner=_owner(run, caller),
                ports=changes,
                run=run,
                relies_on=relies_on,
                switches=switches,
                whole=whole,
                what=request.wanted.name,
            )
        )

    def _check_change(
        self, id: str, request: Request, ports: frozenset[str], *, run: str | None, is_way_back: bool
    ) -> None:
        """Raises RefusedError where another reason than a transfer keeps these ports from being changed."""
        body, now = request.body, self._clock.wall_ns()
        asker = Asker(
            lease=body.lease, epoch=body.epoch, run=run, reconfiguration=id, cuts=True, is_way_back=is_way_back
        )
        self._ledger.check(asker, ports, PortAction.CHANGE, now_wall_ns=now)

    def _left_of(self, claim: Claim) -> str:
        one = self._under_way.get(claim.id)
        if one is None:
            return "it is being planned, which takes some seconds at most"
        return one.left_text(now_ns=self._clock.monotonic_ns(), now_s=asyncio.get_running_loop().time())

    def _ports_of_others(self, id: str) -> frozenset[str]:
        """Ports that other reconfigurations in progress change or rely on, and those that prepared sets may switch."""
        claims = self._ledger.all(Reason.RECONFIGURATION, Reason.PREPARED_SET)
        others = (claim for claim in claims if claim.id != id)
        return frozenset(port for claim in others for port in claim.ports | claim.relies_on)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drain:
    """The time until which a reconfiguration waits for the end of transfers, in seconds of the loop's clock."""

    since_s: float
    by_s: float
    is_way_back: bool

    @property
    def is_over(self) -> bool:
        return asyncio.get_running_loop().time() >= self.by_s

    @property
    def waited_s(self) -> float:
        return asyncio.get_running_loop().time() - self.since_s


def _owner(run: str | None, caller: Caller | None) -> str:
    """Whose a reconfiguration is, for others who want its ports."""
    if run is not None:
        return holder_of(run)
    return "an unnamed caller" if caller is None else caller.name


def _difference(planned: Plan, now: Plan) -> str:
    """Why the hash of a plan has changed."""
    if [(move.switch, move.before) for move in planned.moves] == [(move.switch, move.before) for move in now.moves]:
        return "its interlocks find something else now"
    return "the switches differ from what it was made for"
