"""A lane of a run: steps in sequence that share a lease and a reconfiguration. A `parallel` step has one per branch."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hwd.config.playbook.expression import Expression, Scalar, UnknownError, Value, as_text, fill_text
from hwd.config.playbook.step_claims import harmed
from hwd.config.playbook.steps import (
    ApplyStep,
    AssertStep,
    DwellStep,
    FaultStep,
    HostStep,
    JobStep,
    LeafStep,
    LeaseStep,
    NoteStep,
    ParallelStep,
    RepeatStep,
    Step,
    SweepStep,
    WaitStep,
)
from hwd.model.run_facts import RunAssert, RunFault, RunHost, RunNote, RunPaused, RunResumed, RunStep
from hwd.playbook.measures import Tally, figures
from hwd.playbook.run_access import RunAccess
from hwd.ports.claim import Claim, holder_of
from hwd.ports.ledger import Asker
from hwd.ports.rules import PortAction
from hwd.reconfigure.apply.reconfiguration import Reconfiguration, State
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import ConfigError, FailedError, HwdError

HELD_S = 60.0
"""The least time that a pause renews a lease for; it is renewed twice in that time."""
LEFT_LEAST_S = 0.001
"""The least remaining time of a lease, which is read a moment after it was seen in force."""


class Brake:
    """A pause may be requested at any time; it takes effect before the next step."""

    def __init__(self) -> None:
        self.by: str | None = None
        """Who requested the pause; None without one."""
        self._off = asyncio.Event()
        self._off.set()

    def pull(self, by: str) -> None:
        """Request a pause; the first request counts."""
        if self.by is None:
            self.by = by
            self._off.clear()

    def let_go(self) -> None:
        self.by = None
        self._off.set()

    async def off(self) -> None:
        """Wait until no pause is requested."""
        await self._off.wait()


@dataclass(slots=True, kw_only=True)
class LaneContext:
    """The context that the lanes of one run share."""

    run: str
    access: RunAccess
    all_ports: frozenset[str]
    tally: Tally
    brake: Brake
    emit: Emitter
    started_ns: int
    total_steps: int
    expected_s: Callable[[], float]
    """The expected seconds that are left."""
    lanes: "list[Lane]" = field(default_factory=list)
    left_s: dict[str, float] = field(default_factory=dict)
    """By lease: the seconds that it had left when the pause began."""
    begun: int = 0
    done: int = 0
    applies_done: int = 0
    dwelt_s: float = 0.0
    has_set: bool = False
    """Whether a NIC port was set."""
    has_harmed: bool = False
    """Whether a fault of a twin was set."""


class Lane:
    """One line of steps. `lease` is its own; without one it acts under that of the outer lane."""

    def __init__(self, shared: LaneContext, *, name: str = "", outer: "Lane | None" = None) -> None:
        self.name = name
        self.lease: Claim | None = None
        self.outer = outer
        self.has_applied = False
        """Whether ended branches of it applied something that is still in place."""
        self.jobs: list[str] = []
        """The jobs that this lane, or ended branches of it, carried."""
        self._shared = shared
        self._access = shared.access
        self._open: Reconfiguration | None = None
        self._last: Tally | None = outer._last if outer else None
        self._swept: Mapping[str, Scalar] = outer._swept if outer else {}
        shared.lanes.append(self)

    async def go(self, steps: tuple[Step, ...]) -> None:
        """Do the steps, and confirm the last apply. Raises what a step raises, without a roll-back."""
        await self._do(steps)
        await self._confirm()

    async def release(self) -> None:
        """Release its own lease."""
        if self.lease is not None:
            await self._access.leases.release(self.lease.id)
        self.lease = None

    # --- steps

    async def _do(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            match step:
                case RepeatStep():
                    for _ in range(step.times):
                        await self._do(step.steps)
                case SweepStep():
                    outer = self._swept
                    for round in step.rounds:
                        self._swept = {**outer, **round.values}
                        await self._do(round.steps)
                    self._swept = outer
                case ParallelStep():
                    await self._do_at_once(step)
                case _:
                    await self._do_one(step)

    async def _do_one(self, step: LeafStep) -> None:
        await self._border()
        shared = self._shared
        shared.begun += 1
        number = shared.begun
        what = self._what(step)
        self._tell_step(number, what, "started")
        try:
            await self._leaf(step)
        except HwdError:
            self._tell_step(number, what, "failed")
            raise
        shared.done += 1
        self._tell_step(number, what, "done")

    async def _leaf(self, step: LeafStep) -> None:
        match step:
            case LeaseStep():
                await self._take(step)
            case ApplyStep():
                await self._confirm()
                lease = self._in_force
                request = step.request.under(lease.id, lease.epoch) if lease else step.request.under(None)
                self._open = await self._access.reconfigurer.begin(
                    request, run=self._shared.run, branch=self.name, sweep=self._swept
                )
            case WaitStep():
                if self._open is None:
                    raise FailedError("wait: nothing was applied that could become ready; put an apply step before it")
                await self._access.reconfigurer.wait_ready(self._open, within_s=step.within_s)
                await self._confirm()
            case DwellStep():
                await asyncio.sleep(step.for_s)
                self._shared.dwelt_s += step.for_s
            case NoteStep():
                self._shared.emit(RunNote(run=self._shared.run, text=self._written(step)))
            case HostStep():
                await self._set(step)
            case FaultStep():
                await self._harm(step)
            case JobStep():
                await self._confirm()
                await self._run_job(step)
            case AssertStep():
                await self._confirm()
                self._assert(step)

    async def _do_at_once(self, step: ParallelStep) -> None:
        await self._confirm()
        lanes = [
            Lane(self._shared, name=f"{self.name}/{branch.name}".lstrip("/"), outer=self) for branch in step.branches
        ]

        async def go(lane: Lane, steps: tuple[Step, ...]) -> None:
            await lane.go(steps)
            await lane.release()

        try:
            async with asyncio.TaskGroup() as group:
                for lane, branch in zip(lanes, step.branches, strict=True):
                    group.create_task(go(lane, branch.steps), name=f"hwd:run/{self._shared.run}/{lane.name}")
        except BaseExceptionGroup as several:
            raise _first(several) from several
        self._shared.lanes = [lane for lane in self._shared.lanes if lane not in lanes]
        applied = self._access.reconfigurer.last_by_branch(self._shared.run)
        for lane in lanes:
            self.has_applied |= lane.name in applied or lane.has_applied
            self.jobs += lane.jobs
            self._access.reconfigurer.forget(self._shared.run, lane.name)

    async def _take(self, step: LeaseStep) -> None:
        ports = self._shared.all_ports if step.ports == "all" else frozenset(step.ports)
        await self.release()
        self.lease = await self._access.leases.take(
            holder=holder_of(self._shared.run), ports=ports, for_s=step.for_s, lasting=False
        )

    async def _set(self, step: HostStep) -> None:
        self._check([action.port for action in step.actions], PortAction.SET)
        for action in step.actions:
            self._shared.has_set = True
            began_ns = self._access.clock.monotonic_ns()
            found = await self._access.host_settings.do(self._shared.run, action)
            self._shared.emit(
                RunHost(
                    run=self._shared.run,
                    host=action.port.host,
                    port=action.port,
                    action=action.setting.value,
                    value=action.value,
                    seconds=(self._access.clock.monotonic_ns() - began_ns) / 1e9,
                    before=found.get("before"),
                    after=found.get("after"),
                )
            )

    async def _run_job(self, step: JobStep) -> None:
        access, run = self._access, self._shared.run
        job = await access.jobs.start_of(run, step.name, step.arguments)
        access.light.follow(job)
        self.jobs.append(job)
        await access.jobs.wait_for_end(job, step.arguments, run=run, sweep=self._swept)

    async def _harm(self, step: FaultStep) -> None:
        self._check(harmed(step.fault, self._shared.all_ports), PortAction.FAULT)
        self._shared.has_harmed = True
        await self._access.faults.set_for(self._shared.run, step.fault)
        self._shared.emit(RunFault(run=self._shared.run, fault=step.fault))

    def _what(self, step: LeafStep) -> str:
        """A step in words; a note with its figures, where they can be had."""
        try:
            return f"note {self._written(step)}" if isinstance(step, NoteStep) else str(step)
        except FailedError:  # the step itself says why
            return str(step)

    def _written(self, step: NoteStep) -> str:
        def value(expression: Expression) -> Value:
            try:
                return expression.value({**self._figures(expression), **step.scope})
            except UnknownError:
                return as_text(None)

        try:
            return fill_text(step.text, value)
        except ConfigError as error:
            raise FailedError(f"note: {error}") from error

    def _assert(self, step: AssertStep) -> None:
        measured = self._figures(step.expression)
        scope = {**measured, **step.scope}
        values = {name: scope[name] for name in step.expression.names if name in scope}
        try:
            held = step.expression.value(scope) is True
            why = "does not hold"
        except UnknownError:
            unknown = ", ".join(name for name, value in values.items() if value is None)
            held, why = False, f"cannot be said, since nothing that was measured says {unknown}"
        except ConfigError as error:
            held, why = False, f"cannot be calculated ({error})"
        self._shared.emit(RunAssert(run=self._shared.run, expression=step.expression.text, held=held, values=values))
        if not held:
            shown = ", ".join(f"{name} = {as_text(value)}" for name, value in values.items())
            raise FailedError(f"assert {step.expression}: {why}; {shown or 'no figure in it'}")

    # --- inside

    @property
    def _in_force(self) -> Claim | None:
        return self.lease or (self.outer._in_force if self.outer else None)

    async def _confirm(self) -> None:
        if self._open is None:
            return
        if self._open.state is not State.ENDED:
            await self._access.reconfigurer.confirm(self._open)
        ended, self._open = self._open, None
        self._shared.applies_done += 1
        self._shared.tally.add(ended)
        self._last = Tally()
        self._last.add(ended)

    def _figures(self, expression: Expression) -> dict[str, Value | None]:
        seconds = (self._access.clock.monotonic_ns() - self._shared.started_ns) / 1e9
        return figures(expression.names, last=self._last, run=self._shared.tally, seconds=seconds)

    def _check(self, ports: Iterable[str], action: PortAction) -> None:
        """Raises RefusedError where somebody else has one of them."""
        now_wall_ns = self._access.clock.wall_ns()
        self._access.leases.ledger.check(Asker(run=self._shared.run), ports, action, now_wall_ns=now_wall_ns)

    async def _border(self) -> None:
        """Wait between two steps while a pause is requested. The remaining time of leases is restored afterwards."""
        if (by := self._shared.brake.by) is None:
            return
        self._shared.emit(RunPaused(run=self._shared.run, by=by, branch=self.name))
        left_s = self._shared.left_s
        while self._shared.brake.by is not None:
            held_s: dict[str, float] = {}
            for lease in self._held():
                left_s.setdefault(lease.id, lease.left_s(self._access.clock.wall_ns()))
                held_s[lease.id] = max(left_s[lease.id], HELD_S)
            for id, seconds in held_s.items():
                await self._access.leases.renew(id, for_s=seconds)
            await _within(self._shared.brake.off(), min((seconds / 2 for seconds in held_s.values()), default=None))
        for lease in self._held():
            if lease.id in left_s:  # else another branch that stood under it went on first
                await self._access.leases.renew(lease.id, for_s=max(LEFT_LEAST_S, left_s.pop(lease.id)))
        self._shared.emit(RunResumed(run=self._shared.run, branch=self.name))

    def _held(self) -> list[Claim]:
        """Leases in force of this lane and of its outer lanes."""
        mine = {lane.lease.id for lane in self._up() if lane.lease is not None}
        return [lease for lease in self._access.leases.all() if lease.id in mine]

    def _up(self) -> "list[Lane]":
        return [self, *(self.outer._up() if self.outer else [])]

    def _tell_step(self, number: int, what: str, state: str) -> None:
        self._shared.emit(
            RunStep(
                run=self._shared.run,
                step=number,
                what=what,
                state=state,
                done=self._shared.done,
                total=self._shared.total_steps,
                expected_s=self._shared.expected_s(),
                branch=self.name,
                sweep=dict(self._swept),
            )
        )


async def _within(work: Awaitable[None], seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        return


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error to report for all branches: a bug of ours if there is one, else that of the first branch."""
    found = [_first(one) if isinstance(one, BaseExceptionGroup) else one for one in several.exceptions]
    ours = [one for one in found if not isinstance(one, HwdError)]
    return (ours or found)[0]
