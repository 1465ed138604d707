"""PlaneRunner: where a plane runs. In a process of its own (`hwd.config.planes.process`), or inline.

runner = InlinePlane(make)
targets = await runner.begin(job, view)
runner.tell(Intent(rank=0, operation=operation))
actions = await runner.answer()                  # to the oldest event without an answer
await runner.close()
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from hwd.model.plane import Action, Event, Job, Plane, Target, View
from hwd.planes.guest import answer_of, targets_of


class PlaneRunner(Protocol):
    """One plane for one job. Once it has raised a PlaneError it is of no use any more, but to be closed."""

    async def begin(self, job: Job, view: View) -> Mapping[str, Target]:
        """What the plane declares. Raises PlaneError, and ConfigError where there is no such plane, or where it does
        not take its arguments or these hosts.
        """

    @property
    def demand_s(self) -> float | None:
        """How often it is told of Demand; None: never. Known after `begin`."""

    def tell(self, event: Event) -> None:
        """Tell the plane of an event, which it hears after those before it."""

    async def answer(self) -> tuple[Action, ...]:
        """The answer to the oldest event that has none yet. Raises PlaneError."""

    async def close(self) -> None:
        """End it, whatever it does. What it held is free after this."""


class InlinePlane:
    """Runs a plane where it is called: it is counted what it answers, and not timed. For the simulation, and for what
    has no daemon.
    """

    def __init__(self, make: Callable[[], Plane], *, demand_s: float | None = None) -> None:
        self.demand_s = demand_s
        self._make = make
        self._events: deque[Event] = deque()

    async def begin(self, job: Job, view: View) -> Mapping[str, Target]:
        self._plane = self._make()
        return targets_of(self._plane, job, view)

    def tell(self, event: Event) -> None:
        self._events.append(event)

    async def answer(self) -> tuple[Action, ...]:
        return answer_of(self._plane, self._events.popleft())

    async def close(self) -> None:
        self._events.clear()
