"""ReplayedPlane: the plane of one job. What it is told is recorded, with what it answers, before any of that is done.

plane = ReplayedPlane(runner, actor, "k3v9a1xx", log=event_log, clock=clock)
state = await plane.replay()                     # after a restart: where the one before was
for command in await plane.tell(PlaneInput(event=Intent(rank=0, operation=operation)), at_s=1.5): ...
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from hwd.jobs.event_log import EventLog
from hwd.model.job import JobEvent, OperationSent
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plane import Action, Applied, Done, Event, Failure, Intent, NotReady, Recovery, Tick
from hwd.planes.actor import AnswerRanks, Command, PlaneActor, PrepareTarget, SetRoutes
from hwd.planes.breach import Breach, PlaneError
from hwd.planes.demand import AnnouncedDemand
from hwd.planes.runner import PlaneRunner
from hwd_agents.wire import Operation
from hwd_drivers.core.clock import Clock

REPLAYED_AT_ONCE: Final = 1000
"""Events that a plane is told again before others have their turn: there may be millions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneInput:
    """An event on its way to the plane. `reconfiguration`: which one it is of. `sent`: how an operation went."""

    event: Event
    reconfiguration: str = ""
    sent: OperationSent | None = None


@dataclass(slots=True, kw_only=True)
class ReplayState:
    """Where a plane is that was told all again: what each rank was let go for, `over` which links of its light, whether
    it prepared targets, how often it set routes without a switch, what it was told to have failed, and of how many
    events. `behind`: how often it had set routes before it let a rank go.
    """

    sending: dict[int, Operation] = field(default_factory=dict)
    over: dict[int, tuple[Link, ...]] = field(default_factory=dict)
    has_prepared: bool = False
    routed: int = 0
    behind: dict[int, int] = field(default_factory=dict)
    failed: set[NicPortId | str] = field(default_factory=set)
    events: int = 0


class ReplayedPlane:
    """A control plane that is replayed from the log of its job, then told what is new. `at_s`: the latest time that it
    was told. `demand`: how it is told of demand; None: never.
    """

    def __init__(
        self,
        runner: PlaneRunner,
        actor: PlaneActor,
        job: str,
        *,
        log: EventLog,
        clock: Clock,
        demand: AnnouncedDemand | None = None,
    ) -> None:
        self.actor = actor
        self.at_s = 0.0
        self._runner = runner
        self._job = job
        self._log = log
        self._clock = clock
        self._demand = demand
        self._number = 0
        self._ticked_s: float | None = None
        """The last tick, which led to no action and is not recorded yet."""

    async def replay(self) -> ReplayState:
        """Tell it all that is recorded. Raises PlaneError where it answers otherwise than before."""
        events = await self._log.events(self._job)
        state = ReplayState(events=len(events))
        for first in range(0, len(events), REPLAYED_AT_ONCE):
            told: list[tuple[Event, tuple[Action, ...]]] = []
            for one in events[first : first + REPLAYED_AT_ONCE]:
                if one.ticked_s is not None:
                    told.append((Tick(at_s=one.ticked_s), ()))
                told.append((one.plane_event, one.plane_actions))
            for event, _ in told:
                self._runner.tell(event)
            for event, before in told:
                self._take_again(event, await self._runner.answer(), before, state)
            await asyncio.sleep(0)
        self._number = len(events)
        return state

    def _take_again(
        self, event: Event, actions: tuple[Action, ...], before: tuple[Action, ...], state: ReplayState
    ) -> None:
        actor = self.actor
        asking = {**actor.waiting, **({event.rank: event.operation} if isinstance(event, Intent) else {})}
        if actions != before:
            raise PlaneError(Breach.NOT_DETERMINISTIC, f"{event}: {before} before, {actions} now")
        commands = actor.take(event, actions)
        if isinstance(event, Intent | Done):
            state.sending.pop(event.rank, None)
            state.behind.pop(event.rank, None)
            state.over.pop(event.rank, None)
        if isinstance(event, Failure):
            state.failed.update(event.ports, event.hosts)
        if isinstance(event, Recovery):
            state.failed.difference_update(event.ports, event.hosts)
        if isinstance(event, Tick):
            self.at_s = max(self.at_s, event.at_s)
        if self._demand is not None:
            self._demand.take(event, at_s=self.at_s)
        for command in commands:
            state.has_prepared |= isinstance(command, PrepareTarget)
            state.routed += isinstance(command, SetRoutes)
            if isinstance(command, AnswerRanks) and not command.why:
                state.sending |= {rank: asking[rank] for rank in command.ranks}
                state.behind |= dict.fromkeys(command.ranks, state.routed)
                state.over |= dict.fromkeys(command.ranks, actor.lit_links)

    async def tell(self, *inputs: PlaneInput, at_s: float) -> list[Command]:
        """Tell it these, then the time, then the demand where it is due; returns what is to be done.

        Raises PlaneError once what was before is written down, and FailedError where it cannot be.
        """
        self.at_s = max(self.at_s, at_s)
        rows: list[JobEvent] = []
        commands: list[Command] = []
        told = [*inputs, PlaneInput(event=Tick(at_s=self.at_s))]
        try:
            for one in told:
                self._runner.tell(one.event)
            for one in told:
                commands += self._take(one, await self._runner.answer(), rows)
            if self._demand is not None and (demand := self._demand.due(at_s=self.at_s)) is not None:
                self._runner.tell(demand)
                commands += self._take(PlaneInput(event=demand), await self._runner.answer(), rows)
        finally:
            if rows:
                self._log.add(self._job, self._number, rows)
                self._number += len(rows)
        return commands

    def _take(self, one: PlaneInput, actions: tuple[Action, ...], rows: list[JobEvent]) -> tuple[Command, ...]:
        event, actor = one.event, self.actor
        ports = actor.targets[event.target].ports if isinstance(event, Applied | NotReady) else ()
        commands = actor.take(event, actions)  # after which that target may have gone
        if self._demand is not None:
            self._demand.take(event, at_s=self.at_s)
        if isinstance(event, Tick) and not actions:
            self._ticked_s = event.at_s
            return ()
        rows.append(
            JobEvent.of(
                event,
                actions,
                at_ns=self._clock.monotonic_ns(),
                wall_ns=self._clock.wall_ns(),
                ticked_s=self._ticked_s,
                reconfiguration=one.reconfiguration,
                ports=ports,
                sent=one.sent,
            )
        )
        self._ticked_s = None
        return commands
