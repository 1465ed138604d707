"""The steps of a playbook as values, checked and with all expressions replaced; sweeps and includes are expanded,
repeats are not.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from hwd.config.playbook.expression import Expression, Scalar, Value, as_text
from hwd.model.action import Action
from hwd.model.fault import Fault
from hwd.model.instant import InstantName
from hwd.model.plural import plural
from hwd.model.request import Request

Everything = Literal["all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseStep:
    """Claim ports for the run, or for the branch of this step; `ports` is `all` or names."""

    ports: Everything | tuple[str, ...]
    for_s: float

    def __str__(self) -> str:
        ports = self.ports if isinstance(self.ports, str) else ", ".join(self.ports)
        return f"lease {ports} for {self.for_s:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyStep:
    """Apply what is requested, under the lease that is in force then.

    Where the playbook was read without a testbed, `request` has only the text. `ports` are those that it certainly
    needs; crossconnects that collide with it may add more.
    """

    request: Request
    ports: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"apply {self.request.body.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStep:
    """Wait until the last apply is ready."""

    until: InstantName
    within_s: float

    def __str__(self) -> str:
        return f"wait until {self.until}, {self.within_s:g} s at most"


@dataclass(frozen=True, slots=True, kw_only=True)
class DwellStep:
    """Let time pass."""

    for_s: float

    def __str__(self) -> str:
        return f"wait for {self.for_s:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteStep:
    """Write a text into the record. Its `{{ ... }}` are replaced when the step runs, from `scope` and
    the measurements.
    """

    text: str
    scope: Mapping[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"note {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStep:
    """Set NIC ports, until the run ends. `actions` are empty where the playbook was read without a testbed."""

    text: str
    actions: tuple[Action, ...] = ()

    def __str__(self) -> str:
        return f"host {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultStep:
    """Inject a fault into a twin, until it is cleared or the run ends."""

    fault: Fault

    def __str__(self) -> str:
        return f"fault {self.fault}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStep:
    """Run a job of the testbed file to its end. `ports`: those that it leases at least; none without a testbed."""

    name: str
    arguments: tuple[str, ...] = ()
    ports: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return " ".join(("job", self.name, *self.arguments))


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertStep:
    """An expression over measurements that must be true, else the run fails."""

    expression: Expression
    scope: Mapping[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"assert {self.expression}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatStep:
    """Do the steps `times` times."""

    times: int
    steps: "tuple[Step, ...]"

    def __str__(self) -> str:
        return f"repeat {plural(self.times, 'time')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRound:
    """One combination of the swept values, and the steps with these values."""

    values: Mapping[str, Scalar]
    steps: "tuple[Step, ...]"

    def __str__(self) -> str:
        return ", ".join(f"{name}={as_text(value)}" for name, value in self.values.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStep:
    """Do the steps once for every combination of values; the first variable changes slowest."""

    rounds: tuple[SweepRound, ...]

    def __str__(self) -> str:
        return f"sweep {', '.join(self.rounds[0].values)} over {plural(len(self.rounds), 'round')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Steps that run at the same time as those of other branches."""

    name: str
    steps: "tuple[Step, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelStep:
    """Do all branches at once. They claim no port in common."""

    branches: tuple[Branch, ...]

    def __str__(self) -> str:
        return f"parallel {', '.join(branch.name for branch in self.branches)}"


LeafStep = LeaseStep | ApplyStep | WaitStep | DwellStep | NoteStep | HostStep | FaultStep | JobStep | AssertStep
"""The steps that a run counts."""
Step = LeafStep | RepeatStep | SweepStep | ParallelStep


def below(step: Step) -> tuple["tuple[Step, ...]", ...]:
    """The lists of steps inside a step; none for a leaf."""
    match step:
        case RepeatStep(steps=steps):
            return (steps,)
        case SweepStep(rounds=rounds):
            return tuple(round.steps for round in rounds)
        case ParallelStep(branches=branches):
            return tuple(branch.steps for branch in branches)
        case _:
            return ()


def total_steps(steps: Iterable[Step]) -> int:
    """Leaves, with all repeats and sweeps expanded."""
    return _sum(steps, lambda step: 1)


def total_applies(steps: Iterable[Step]) -> int:
    """Leaves that drive switches."""
    return _sum(steps, lambda step: isinstance(step, ApplyStep))


def _sum(steps: Iterable[Step], worth: Callable[[LeafStep], int]) -> int:
    total = 0
    for step in steps:
        match step:
            case RepeatStep() | SweepStep() | ParallelStep():
                times = step.times if isinstance(step, RepeatStep) else 1
                total += times * sum(_sum(found, worth) for found in below(step))
            case _:
                total += worth(step)
    return total


def total_dwell_s(steps: Iterable[Step]) -> float:
    """The least duration of the steps in seconds: their dwells, the longest branch of each `parallel`."""
    total = 0.0
    for step in steps:
        inner = [total_dwell_s(found) for found in below(step)]
        match step:
            case DwellStep(for_s=for_s):
                total += for_s
            case RepeatStep(times=times):
                total += times * sum(inner)
            case ParallelStep():
                total += max(inner, default=0.0)
            case _:
                total += sum(inner)
    return total


def longest_lease_s(steps: Iterable[Step]) -> float:
    """The longest time that one of the steps leases ports for; 0 where none does."""
    found = 0.0
    for step in steps:
        own_s = step.for_s if isinstance(step, LeaseStep) else 0.0
        found = max(found, own_s, *(longest_lease_s(inner) for inner in below(step)), 0.0)
    return found
