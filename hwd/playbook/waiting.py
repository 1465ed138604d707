"""A run that waits, with the runner that will do it."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from hwd.model.run import RunState, RunStatus
from hwd.playbook.runner import Runner
from hwd.records.run import QueuedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """`hwd.playbook.queue.Waits`: what it takes to begin the run, as the records have it, and its runner."""

    queued: QueuedRun
    runner: Runner

    @property
    def id(self) -> str:
        return self.queued.id

    @property
    def ports(self) -> frozenset[str]:
        return self.runner.ports

    @property
    def from_wall_ns(self) -> int:
        return max(self.queued.queued_wall_ns, self.queued.due_wall_ns or 0)

    def status(self, state: RunState, **fields: Any) -> RunStatus:
        """Its state before its first step."""
        status = RunStatus(
            run=self.id,
            playbook=self.queued.playbook,
            state=state,
            steps=self.runner.total_steps,
            queued_wall_ns=self.queued.queued_wall_ns,
            due_wall_ns=self.queued.due_wall_ns,
        )
        return dataclasses.replace(status, **fields)
