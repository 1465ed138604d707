"""A run as the records have it: what the records store, the HTTP API answers with, and reports are made from."""

from enum import StrEnum
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, field
from typing_extensions import override

from hwd.model.html_table import table
from hwd.model.run import RunState, TrialRun


class RunOutcome(StrEnum):
    """How a run ended: the final states of `hwd.model.run.RunState`."""

    SUCCEEDED = "succeeded"
    """All steps were done."""
    FAILED = "failed"
    """A step failed; `why` says which."""
    ABORTED = "aborted"
    """Somebody stopped it; it ended in its safe state."""
    CRASHED = "crashed"
    """The daemon ended during the run; what was recorded until then is there."""


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a playbook, in short: without `playbook_text`, `testbed_text` and `inventory`, which a Run has.

    `ended_wall_ns` and `outcome` are None while it is under way. `virtual_time`: its seconds are simulated ones.
    `state`: only in an answer of the daemon. `trial`: its place in a trial, where it is in one.
    """

    id: str
    playbook: str
    testbed: str
    version: str
    started_wall_ns: int
    playbook_text: str | UnsetType = UNSET
    testbed_text: str | UnsetType = UNSET
    parameters: dict[str, Any] = field(default_factory=dict)
    inventory: dict[str, Any] | UnsetType = UNSET
    commit: str | None = None
    virtual_time: bool = False
    ended_wall_ns: int | None = None
    outcome: RunOutcome | None = None
    why: str = ""
    safe_state: str | None = None
    state: RunState | UnsetType = UNSET
    trial: TrialRun | UnsetType = UNSET

    @property
    def seconds(self) -> float | None:
        return None if self.ended_wall_ns is None else (self.ended_wall_ns - self.started_wall_ns) / 1e9

    @override
    def __repr__(self) -> str:
        return f"<{self}>"

    @override
    def __str__(self) -> str:
        state = self.outcome or self.state or "under way"
        return f"run {self.id} {self.playbook} {state}" + (f": {self.why}" if self.why else "")

    def _repr_html_(self) -> str:
        took = None if self.seconds is None else f"{self.seconds:.1f} s"
        parameters = ", ".join(f"{key}={value}" for key, value in self.parameters.items())
        facts = [
            ("testbed", self.testbed),
            ("took", took),
            ("parameters", parameters),
            ("why", self.why),
            ("switches", self.safe_state),
        ]
        return table(("", str(self)), [fact for fact in facts if fact[1]])


class Run(RunSummary, frozen=True, kw_only=True):
    """One execution of a playbook. `testbed_text` and `playbook_text` are the files as they were; `inventory` is what
    the devices reported of themselves. See RunSummary for the rest.
    """

    playbook_text: str = ""
    testbed_text: str = ""
    inventory: dict[str, Any] = field(default_factory=dict)
