"""The reconfigurer: takes each reconfiguration from its request to its end.

Its steps: claim, read, plan, journal, drive, read back, wait for ready links, confirm or roll back.

reconfiguration = await reconfigurer.begin(request)          # switches driven and read back
await reconfigurer.wait_ready(reconfiguration, within_s=15)  # links ready, else it is rolled back
await reconfigurer.confirm(reconfiguration)
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from hwd.model.circuit import Observed
from hwd.model.desired_state import wanted_of
from hwd.model.host import ClockAligned, ClockStepped, HostBirth, HostEvent, HostUp
from hwd.model.interlock import InterlockName, refusal, refused
from hwd.model.plan import Plan
from hwd.model.plan_summary import PlanMade
from hwd.model.request import Caller, Request
from hwd.model.run_facts import RunHost
from hwd.ports.claim import Claim
from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import PortAction, Reason
from hwd.rack.links import Links
from hwd.reconfigure.apply.agent_watch import Agents, AgentWatch
from hwd.reconfigure.apply.completion import Completion
from hwd.reconfigure.apply.crash_recovery import CrashRecovery
from hwd.reconfigure.apply.drive import Drive
from hwd.reconfigure.apply.journal_writer import JournalWriter
from hwd.reconfigure.apply.overrides import Overrides
from hwd.reconfigure.apply.ready_wait import ReadyWait, not_ready_error
from hwd.reconfigure.apply.reconfiguration import Emitter, Outcome, Reconfiguration, State
from hwd.reconfigure.apply.switches import Switches
from hwd.reconfigure.claims import Attempt, PortClaims
from hwd.reconfigure.desired.desired_state import DesiredState
from hwd.reconfigure.desired.history import HostSettings, Outcomes
from hwd.reconfigure.journal.journal import Journal
from hwd.reconfigure.plans.planner import PlanWithInputs, relied_ports
from hwd.reconfigure.plans.planning import Planning
from hwd.reconfigure.plans.route import RoutedRequest
from hwd.reconfigure.prepared.preparer import Preparer
from hwd.reconfigure.prepared.set_moves import SetMoves
from hwd.reconfigure.prepared.sets import PreparedSets
from hwd.reconfigure.prepared.settling import Settling
from hwd.reconfigure.transfers import InFlightError, Transfers
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Json, Sink
from hwd_drivers.core.errors import FailedError, RefusedError, StalePlanError
from hwd_drivers.core.ids import Ids
from hwd_drivers.core.values import natural_key
from hwd_drivers.devices.facts import SwitchDown, SwitchUp
from hwd_drivers.devices.supervisor import NOT_CONNECTED_YET

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
        planning: Planning,
        switches: Switches,
        agents: Agents,
        links: Links,
        journal: Journal,
        ledger: Ledger,
        outcomes: Outcomes,
        desired: DesiredState,
        transfers: Transfers,
        clock: Clock,
        ids: Ids,
        sink: Sink,
    ) -> None:
        self._planning = planning
        self._switches = switches
        self._ledger = ledger
        self._claims = PortClaims(ledger, clock)
        self._outcomes = outcomes
        self._transfers = transfers
        self.desired = desired
        self._clock = clock
        self._ids = ids
        self._emitter = emitter = Emitter(clock, sink)
        self._host_settings = HostSettings()
        self._last_of_run: dict[str, dict[str, Reconfiguration]] = {}
        planner, agent_watch = planning.planner, AgentWatch(agents)
        self.overrides = Overrides(planner=planner, switches=switches, ledger=ledger, clock=clock)
        self._writer = JournalWriter(journal, ledger, clock=clock, emit=emitter)
        self.recovery = CrashRecovery(
            writer=self._writer,
            switches=switches,
            ledger=ledger,
            transfers=transfers,
            lit_by=planner.ports_lit_by,
            clock=clock,
            emit=emitter,
        )
        transfers.light_of_ways_back = self.recovery.light
        ledger.report_why(Reason.RECONFIGURATION, self._left_of)
        self._ready_wait = ReadyWait(switches, agent_watch, links)
        self._drive = Drive(
            switches=switches,
            agent_watch=agent_watch,
            writer=self._writer,
            ready_wait=self._ready_wait,
            ledger=ledger,
            emitter=emitter,
            clock=clock,
            sink=sink,
        )
        self.completion = Completion(
            switches=switches,
            agent_watch=agent_watch,
            writer=self._writer,
            recovery=self.recovery,
            ledger=ledger,
            host_settings=self._host_settings,
            desired=desired,
            transfers=transfers,
            clock=clock,
            emitter=emitter,
        )
        self._under_way = self.completion.under_way
        for entry in self.recovery.awaiting:
            self.completion.take_over(entry)
        moves = SetMoves(
            planner, ledger=ledger, transfers=transfers, drive=self._drive, completion=self.completion, clock=clock
        )
        self.sets = PreparedSets(
            preparer=Preparer(planning, journal=journal, switches=switches, ledger=ledger, clock=clock, ids=ids),
            journal=journal,
            switches=switches,
            ledger=ledger,
            agent_watch=agent_watch,
            moves=moves,
            settling=Settling(
                planner,
                journal=journal,
                switches=switches,
                ledger=ledger,
                moves=moves,
                completion=self.completion,
                clock=clock,
                ids=ids,
                emit=emitter,
            ),
            clock=clock,
            emit=emitter,
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
    def journal_trouble(self) -> str:
        """Which ends the journal did not take, or why it takes nothing; empty where all is well."""
        return self._writer.trouble

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
        left = self.recovery.texts()
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
        return id in self._under_way or self.recovery.has(id) or self.became(id) is not None

    async def plan(self, request: Request) -> PlanWithInputs:
        """Read the switches and plan; emits `plan.made`, and `interlock.refused` where the plan has such."""
        routed = await self._planning.planner.route(request)
        planned = await self._planning.plan(routed, await self._switches.read_unmoved(routed.switches))
        plan = planned.plan
        asker = Asker(lease=plan.lease, epoch=request.body.epoch, cuts=True)  # transfers are an interlock of the plan
        self._ledger.check(asker, plan.touches, PortAction.CHANGE, now_wall_ns=self._clock.wall_ns())
        plan = self._planning.isolated(self._planning.in_flight(plan, request.body.overrides))
        planned = replace(planned, plan=plan)
        self._emitter(PlanMade(plan=plan.summary, what=plan.what, hash=plan.hash))
        self._planning.report_refusals(plan)
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
        planner = self._planning.planner
        if planned is not None and planner.router.is_current(planned.routed):
            routed = planned.routed
        else:
            routed = await planner.route(request)
        attempt = Attempt(
            id=id or self._ids.token(length=8),
            request=request,
            run=run,
            branch=branch,
            sweep=sweep or {},
            caller=caller,
            drain_s=self._transfers.rules.drain_s if request.is_way_back else request.body.transfers_s,
        )
        self._claims.take(attempt, routed, relies_on=routed.ports)
        reconfiguration: Reconfiguration | None = None
        try:
            while reconfiguration is None:
                try:
                    async with self._switches.turns.take(routed.switches):
                        reconfiguration = await self._prepare(attempt, routed, planned)
                        await self._drive.run(reconfiguration)
                except InFlightError as error:
                    self._transfers.block(attempt.id, error.ports, request.wanted.name, by=attempt.owner)
                    await self._transfers.ended(error.ports, by_s=attempt.drained_by_s)
        except BaseException as error:
            self._transfers.unblock(attempt.id)
            if reconfiguration is None:
                self._ledger.release(Reason.RECONFIGURATION, attempt.id)
            else:
                await self.completion.go_back_from(reconfiguration, error)
            raise
        return reconfiguration

    async def wait_ready(self, reconfiguration: Reconfiguration, *, within_s: float) -> None:
        """Wait until all links are ready, or somebody confirms the reconfiguration before.

        Raises NotReadyError after the roll-back, when the links are late or cannot become ready because a switch, all
        agents or an interface are away; NotRolledBackError where the roll-back failed; FailedError as soon as somebody
        rolls it back.
        """
        if reconfiguration.ending is None and reconfiguration.state is not State.ENDED:
            self._emitter.change_state(reconfiguration, State.WAITING)
        why = await self._ready_wait.wait(reconfiguration, within_s=within_s)
        if why is not None:
            await self.roll_back(reconfiguration, why)
            if reconfiguration.outcome is not Outcome.CONFIRMED:  # somebody confirmed it first
                raise not_ready_error(reconfiguration)
        zero_ns = reconfiguration.started_ns
        reconfiguration.remarks += [one.text(zero_ns=zero_ns) for one in reconfiguration.absences.over()]
        await self.completion.wait_end(reconfiguration)
        if reconfiguration.outcome not in (None, Outcome.CONFIRMED):
            raise FailedError(
                f"{reconfiguration.plan.what}: {reconfiguration.outcome} meanwhile: {reconfiguration.why}"
            )

    async def confirm(self, reconfiguration: Reconfiguration) -> None:
        """Make the wanted state durable, and the desired one: see `Completion.confirm`. The journal has both; what
        moved nothing is not in it, and waits for the records.
        """
        await self.completion.confirm(reconfiguration)
        if not reconfiguration.journaled and (why := await self.desired.recorded()):
            reconfiguration.remarks.append(why)

    async def roll_back(self, reconfiguration: Reconfiguration, why: str) -> None:
        """Back to the state read at the start: see `Completion.roll_back`."""
        await self.completion.roll_back(reconfiguration, why)

    # --- after a crash, or when a switch comes back

    async def recover(self) -> None:
        """Undo what the journal has open, but for what awaits a confirm: its time goes on.

        With an unreachable switch it stays open.
        """
        self.completion.resume()
        self.write_ends()
        await self.recovery.recover()

    def write_ends(self) -> None:
        """Try again the ends that the journal did not take, and confirm what waited for that. See `journal_trouble`."""
        self._writer.write_ends()
        self.completion.finish_written()

    async def close(self) -> None:
        """Roll back all in progress but for what awaits a confirm, which the next start goes on with.

        Tries the failed ends of the journal again.
        """
        to_end = [one for one in self.under_way if not self.completion.leave(one)]
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
                        reconfiguration.clock_steps.append(stepped)
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
        self, attempt: Attempt, routed: RoutedRequest, planned: PlanWithInputs | None
    ) -> Reconfiguration:
        """Plan, or compare with what was planned for, and take the ports that the plan touches.

        Raises InFlightError while it is to wait for the end of transfers; nothing is taken then.
        """
        id, planning, is_way_back = attempt.id, self._planning, attempt.request.is_way_back
        theirs = self._claims.of_others(id)  # later ones wait for the end of our turn
        look = await self._switches.read_unmoved(routed.switches)
        plan = (await planning.plan(routed, look, planned)).plan
        if planned is not None and plan.hash != planned.plan.hash:
            raise StalePlanError(
                f"plan {planned.plan.hash}: {_difference(planned.plan, plan)}; "
                f"the plan now is {plan.hash}. Look at it and apply that"
            )
        overrides, now_s = routed.request.body.overrides, asyncio.get_running_loop().time()
        waited_s, has_waited = now_s - attempt.since_s, now_s >= attempt.drained_by_s
        if not (is_way_back and has_waited):  # no await from here to the claim: a transfer comes before or after
            plan = planning.in_flight(plan, overrides)
        cuts = is_way_back or InterlockName.TRANSFER_IN_FLIGHT in overrides
        if why := refusal(plan.interlocks):
            if not has_waited and {one.name for one in refused(plan.interlocks)} == {InterlockName.TRANSFER_IN_FLIGHT}:
                self._claims.check_change(attempt, plan.touches)
                raise InFlightError(why, plan.touches)
            planning.report_refusals(plan, run=attempt.run)
            raise RefusedError(why)
        self._claims.take(attempt, routed, relies_on=routed.ports | relied_ports(plan), changes=plan.touches, cuts=cuts)
        self._transfers.unblock(id)
        remarks = self._transfers.cut(plan.touches, by=id, what=plan.what, waited_s=waited_s) if cuts else []
        plan = planning.isolated(plan)
        await planning.note_baseline(plan, look.observed)
        lease = None if plan.lease is None else self._ledger.get(Reason.LEASE, plan.lease)
        wanted = wanted_of(plan.moves, plan.freed)
        reconfiguration = Reconfiguration(
            id=id,
            plan=plan,
            run=attempt.run,
            started_ns=self._clock.monotonic_ns(),
            read_ns=dict(look.ended_ns),
            ports_of_others=theirs,
            sweep=dict(attempt.sweep),
            settings=self._host_settings.in_force({end for link in plan.links for end in link.routed.link.ends}),
            lease_holder=None if lease is None else lease.owner,
            caller=attempt.caller,
            wanted=self.desired.already(wanted) if plan.is_restore else wanted,
            lease_epoch=None if lease is None else lease.epoch,
            remarks=remarks,
        )
        self._under_way[id] = reconfiguration
        if attempt.run is not None:
            self._last_of_run.setdefault(attempt.run, {})[attempt.branch] = reconfiguration
        return reconfiguration

    def _left_of(self, claim: Claim) -> str:
        one = self._under_way.get(claim.id)
        if one is None:
            return "it is being planned, which takes some seconds at most"
        return one.left_text(now_ns=self._clock.monotonic_ns(), now_s=asyncio.get_running_loop().time())


def _difference(planned: Plan, now: Plan) -> str:
    if [(move.switch, move.before) for move in planned.moves] == [(move.switch, move.before) for move in now.moves]:
        return "its interlocks find something else now"
    return "the switches differ from what it was made for"
