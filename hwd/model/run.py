"""The state of a run as one value, for all who follow it from outside."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ProtocolError


class RunState(StrEnum):
    """Where a run is. The four final states have the words of `hwd.records.RunOutcome`."""

    QUEUED = "queued"
    """It waits for its due time, or for runs that hold its ports; `waits_for` says which."""
    RUNNING = "running"
    """A step is under way; `stage` is the state of its reconfiguration."""
    PAUSED = "paused"
    """It is paused between two steps, with its leases in force, until it is resumed or aborted."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """One run as it is now, or as it ended.

    It is the data of a `run.state` document, of its retained topic, and of `GET /api/v1/runs/{id}/state`. `step` (from
    1) and `what` are of the step under way, or of the last one; None before the first. `stage` is that of the
    reconfiguration under way: journaled, driving, read-back, waiting, awaiting-confirm, rolling-back. `fault_class` is
    the title of the error that failed it. `by`: who paused or aborted it. `rolled_back`: all switches are as before the
    last apply; where branches ended differently, `safe_state` is `mixed`. `expected_s`: what remains. All `wall_ns` are
    unix time.
    """

    run: str
    playbook: str
    state: RunState
    steps: int
    queued_wall_ns: int
    step: int | None = None
    what: str | None = None
    stage: str | None = None
    fault_class: str | None = None
    why: str = ""
    by: str | None = None
    rolled_back: bool = False
    safe_state: str | None = None
    due_wall_ns: int | None = None
    started_wall_ns: int | None = None
    ended_wall_ns: int | None = None
    expected_s: float | None = None
    waits_for: tuple[str, ...] = ()
    """What a queued run waits for, one text each: `run k3v9`, `its due time`."""

    def to_data(self) -> dict[str, Json]:
        return {
            "run": self.run,
            "playbook": self.playbook,
            "state": self.state,
            "step": self.step,
            "steps": self.steps,
            "what": self.what,
            "stage": self.stage,
            "fault_class": self.fault_class,
            "why": self.why,
            "by": self.by,
            "rolled_back": self.rolled_back,
            "safe_state": self.safe_state,
            "due_wall_ns": self.due_wall_ns,
            "queued_wall_ns": self.queued_wall_ns,
            "started_wall_ns": self.started_wall_ns,
            "ended_wall_ns": self.ended_wall_ns,
            "expected_s": self.expected_s,
            "waits_for": list[Json](self.waits_for),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Ignores fields of a newer hwd. Raises ProtocolError for what is no run state."""
        try:
            known = {name: data[name] for name in cls.__slots__ if name in data}
            return cls(**{**known, "state": RunState(data["state"]), "waits_for": tuple(data.get("waits_for") or ())})
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"run state: cannot read {dict(data)}: {error!r}") from error

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
