"""What the record of each run says of the lab, the program and the playbook."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hwd.model.testbed import Testbed
from hwd.playbook.safe import SafeState
from hwd.records.run import QueuedRun, Run, RunOutcome
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """`commit`: of this program, None where it is not known. `inventory()`: what the devices say that they are now."""

    testbed: Testbed
    testbed_text: str
    version: str
    commit: str | None
    virtual_time: bool
    inventory: Callable[[], Mapping[str, Json]]
    clock: Clock

    def begun(self, queued: QueuedRun, parameters: Mapping[str, Json]) -> Run:
        """A run that begins now, with the parameters in force."""
        return Run(
            id=queued.id,
            playbook=queued.playbook,
            playbook_text=queued.playbook_text,
            parameters=dict(parameters),
            testbed=self.testbed.name,
            testbed_text=self.testbed_text,
            inventory=self.inventory(),
            version=self.version,
            commit=self.commit,
            virtual_time=self.virtual_time,
            started_wall_ns=self.clock.wall_ns(),
        )

    def never_begun(self, queued: QueuedRun, outcome: RunOutcome, why: str) -> Run:
        """A run that was taken out of the queue, and moved nothing."""
        now_ns = self.clock.wall_ns()
        return Run(
            id=queued.id,
            playbook=queued.playbook,
            playbook_text=queued.playbook_text,
            parameters=dict(queued.parameters),
            testbed=self.testbed.name,
            testbed_text=self.testbed_text,
            version=self.version,
            commit=self.commit,
            virtual_time=self.virtual_time,
            started_wall_ns=now_ns,
            ended_wall_ns=now_ns,
            outcome=outcome,
            why=why,
            safe_state=SafeState.UNTOUCHED,
        )
