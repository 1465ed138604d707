"""TrialRun: which place a run has in a trial."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

import msgspec
from msgspec import Meta
from typing_extensions import override

from hwd.model.api_value import ApiValue
from hwd.model.plural import plural
from hwd_drivers.core.documents import Fact

Treatment = Literal["a", "b"]


class TrialRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a comparison until decided. `trial`: its id; `pair`: from 1 on, each has a run of both treatments.

    `metric`: what is compared: a stage, or `run`, the duration of the run. `words`: the treatment as it was asked for,
    a playbook and parameters.
    """

    trial: Annotated[str, Meta(pattern=r"\A[a-z0-9]{8}\Z")]
    treatment: Treatment
    pair: Annotated[int, Meta(ge=1, le=1_000_000)]
    metric: Annotated[str, Meta(min_length=1, max_length=40)]
    words: Annotated[str, Meta(max_length=1000)] = ""

    @override
    def __str__(self) -> str:
        return f"{self.treatment} of pair {self.pair} of trial {self.trial}"


class RunState(StrEnum):
    """Where a run is. The four final states have the words of `hwd.model.recorded_run.RunOutcome`."""

    QUEUED = "queued"
    """The run waits for its due time, or for runs that hold its ports; `waits_for` says which."""
    RUNNING = "running"
    """A step is under way; `stage` is the state of its reconfiguration."""
    PAUSED = "paused"
    """The run is paused between two steps, with its leases in force, until it is resumed or aborted."""
    SUCCEEDED = "succeeded"
    """All steps were done."""
    FAILED = "failed"
    """A step failed; `fault_class` and `why` say how."""
    ABORTED = "aborted"
    """Somebody (`by`) stopped it; it ended in its safe state. A queued one never began."""
    CRASHED = "crashed"
    """The daemon ended during the run; the journal restores its switches."""

    @property
    def ended(self) -> bool:
        return self not in (RunState.QUEUED, RunState.RUNNING, RunState.PAUSED)


class RunStatus(Fact, frozen=True, kw_only=True):
    """One run as it is now, or as it ended.

    It is what a `run.state` document says, its retained topic, and `GET /api/v1/runs/{id}/state`. `step` (from
    1) and `what` are of the step under way, or of the last one; None before the first. `stage` is that of the
    reconfiguration under way: journaled, driving, read-back, waiting, awaiting-confirm, rolling-back. `fault_class` is
    the title of the error that failed it. `by`: who paused or aborted it. `rolled_back`: all switches are as before the
    last apply; where branches ended differently, `safe_state` is `mixed`. `expected_s`: what remains. All `wall_ns` are
    unix time.
    """

    KIND: ClassVar = "run.state"
    run: str
    playbook: str
    state: RunState
    step: int | None = None
    steps: int
    what: str | None = None
    stage: str | None = None
    fault_class: str | None = None
    why: str = ""
    by: str | None = None
    rolled_back: bool = False
    safe_state: str | None = None
    due_wall_ns: int | None = None
    queued_wall_ns: int
    started_wall_ns: int | None = None
    ended_wall_ns: int | None = None
    expected_s: float | None = None
    waits_for: tuple[str, ...] = ()
    """What a queued run waits for, one text each: `run k3v9`, `its due time`."""

    def __str__(self) -> str:
        """`run k3v9 running 7/21 wait until ready (waiting), 40 s left`; `run k3v9 failed (not ready in time: ...),
        rolled back`.
        """
        text = f"run {self.run} {self.state}"
        if self.state is RunState.QUEUED:
            return text + (f", waits for {', '.join(self.waits_for)}" if self.waits_for else "")
        if self.state.ended:
            return text + (f" ({self.why})" if self.why else "") + (", rolled back" if self.rolled_back else "")
        if self.step is not None:
            text += f" {self.step}/{self.steps} {self.what or ''}".rstrip()
        if self.stage:
            text += f" ({self.stage})"
        if self.state is RunState.PAUSED and self.by:
            text += f", by {self.by}"
        return text + (f", {self.expected_s:.3g} s left" if self.expected_s else "")


class RunProgress(RunStatus, frozen=True, kw_only=True):
    """A run under way, with the steps that are done of all that it has with its loops."""

    done: int
    total: int


class AcceptedRun(ApiValue, frozen=True, kw_only=True):
    """A run that was accepted: it is running, or in the queue.

    `due_wall_ns`, `waits_for`: see RunStatus. `after`: an id of the event stream,
    which has all of this run after it.
    """

    run: str
    playbook: str
    steps: int
    state: RunState
    due_wall_ns: int | None
    waits_for: list[str]
    after: str

    @classmethod
    def of(cls, status: RunStatus, *, after: str) -> Self:
        return cls(
            run=status.run,
            playbook=status.playbook,
            steps=status.steps,
            state=status.state,
            due_wall_ns=status.due_wall_ns,
            waits_for=[*status.waits_for],
            after=after,
        )

    @property
    def id(self) -> str:
        return self.run

    @override
    def __str__(self) -> str:
        return f"run {self.id} of {self.playbook}, {plural(self.steps, 'step')}"


class AbortedRun(ApiValue, frozen=True, kw_only=True):
    """The end of a run that was aborted. `outcome`: its final state. `safe_state`: where it left the switches."""

    run: str
    outcome: RunState
    why: str
    safe_state: str | None

    @override
    def __str__(self) -> str:
        return f"run {self.run} {self.outcome}: {self.why}"
