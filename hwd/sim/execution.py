"""Plays the plan of a world: its operators and its troubles, then peace, then the last look.

report = play(draw_plan(17))
for violation in report.violations: print(violation)
"""

import asyncio
import dataclasses
import logging
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from hwd.daemon.daemon import Daemon
from hwd.model.daemon import DaemonRecovered, DaemonStarted, JournalOpen
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationStarted
from hwd.records.records_file import DatabaseUrl, file_url
from hwd.sim.job_rank import train
from hwd.sim.last_look import LastLook
from hwd.sim.operators import Operators
from hwd.sim.plan import Deed, Departure, TwinFault, WorldPlan
from hwd.sim.racks import PROGRAM, RACKS
from hwd.sim.rules import Violation
from hwd.sim.troubles import Troubles
from hwd.sim.watches.witness import Witness
from hwd.sim.world import SIMULATED, World
from hwd_drivers.core.documents import Document
from hwd_drivers.core.ids import Draws
from hwd_drivers.twins.drawn_order import DrawnOrderLoop
from hwd_drivers.twins.virtual_time import run_virtual

QUIET_S: Final = 1.0
"""At the start: the carriers of what is lit from the beginning are up, and recorded where they are events."""
TURNS_MOST: Final = 6
"""Turns of the loop that a step of a task may wait."""


class WorldReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of a plan's execution. `story` has its lines in the order of time; `departures`, who was overtaken.

    All times count from the begin of the plan, as those of its steps: what starts the world is before it.
    """

    plan: WorldPlan
    violations: tuple[Violation, ...]
    story: tuple[str, ...]
    departures: tuple[Departure, ...]
    lasted_s: float

    @property
    def plan_to_shrink(self) -> WorldPlan:
        """The plan with its departures as values, so that it can be shrunk."""
        return replace(self.plan, departures=self.departures)


def play(plan: WorldPlan, *, make_daemon: Callable[..., Daemon] = Daemon) -> WorldReport:
    """Play a plan from its start to its end, the same each time. `make_daemon`: for tests with a defect."""
    order = _Order(plan)
    errors = _Errors()
    logging.getLogger().addHandler(errors)
    try:
        with tempfile.TemporaryDirectory(prefix="hwd-sim-") as folder:
            url = file_url(Path(folder) / "records.db")
            scene = _Scene(plan, url, folder, make_daemon)
            run_virtual(scene.play(), seed=plan.seed, loop=lambda: DrawnOrderLoop(order.turns))
    finally:
        logging.getLogger().removeHandler(errors)
    for text in errors.texts:
        scene.witness.breach("no-bug", text)
    return WorldReport(
        plan=plan,
        violations=tuple(replace(one, at_s=round(one.at_s - scene.start_s, 6)) for one in scene.witness.violations),
        story=tuple(f"{at_s - scene.start_s:8.3f} s  {text}" for at_s, text in scene.story),
        departures=tuple(order.departures),
        lasted_s=scene.lasted_s,
    )


class _Order:
    """Who is overtaken: as the plan has it, else drawn from its seed."""

    def __init__(self, plan: WorldPlan) -> None:
        self.departures: list[Departure] = []
        self._draw = Draws(plan.seed).stream("order")
        self._one_in = plan.one_in
        self._known = None if plan.departures is None else {one.step: one.turns for one in plan.departures}

    def turns(self, step: int) -> int:
        if self._known is not None:
            turns = self._known.get(step, 0)
        elif self._one_in and self._draw.random() * self._one_in < 1:
            turns = self._draw.randint(1, TURNS_MOST)
        else:
            turns = 0
        if turns:
            self.departures.append(Departure(step=step, turns=turns))
        return turns


class _Scene:
    """One plan in one world."""

    def __init__(
        self, plan: WorldPlan, records_url: DatabaseUrl, folder: str, make_daemon: Callable[..., Daemon]
    ) -> None:
        self.story: list[tuple[float, str]] = []
        self.start_s = 0.0
        """When the plan began, since the world did."""
        self.lasted_s = 0.0
        self._plan = plan
        self._rack = RACKS[plan.rack]
        self._url = records_url
        self._folder = folder
        self._make_daemon = make_daemon
        self.witness = Witness(self._rack)
        self.witness.on_document.append(self._note_document)

    def tell(self, text: str) -> None:
        self.story.append((self.witness.now_s, text))

    async def play(self) -> None:
        asyncio.get_running_loop().set_exception_handler(self._unhandled)
        world = World(
            self._rack.testbed,
            self._rack.text,
            seed=self._plan.seed,
            records_url=self._url,
            sinks=[self.witness.take],
            make_daemon=self._make_daemon,
            tap_bus=self.witness.commands.tap,
            programs={PROGRAM: lambda *given: train(world, *given)},
            process=dataclasses.replace(SIMULATED, data_dir=self._folder),
        )
        world.records_disk.delay_s = _delays(Draws(self._plan.seed).stream("records"))
        async with world:
            self.witness.attach(world)
            last_look = LastLook(world, self._url, self._rack, self.witness, self.tell)
            await world.settled()
            await asyncio.sleep(QUIET_S)
            await last_look.note_unwatched()
            self.start_s = self.witness.now_s
            operators = Operators(world, self._rack, self.witness, self.tell)
            troubles = Troubles(world, self._rack, self.witness, self.tell)
            tasks: list[asyncio.Task[None]] = []
            for step in self._plan.steps:
                await asyncio.sleep(max(0.0, self.start_s + step.at_s - self.witness.now_s))
                if isinstance(step.act, Deed):
                    self.tell(f"operator {step.number}: {step.act}")
                    tasks.append(asyncio.create_task(operators.do(step), name=f"hwd:sim/step-{step.number}"))
                else:
                    self.tell(f"trouble {step.number}: {step.act}")
                    self.witness.troubled = True
                    self.witness.faulted |= isinstance(step.act, TwinFault)
                    troubles.begin(step.act)
            await troubles.end_all()
            self.tell("all troubles are over")
            await last_look.look(tasks, jobs=operators.jobs.values())
            self.lasted_s = self.witness.now_s - self.start_s

    def _note_document(self, document: Document) -> None:
        match document.fact:
            case DaemonStarted():
                self.witness.read_journal()
                self.tell("the daemon is up")
            case ReconfigurationStarted(reconfiguration=id, what=what):
                self.tell(f"{id} ({what}) is driven")
            case ReconfigurationEnded(reconfiguration=id, outcome=outcome, why=why):
                self.tell(f"{id} is {outcome}{f': {why}' if why else ''}")
            case DaemonRecovered(reconfiguration=id, outcome=outcome, why=why):
                self.tell(f"{id} is {outcome} by the recovery: {why}")
            case JournalOpen(reconfiguration=id, why=why):
                self.tell(f"{id} stays open: {why}")

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.witness.breach("no-bug", f"{context.get('message')}: {context.get('exception')!r}")


def _delays(draw: random.Random) -> Callable[[], float]:
    """Draw the delays of the records' disk: mostly none, sometimes as of a disk that others write to."""
    return lambda: draw.choices((0.0, draw.uniform(0.0, 0.02), draw.uniform(0.05, 0.3)), weights=(5, 4, 1))[0]


class _Errors(logging.Handler):
    """The errors that a supervisor logged as bugs, with their tracebacks."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.texts.append(f"{record.getMessage()}: {record.exc_info[1]!r}")
