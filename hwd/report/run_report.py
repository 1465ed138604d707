"""A run and the data of its report, from its documents."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from sys import intern

from msgspec import UNSET
from msgspec.structs import replace

from hwd.model.fault import Clear, OtherNicTiming
from hwd.model.hang import Hang
from hwd.model.host import ClockStepped, HostEvent, HostLost
from hwd.model.instant import Instant, Knowledge
from hwd.model.prediction import PlanPrediction
from hwd.model.reconfiguration import (
    ReconfigurationCommanded,
    ReconfigurationEnded,
    ReconfigurationStarted,
    ReconfigurationState,
)
from hwd.model.recorded_run import Run, RunOutcome
from hwd.model.run_facts import RunFault, RunJob, RunStep
from hwd.model.switch import SwitchOverrun
from hwd.report.conditions import RunTimings
from hwd.report.reconfigurations import Reassembly, RecordedReconfiguration
from hwd.report.switch_commands import SwitchCommands, commanded
from hwd.report.write_windows import WriteWindows
from hwd.timeline import Stage, Timeline
from hwd_drivers.core.documents import Document

_FACTS = (
    Timeline,
    ReconfigurationStarted,
    ReconfigurationCommanded,
    ReconfigurationState,
    ReconfigurationEnded,
    SwitchOverrun,
    HostLost,
    ClockStepped,
    RunStep,
    RunJob,
    RunFault,
)
_BROKEN_OFF_FACTS = (HostEvent,)
"""The facts that are needed only for a reconfiguration without a timeline, and are most of the documents of a run."""
BROKEN_OFF = "broken off"
"""Outcome of a reconfiguration whose end was not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How one reconfiguration ended. `hangs`: where its links hung when the wait for them ended. `prediction`: of its
    time, with what it was.
    """

    reconfiguration: str
    outcome: str
    why: str
    seconds: float | None
    hangs: tuple[Hang, ...] = ()
    prediction: PlanPrediction | None = None

    @property
    def more_hangs(self) -> tuple[Hang, ...]:
        """The hangs that `why` does not state."""
        return tuple(hang for hang in self.hangs if hang.words not in self.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """One run with its timelines in the order of their ends. `lab`: the timings of its twins.

    `commands`: the commands of each switch in each reconfiguration. `events_lost`: events that agents could not hold or
    see. `steps_failed`: texts of steps that failed. `jobs`: those that succeeded. `guard`: the windows between read and
    write, and what other clients lost in them. `clock_steps`: texts, one for each step of a host's clock during the
    run.
    """

    run: Run
    timelines: tuple[Timeline, ...]
    endings: tuple[Ending, ...]
    lab: RunTimings
    events_lost: int
    steps_failed: tuple[str, ...]
    commands: tuple[SwitchCommands, ...] = ()
    guard: WriteWindows = field(default_factory=WriteWindows)
    clock_steps: tuple[str, ...] = ()
    jobs: tuple[RunJob, ...] = ()

    @property
    def predictions(self) -> tuple[PlanPrediction, ...]:
        return tuple(one.prediction for one in self.endings if one.prediction is not None)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the page and `hwd show` say of the run beside its steps and times, a text each."""
        return (*self.guard.overruns, *self.clock_steps)


def kinds_of(run: Run) -> tuple[str, ...]:
    """The kinds of documents that its report is made from."""
    facts = _FACTS if run.outcome is RunOutcome.SUCCEEDED else (*_FACTS, *_BROKEN_OFF_FACTS)
    return tuple(fact.KIND for fact in facts)


def of_documents(run: Run, documents: Iterable[Document], *, observations: bool = True) -> RunReport:
    """Make it from the documents of a run, oldest first, from any source; kinds that a report does not need
    are ignored.

    `observations` False: timelines without what each end saw, which tables and figures do not need and which is most of
    a long run.
    """
    gathering = _Gathering(run, observations=observations)
    for document in documents:
        gathering.take(document)
    return gathering.report()


class _Gathering:
    def __init__(self, run: Run, *, observations: bool = True) -> None:
        self._run = run
        self._observations = observations
        self._reassembly = Reassembly(run)
        self._timelines: list[Timeline] = []
        self._endings: list[Ending] = []
        self._commands: list[SwitchCommands] = []
        self._events_lost = 0
        self._steps_failed: list[str] = []
        self._guard = WriteWindows()
        self._clock_steps: list[str] = []
        self._jobs: list[RunJob] = []
        self._nics: dict[str, str] = {}
        """The timings that NICs were given and have now, by host."""
        self._nics_of: dict[str, dict[str, str]] = {}
        """When a reconfiguration began."""

    def take(self, document: Document) -> None:
        fact = document.fact
        match fact:
            case HostLost(count=count):
                self._events_lost += count
            case ClockStepped(host=host):
                into_s = (document.wall_ns - self._run.started_wall_ns) / 1e9
                self._clock_steps.append(f"{host}: {fact}, found {into_s:.3f} s into the run")
            case ReconfigurationCommanded(window_s=float(window_s)):
                self._guard.windows_s.append(window_s)
            case SwitchOverrun(switch=switch):
                self._guard.overruns.append(
                    f"{fact.reconfiguration}: overrun on {switch}: {', '.join(fact.lost)} of another client was lost; "
                    f"it was made in the {fact.window_s * 1e3:.3g} ms between our read and our write"
                )
            case RunStep(state="failed", step=number, what=what):
                self._steps_failed.append(f"step {number}: {what}")
            case RunJob():
                self._jobs.append(fact)
            case RunFault(fault=OtherNicTiming(host=host, timing=timing)):
                self._nics[host] = timing
            case RunFault(fault=Clear(host=str(host))):
                self._nics.pop(host, None)
            case RunFault(fault=Clear(switch=None, port=None)):
                self._nics.clear()
            case ReconfigurationStarted(reconfiguration=id) if self._nics:
                self._nics_of[id] = {**self._nics}
        if (one := self._reassembly.take(document)) is not None:
            self._add(one)

    def report(self) -> RunReport:
        for one in self._reassembly.rest():
            self._add(one)
        return RunReport(
            run=self._run,
            timelines=tuple(self._timelines),
            endings=tuple(self._endings),
            lab=RunTimings.of(self._run, set_to=self._nics_of),
            events_lost=self._events_lost,
            steps_failed=tuple(self._steps_failed),
            commands=tuple(self._commands),
            guard=self._guard,
            clock_steps=tuple(self._clock_steps),
            jobs=tuple(self._jobs),
        )

    def _add(self, one: RecordedReconfiguration) -> None:
        if one.timeline.commands or one.timeline.links:
            self._timelines.append(one.timeline if self._observations else _without_observations(one.timeline))
        self._commands += commanded(one)
        ending = Ending(
            reconfiguration=one.timeline.reconfiguration,
            outcome=one.outcome or BROKEN_OFF,
            why=one.why if one.outcome else "its end is not recorded",
            seconds=one.seconds,
            hangs=one.hangs,
            prediction=one.prediction,
        )
        self._endings.append(ending)


def _without_observations(timeline: Timeline) -> Timeline:
    """Drop the observations of a timeline: of the ends only the recovery of reliable connections is left. Links that
    were commanded together share equal instants, stages and bounds, and all timelines the names of links and sources.
    """
    ends = [replace(end, instants=(), observations=()) for end in timeline.ends if end.rc is not UNSET]
    instants: dict[Instant, Instant] = {}
    stages: dict[Stage, Stage] = {}
    bounds_s: dict[float | None, float | None] = {}

    def shared(stage: Stage) -> Stage:
        error_s = bounds_s.setdefault(stage.error_s, stage.error_s)
        return stages.setdefault(stage, replace(stage, error_s=error_s))

    def sourced(instant: Instant) -> Instant:
        seen = instant.knowledge is Knowledge.SEEN
        return instants.setdefault(instant, replace(instant, source=intern(instant.source)) if seen else instant)

    links = [
        replace(
            link,
            instants=tuple(map(sourced, link.instants)),
            stages=tuple(map(shared, link.stages)),
        )
        for link in timeline.links
    ]
    return replace(timeline, ends=ends, links=links)
