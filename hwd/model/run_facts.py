"""The facts of runs that the daemon tells."""

from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from hwd.model.fault import Fault
from hwd_drivers.core.documents import Fact


class RunFact(Fact, frozen=True, kw_only=True):
    """A fact of one run; `run` is its id."""

    run: str


class RunStarted(RunFact, frozen=True, kw_only=True):
    """The run has started; `parameters`: {name: value}; `virtual_time`: it runs in a simulated world."""

    KIND: ClassVar = "run.started"
    playbook: str
    parameters: dict[str, Any]
    steps: int
    virtual_time: bool


class RunStep(RunFact, frozen=True, kw_only=True):
    """A run's step; `state`: started, done, failed; `sweep`: {variable: value}; `expected_s`: what is left of it."""

    KIND: ClassVar = "run.step"
    step: int
    what: str
    state: str
    done: int
    total: int
    expected_s: float | None
    branch: str | UnsetType = UNSET
    sweep: dict[str, Any] | UnsetType = UNSET


class RunPaused(RunFact, frozen=True, kw_only=True):
    """This branch is paused between two steps."""

    KIND: ClassVar = "run.paused"
    by: str
    branch: str


class RunResumed(RunFact, frozen=True, kw_only=True):
    """This branch goes on."""

    KIND: ClassVar = "run.resumed"
    branch: str


class RunNote(RunFact, frozen=True, kw_only=True):
    """Written by a step `note`, or by the daemon about the run."""

    KIND: ClassVar = "run.note"
    text: str


class RunJob(RunFact, frozen=True, kw_only=True):
    """A job of the run has succeeded. `entry`, `arguments`, `plane`: what it was; `sweep`: {variable: value}.
    `seconds`: of its iterations, where its program says them. `moves` of its light, with so many new `links` (null
    where that is not recorded), took `moving_s` in all, of which its operations waited `held_s`, whose ranks had all
    come.
    """

    KIND: ClassVar = "run.job"
    job: str
    entry: str
    arguments: list[str]
    plane: str
    sweep: dict[str, Any] = msgspec.field(default_factory=dict)
    seconds: list[float]
    moves: int
    links: int | None
    moving_s: float
    held_s: float


class RunHost(RunFact, frozen=True, kw_only=True):
    """A NIC port was set. `action`: mtu, autoneg, ... with `value`; or put-back, with `setting`."""

    KIND: ClassVar = "run.host"
    host: str
    port: str
    action: str
    setting: str | UnsetType = UNSET
    value: Any = UNSET
    seconds: float | UnsetType = UNSET
    before: Any
    after: Any


class RunFault(RunFact, frozen=True, kw_only=True):
    """A fault of the run, as it was injected; `clear` when the run ended."""

    KIND: ClassVar = "run.fault"
    fault: Fault


class RunAssert(RunFact, frozen=True, kw_only=True):
    """A step `assert` was checked."""

    KIND: ClassVar = "run.assert"
    expression: str
    held: bool
    values: dict[str, Any]


class RunOverdue(RunFact, frozen=True, kw_only=True):
    """An abort that has not ended the run within its bound. `waits_for`: what has to end before the run does."""

    KIND: ClassVar = "run.overdue"
    by: str
    waits_for: str
    within_s: float


class RunEnded(RunFact, frozen=True, kw_only=True):
    """The run has ended; `outcome`: succeeded, failed, aborted, crashed."""

    KIND: ClassVar = "run.ended"
    outcome: str
    why: str
    safe_state: str | None
    exit_status: int | UnsetType | None = UNSET
