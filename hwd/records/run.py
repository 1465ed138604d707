"""A run in the records."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hwd_drivers.core.documents import Json


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of a playbook. `testbed_text` and `playbook_text` are the files as they were; `inventory` is what
    the devices reported of themselves.

    `ended_wall_ns` and `outcome` are None while it is under way. `virtual_time`: its seconds are simulated ones.
    """

    id: str
    playbook: str
    testbed: str
    version: str
    started_wall_ns: int
    playbook_text: str = ""
    testbed_text: str = ""
    parameters: Mapping[str, Json] = field(default_factory=dict)
    inventory: Mapping[str, Json] = field(default_factory=dict)
    commit: str | None = None
    virtual_time: bool = False
    ended_wall_ns: int | None = None
    outcome: RunOutcome | None = None
    why: str = ""
    safe_state: str | None = None

    def summary(self) -> dict[str, Json]:
        """As data, without the files and the inventory."""
        return {name: getattr(self, name) for name in SUMMARY}

    def __str__(self) -> str:
        state = self.outcome or "under way"
        return f"run {self.id} {self.playbook} {state}" + (f": {self.why}" if self.why else "")


LONG = frozenset({"playbook_text", "testbed_text", "inventory"})
"""Fields that a list of runs omits: some tens of kilobytes each."""
SUMMARY = tuple(field.name for field in dataclasses.fields(Run) if field.name not in LONG)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRun:
    """A run that has not begun, with all that its start needs, also after a restart. `due_wall_ns` None: as soon as its
    ports are free.
    """

    id: str
    playbook: str
    playbook_text: str
    file: str
    parameters: Mapping[str, str]
    queued_wall_ns: int
    due_wall_ns: int | None = None
