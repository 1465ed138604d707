"""Rebuilds reconfigurations from the documents of a run, one after the other, without loading the run."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import UNSET

from hwd.model.hang import Hang
from hwd.model.host import ClockStepped, HostEvent
from hwd.model.instant import Origin
from hwd.model.prediction import PlanPrediction
from hwd.model.reconfiguration import (
    ReconfigurationCommanded,
    ReconfigurationEnded,
    ReconfigurationFact,
    ReconfigurationStarted,
    ReconfigurationState,
)
from hwd.model.recorded_run import Run
from hwd.report.conditions import plain
from hwd.timeline import Timeline, build_timeline
from hwd.timeline.hang import hangs
from hwd_drivers.core.documents import Document
from hwd_drivers.twins.timing import SWITCH_TIMINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedReconfiguration:
    """One reconfiguration of a run, as far as it was recorded.

    `whole`: its timeline was recorded. Else the run broke off in it, and `timeline` is made of what was recorded until
    then, in which a missing event means nothing. `made` and `removed`: crossconnects by switch. `switches`: of each
    link, by its text. `outcome` None: its end was not recorded. Unix time is the daemon's monotonic time plus
    `wall_offset_ns`. `states`: when it entered which. `hangs`: where its links hung when the wait
    for them ended, as far as that is known. `prediction`: of its time, with what it was; None where none was recorded.
    """

    timeline: Timeline
    whole: bool
    made: Mapping[str, int]
    removed: Mapping[str, int]
    switches: Mapping[str, tuple[str, ...]]
    started_ns: int
    ended_ns: int | None
    wall_offset_ns: int
    outcome: str | None
    why: str
    seconds: float | None
    states: tuple[tuple[int, str], ...]
    hangs: tuple[Hang, ...] = ()
    prediction: PlanPrediction | None = None


@dataclass(slots=True)
class _Open:
    id: str
    at_ns: int
    wall_offset_ns: int
    started: ReconfigurationStarted | None = None
    commanded: list[ReconfigurationCommanded] = field(default_factory=list)
    events: list[HostEvent] = field(default_factory=list)
    clock_steps: list[ClockStepped] = field(default_factory=list)
    states: list[tuple[int, str]] = field(default_factory=list)
    timeline: Timeline | None = None


class Reassembly:
    """Takes the documents of a run in their order; returns each reconfiguration when it ended, and finally those that
    never did.

    Only documents of open reconfigurations are in memory.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._open: dict[str, _Open] = {}

    @property
    def open_since_ns(self) -> int | None:
        """The beginning of the oldest open one; None where none is open."""
        return min((one.at_ns for one in self._open.values()), default=None)

    def take(self, document: Document) -> RecordedReconfiguration | None:
        fact = document.fact
        match fact:
            case HostEvent():
                for waiting in self._open.values():
                    waiting.events.append(fact)
            case ClockStepped():
                for waiting in self._open.values():
                    waiting.clock_steps.append(fact)
            case ReconfigurationFact(reconfiguration=id):
                # Its beginning is missing where documents were lost: the rest still counts.
                one = self._open.setdefault(id, _Open(id, document.at_ns, document.wall_ns - document.at_ns))
                if isinstance(fact, ReconfigurationEnded):
                    del self._open[id]
                    return self._done(one, fact, ended_ns=document.at_ns)
                _take(one, fact, at_ns=document.at_ns)
        return None

    def rest(self) -> Iterator[RecordedReconfiguration]:
        """Reconfigurations that never ended, oldest first."""
        while self._open:
            yield self._done(self._open.pop(next(iter(self._open))), None, ended_ns=None)

    def _done(self, one: _Open, ended: ReconfigurationEnded | None, *, ended_ns: int | None) -> RecordedReconfiguration:
        started = one.started or ReconfigurationStarted(
            reconfiguration=one.id, run=self._run.id, hash="", what="", links=[], moves=[]
        )
        return RecordedReconfiguration(
            timeline=one.timeline or self._broken_off(one, started),
            whole=one.timeline is not None,
            made={move.switch: len(move.add) for move in started.moves},
            removed={move.switch: len(move.remove) for move in started.moves},
            switches={link.link: tuple(link.switches or ()) for link in started.links},
            started_ns=one.at_ns,
            ended_ns=ended_ns,
            wall_offset_ns=one.wall_offset_ns,
            outcome=None if ended is None else ended.outcome,
            why="" if ended is None else ended.why,
            seconds=None if ended is None else ended.seconds,
            states=tuple(one.states),
            hangs=_hangs(one, ended),
            prediction=None if ended is None else ended.prediction or None,
        )

    def _broken_off(self, one: _Open, started: ReconfigurationStarted) -> Timeline:
        return build_timeline(
            started=started,
            commanded=one.commanded,
            events=one.events,
            sampled={},
            clock_steps=one.clock_steps,
            switch_origins=_switch_origins(self._run),
        )


def _hangs(one: _Open, ended: ReconfigurationEnded | None) -> tuple[Hang, ...]:
    """What was found when the links were not ready in time; else, where they were waited for in vain, what their
    instants say.
    """
    if ended is None:
        return ()
    if ended.hangs is not UNSET:
        return tuple(ended.hangs)
    waited = any(state == "waiting" for _, state in one.states)
    return tuple(hangs(one.timeline)) if one.timeline and waited and ended.outcome != "confirmed" else ()


def _take(one: _Open, fact: ReconfigurationFact, *, at_ns: int) -> None:
    match fact:
        case ReconfigurationStarted():
            one.started = fact
        case ReconfigurationCommanded():
            one.commanded.append(fact)
        case ReconfigurationState(state=state):
            one.states.append((at_ns, state))
        case Timeline():
            one.timeline = fact
            one.events.clear()


def recorded_reconfigurations(run: Run, documents: Iterable[Document]) -> Iterator[RecordedReconfiguration]:
    """Yield each reconfiguration at its end, finally those that have none."""
    reassembly = Reassembly(run)
    for document in documents:
        if (one := reassembly.take(document)) is not None:
            yield one
    yield from reassembly.rest()


def _switch_origins(run: Run) -> dict[str, Origin]:
    """The origin of each twin's answers, as the daemon would state it; a switch that is missing is hardware."""
    switches = plain(run.testbed_text).get("switches")
    origins: dict[str, Origin] = {}
    for name, switch in switches.items() if isinstance(switches, dict) else ():
        twin = switch.get("twin") if isinstance(switch, dict) else None
        if twin is not None:
            timing = SWITCH_TIMINGS.get(twin.get("timing", "")) if isinstance(twin, dict) else None
            fitted = timing is None or timing.fitted_to is not None
            origins[str(name)] = Origin.FITTED if fitted else Origin.TWIN
    return origins
