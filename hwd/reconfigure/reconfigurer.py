"""The way of a reconfiguration: claim, read, plan, journal, drive, read back, wait for ready, confirm or roll back.

reconfiguration = await reconfigurer.begin(request)          # switches driven and read back
await reconfigurer.wait_ready(reconfiguration, within_s=15)  # links ready, else it is rolled back
await reconfigurer.confirm(reconfiguration)
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from hwd.model.instant import Origin
from hwd.model.plan import ApplyMode, Plan
from hwd.model.state import Observed
from hwd.reconfigure.driving import Driving
from hwd.reconfigure.endings import Endings
from hwd.reconfigure.host_settings import HostSettings
from hwd.reconfigure.interruptions import falls, gone
from hwd.reconfigure.journal import Journal
from hwd.reconfigure.leases import Leases
from hwd.reconfigure.observing import Agents, Observing
from hwd.reconfigure.outcomes import Outcomes
from hwd.reconfigure.overriding import Overriding
from hwd.reconfigure.planner import Planner, Request, Routed, relied_ports, touched_ports
from hwd.reconfigure.planning import Planning
from hwd.reconfigure.reconfiguration import Outcome, Reconfiguration, State
from hwd.reconfigure.recovery import LeftOpen, Recovery
from hwd.reconfigure.switches import Switches, same_fault
from hwd.reconfigure.switching import SwitchDriver
from hwd.reconfigure.turns import Turns
from hwd.reconfigure.unreachable import Unreachable
from hwd.timeline.clock_step import ClockStep
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Json, Sink
from hwd_drivers.core.errors import FailedError, HwdError, NotReadyError, NotRolledBackError, RefusedError
from hwd_drivers.core.ids import Ids
from hwd_drivers.core.offload import Offload

GRACE_NS = 1_000_000
"""Events that ended this long before `started` still belong to it: the agents' stamps carry an alignment error."""


class Reconfigurer:
    """Owns every write to the switches of one testbed. Also a `Sink`: it listens to what the agents report."""

    TAKES: ClassVar = (
        "run.host",
        "host.event",
        "host.up",
        "host.birth",
        "clock.aligned",
        "clock.stepped",
        "switch.down",
        "switch.up",
    )

    def __init__(
        self,
        *,
        planner: Planner,
        offload: Offload,
        switches: Mapping[str, SwitchDriver],
        agents: Agents,
        journal: Journal,
        leases: Leases,
        clock: Clock,
        ids: Ids,
        sink: Sink,
        switch_origins: Mapping[str, Origin],
        outcomes: Outcomes,
    ) -> None:
        self._planning = Planning(planner, offload)
        self._switches = Switches(switches, clock)
        self._recovery = Recovery(journal=journal, switches=self._switches, leases=leases, clock=clock, tell=self._tell)
        self._observing = Observing(agents)
        self._unreachable = Unreachable(self._switches, self._observing)
        self._driving = Driving(
            switches=self._switches, observing=self._observing, recovery=self._recovery, tell=self._tell, to=self._to
        )
        self._leases = leases
        self._clock = clock
        self._ids = ids
        self._outcomes = outcomes
        self._sink = sink
        self._host_settings = HostSettings()
        self._under_way: dict[str, Reconfiguration] = {}
        self._last_of_run: dict[str, dict[str, Reconfiguration]] = {}
        self._turns = Turns()
        self.overriding = Overriding(planner=planner, switches=self._switches, turns=self._turns, leases=leases)
        self._endings = Endings(
            under_way=self._under_way,
            switches=self._switches,
            observing=self._observing,
            recovery=self._recovery,
            leases=leases,
            turns=self._turns,
            host_settings=self._host_settings,
            switch_origins=switch_origins,
            clock=clock,
            tell=self._tell,
            to=self._to,
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
    def left_open(self) -> tuple[LeftOpen, ...]:
        """What was cut off, and the journal holds until it is undone."""
        return self._recovery.left(self._under_way)

    @property
    def journal_trouble(self) -> str:
        """Which ends the journal did not take yet, or that it takes nothing, and why; empty where it took all."""
        return self._recovery.trouble

    def last_of(self, run: str) -> tuple[Reconfiguration, ...]:
        """The last one that each branch of this run began, ended or not."""
        return tuple(self.last_by_branch(run).values())

    def last_by_branch(self, run: str) -> Mapping[str, Reconfiguration]:
        """`last_of`, by the names of the branches."""
        return self._last_of_run.get(run, {})

    def unreadable(self, run: str) -> list[str]:
        """The switches of what this run confirmed last that cannot be read now: it may be gone."""
        confirmed = (one for one in self.last_of(run) if one.outcome is Outcome.CONFIRMED)
        return sorted({name for one in confirmed for name in one.switches if self._switches.away([name])})

    def forget(self, run: str, branch: str | None = None) -> None:
        """The run has ended, or a branch of it."""
        if branch is None:
            self._last_of_run.pop(run, None)
        else:
            self._last_of_run.get(run, {}).pop(branch, None)

    def get(self, id: str | None) -> Reconfiguration:
        """The one with this id, or the only one under way; raises RefusedError where there is none, with what became of it."""
        if id is None and len(self._under_way) == 1:
            return next(iter(self._under_way.values()))
        if id is not None and id in self._under_way:
            return self._under_way[id]
        names = ", ".join(self._under_way) or "none"
        if id is None and self._under_way:
            raise RefusedError(f"which reconfiguration? Under way: {names}")
        left = self._recovery.texts(self._under_way)
        if id is not None and id in left:
            raise RefusedError(left[id])
        if id is None and left:
            raise RefusedError(f"no reconfiguration is under way. Left open: {'; '.join(left.values())}")
        if id is None:
            last = self._outcomes.last
            raise RefusedError(f"no reconfiguration is under way{f'. The last one, {last}' if last else ''}")
        if (became := self._outcomes.text(id)) is not None:
            raise RefusedError(f"reconfiguration {became}. It has ended, and nothing was changed now")
        raise RefusedError(f"reconfiguration {id}: not known, or long over. Under way: {names}")

    def became(self, id: str) -> str | None:
        """What became of one that has ended lately, None of one that never began, or is under way."""
        return self._outcomes.text(id)

    async def plan(self, request: Request) -> Plan:
        """Read the switches and plan; emits `plan.made`."""
        routed = await self._planning.route(request)
        look = await self._switches.read(routed.switches)
        plan = await self._planning.plan(routed, look.observed, self._switches.blocked(routed.switches))
        self._leases.check(touched_ports(plan), lease=plan.lease)
        self._tell("plan.made", plan=plan.to_data(), what=plan.what, hash=plan.hash)
        return plan

    # --- the way

    async def begin(
        self,
        request: Request,
        *,
        run: str | None = None,
        branch: str = "",
        sweep: Mapping[str, Json] | None = None,
        expect_hash: str | None = None,
        id: str | None = None,
    ) -> Reconfiguration:
        """Drive the switches to what is wanted and read them back. `id` names it where the caller has named it already; `sweep` is what `run` sweeps.

        Raises RefusedError (lease, under way elsewhere, `expect_hash` differs), LinkError, ConfigError before anything moved; FailedError or LinkError
        after the switches were rolled back.
        """
        self.write_ends()
        routed = await self._planning.route(request)
        id = id or self._ids.token(length=8)
        self._check_not_left_open(routed.switches)
        whole = request.mode is ApplyMode.OVERWRITE or bool(request.emptied)
        self._turns.claim(id, switches=routed.switches, ports=routed.ports, whole=whole)
        reconfiguration: Reconfiguration | None = None
        try:
            async with self._turns.drive(routed.switches):
                reconfiguration = await self._prepare(
                    id, routed, run=run, branch=branch, sweep=sweep or {}, expect_hash=expect_hash
                )
                await self._driving.drive(reconfiguration)
        except BaseException as error:
            if reconfiguration is None:
                self._turns.release(id)
                raise
            why = str(error) if isinstance(error, HwdError) else repr(error)
            await self.roll_back(reconfiguration, "aborted" if isinstance(error, asyncio.CancelledError) else why)
            if not isinstance(error, HwdError):
                raise
            after = reconfiguration.outcome or Outcome.FAILED
            raise same_fault(
                error, f"{error}. Outcome: {after}{'' if after is Outcome.ROLLED_BACK else f' ({reconfiguration.why})'}"
            ) from error
        return reconfiguration

    async def wait_ready(self, reconfiguration: Reconfiguration, *, within_s: float) -> None:
        """Until all links are ready, or somebody confirms it without. Raises NotReadyError, after the roll-back, when they are not in time, or cannot be, since
        a switch of theirs or all their agents are away; NotRolledBackError where not all could be rolled back; FailedError as soon as somebody rolls it back."""
        if reconfiguration.ending is None and reconfiguration.state is not State.ENDED:
            self._to(reconfiguration, State.WAITING)
        id, since_s = reconfiguration.id, asyncio.get_running_loop().time()
        keeping = asyncio.create_task(self._observing.keep(reconfiguration), name=f"hwd:reconfigure/observe-{id}")
        ready = asyncio.create_task(reconfiguration.all_ready_or_ending(), name=f"hwd:reconfigure/ready-{id}")
        away = asyncio.create_task(self._unreachable.lasting(reconfiguration), name=f"hwd:reconfigure/away-{id}")
        try:
            await asyncio.wait([ready, away], timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            is_ready, is_given_up = ready.done(), away.done()
            if is_given_up:
                away.result()
        finally:
            for task in (keeping, ready, away):
                task.cancel()
            await asyncio.gather(keeping, ready, away, return_exceptions=True)
        if not is_ready:
            after_s = asyncio.get_running_loop().time() - since_s if is_given_up else None
            why = self._why_not_ready(reconfiguration, within_s=within_s, given_up_after_s=after_s)
            await self.roll_back(reconfiguration, why)
            if reconfiguration.outcome is not Outcome.CONFIRMED:  # somebody was quicker
                raise _not_ready(reconfiguration)
        zero_ns = reconfiguration.started_ns
        reconfiguration.remarks += [one.text(zero_ns=zero_ns) for one in reconfiguration.absences.over()]
        await self._endings.reached(reconfiguration)
        if reconfiguration.outcome not in (None, Outcome.CONFIRMED):
            raise FailedError(
                f"{reconfiguration.plan.what}: {reconfiguration.outcome} meanwhile: {reconfiguration.why}"
            )

    async def await_confirm(self, reconfiguration: Reconfiguration, *, within_s: float) -> None:
        """From here it goes back by itself after `within_s` seconds, unless it is confirmed: see `Endings.await_confirm`."""
        await self._endings.await_confirm(reconfiguration, within_s=within_s)

    async def confirm(self, reconfiguration: Reconfiguration) -> None:
        """The wanted state stays: see `Endings.confirm`."""
        await self._endings.confirm(reconfiguration)

    async def roll_back(self, reconfiguration: Reconfiguration, why: str) -> None:
        """Back to the state read at the start: see `Endings.roll_back`."""
        await self._endings.roll_back(reconfiguration, why)

    # --- after a crash, or when a switch comes back

    async def recover(self) -> None:
        """Finish or undo, by its rule, what the journal holds open and nobody is at work on. What cannot be reached stays open."""
        self.write_ends()
        await self._recovery.recover(self._under_way)

    def write_ends(self) -> None:
        """Try again what the journal did not take before: what was confirmed has ended when it does. What it does not take still is `journal_trouble`."""
        self._recovery.write_ends()
        self._endings.finish_written()

    async def give_up(self, id: str, *, by: str) -> dict[str, Json]:
        """Leave as it is what the journal holds open: see `Recovery.give_up`."""
        return await self._recovery.give_up(id, by=by, under_way=self._under_way)

    async def close(self) -> None:
        """Roll back what is under way, all at once, and write down what the journal did not take before; for an orderly end of the daemon."""
        await asyncio.gather(*(self.roll_back(one, "the daemon ends") for one in self.under_way))
        self.write_ends()

    def __call__(self, document: Document) -> None:
        """Sink: takes the agents' events, what was set of NIC ports, and how switches go and come."""
        data: Mapping[str, Any] = document.data
        match document.kind:
            case "run.host":
                self._host_settings.see(document)
            case "host.event":
                for reconfiguration in self._under_way.values():
                    if data["latest_ns"] >= reconfiguration.started_ns - GRACE_NS:
                        reconfiguration.see(data)
            case "clock.stepped":
                step = ClockStep.from_data(data)
                for reconfiguration in self._under_way.values():
                    if data["host"] in reconfiguration.hosts and step.latest_ns >= reconfiguration.started_ns:
                        reconfiguration.clock_steps.append((data["host"], step))
            case "switch.down":
                for reconfiguration in self._under_way.values():
                    if data["switch"] in reconfiguration.switches:
                        reconfiguration.absences.down(data["switch"], data["cause"], at_ns=document.at_ns)
            case "switch.up":
                for reconfiguration in self._under_way.values():
                    reconfiguration.absences.up(data["switch"], at_ns=document.at_ns)
            case "host.up" | "host.birth" | "clock.aligned":
                for reconfiguration in self._under_way.values():
                    reconfiguration.agents_changed.set()

    # --- steps

    async def _prepare(
        self,
        id: str,
        routed: Routed,
        *,
        run: str | None,
        branch: str,
        sweep: Mapping[str, Json],
        expect_hash: str | None,
    ) -> Reconfiguration:
        """Plan, and take the ports that the plan touches."""
        theirs = self._turns.ports_of_others(id)  # whoever comes later waits for our turn to be over
        look = await self._switches.read(routed.switches)
        plan = await self._planning.plan(routed, look.observed, self._switches.blocked(routed.switches))
        if expect_hash not in (None, plan.hash):
            raise RefusedError(
                f"plan {expect_hash}: the switches differ from what it was made for; the plan now is {plan.hash}. Look at it and apply that"
            )
        touched = touched_ports(plan)
        whole = plan.mode is ApplyMode.OVERWRITE or bool(routed.request.emptied)
        self._turns.claim(id, switches=routed.switches, ports=routed.ports | relied_ports(plan) | touched, whole=whole)
        self._leases.check(touched, lease=plan.lease, run=run)
        self._leases.hold_reconfiguration(id, touched, run=run)
        reconfiguration = Reconfiguration(
            id=id,
            plan=plan,
            run=run,
            started_ns=self._clock.monotonic_ns(),
            read_ns=dict(look.ended_ns),
            ports_of_others=theirs,
            sweep=dict(sweep),
        )
        reconfiguration.settings = self._host_settings.in_force(map(str, reconfiguration.ends))
        self._under_way[id] = reconfiguration
        if run is not None:
            self._last_of_run.setdefault(run, {})[branch] = reconfiguration
        return reconfiguration

    def _why_not_ready(
        self, reconfiguration: Reconfiguration, *, within_s: float, given_up_after_s: float | None
    ) -> str:
        late = ", ".join(map(str, reconfiguration.not_ready))
        if given_up_after_s is None:
            why = f"not ready within {within_s:g} s: {late}"
        else:
            why = f"not ready, and given up after {given_up_after_s:.1f} of {within_s:g} s: {late}"
        if away := self._unreachable.now(reconfiguration):
            why += f". Nothing was heard of {'; '.join(away)}"
        if between := self._interruptions(reconfiguration):
            why += f". Meanwhile: {'; '.join(between)}"
        return why

    def _interruptions(self, reconfiguration: Reconfiguration) -> list[str]:
        """What came between it and its ready links, in words."""
        plan, zero_ns = reconfiguration.plan, reconfiguration.started_ns
        absences = [one.text(zero_ns=zero_ns) for one in reconfiguration.absences.over()]
        fell = falls(reconfiguration.events, plan.links, zero_ns=zero_ns)
        reachable = {name: latest for name, latest in self.observed.items() if not self._switches.away((name,))}
        return [*absences, *fell, *gone(reachable, plan.moves)]

    def _check_not_left_open(self, names: Iterable[str]) -> None:
        for name in names:
            if (left := self._recovery.left_open(name, self._under_way)) is not None:
                raise RefusedError(f"{name}: {left}")

    def _to(self, reconfiguration: Reconfiguration, state: State) -> None:
        reconfiguration.state = state
        self._tell("reconfiguration.state", reconfiguration=reconfiguration.id, state=state)

    def _tell(self, kind: str, **data: Json) -> None:
        self._sink(Document(kind=kind, at_ns=self._clock.monotonic_ns(), wall_ns=self._clock.wall_ns(), data=data))


def _not_ready(reconfiguration: Reconfiguration) -> NotReadyError:
    """What became of links that were not ready in time, and where to look."""
    look = "`hwd watch --after 0 --kind timeline` says which stage was not reached"
    said = f"{reconfiguration.plan.what}: {reconfiguration.why}"
    if not reconfiguration.journaled:
        return NotReadyError(f"{said}. No switch had been moved, so none was moved back; {look}")
    if reconfiguration.outcome is Outcome.FAILED:
        return NotRolledBackError(
            f"{said}. The journal holds it open, and it is tried again until it is done; {look}",
            switches=reconfiguration.not_back,
        )
    return NotReadyError(f"{said}. Outcome: {reconfiguration.outcome}. {look}")
