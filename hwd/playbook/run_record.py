"""Run records: what is recorded of a run when it begins, and its state when it has ended."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from hwd.fabric.in_use import InUse
from hwd.model.recorded_run import Run, RunOutcome, RunSummary
from hwd.model.run import RunState, RunStatus
from hwd.model.run_facts import RunEnded
from hwd.playbook.runner import RunEnd
from hwd.playbook.safe_state import SafeState
from hwd.records.queue_table import QueuedRun
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Fact, Json


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTemplate:
    """The common part of all run records of this daemon: the lab and the program.

    `commit`: of this program, None if unknown. `testbed_text()`: the file, as it is in force.
    `inventory()`: models, serials and versions that the devices report now.
    """

    in_use: InUse
    testbed_text: Callable[[], str]
    version: str
    commit: str | None
    virtual_time: bool
    inventory: Callable[[], Mapping[str, Json]]
    clock: Clock

    def begun(self, queued: QueuedRun, parameters: Mapping[str, Json]) -> Run:
        """The record of a run that begins now, with the values of its parameters."""
        return replace(self._run(queued, parameters), inventory=dict(self.inventory()))

    def never_begun(self, queued: QueuedRun, outcome: RunOutcome, why: str) -> Run:
        """The record of a run that was taken out of the queue before it began."""
        run = self._run(queued, queued.parameters)
        untouched = SafeState.UNTOUCHED
        return replace(run, ended_wall_ns=run.started_wall_ns, outcome=outcome, why=why, safe_state=untouched)

    def _run(self, queued: QueuedRun, parameters: Mapping[str, Json]) -> Run:
        return Run(
            id=queued.id,
            playbook=queued.playbook,
            playbook_text=queued.playbook_text,
            trial=queued.trial,
            parameters=dict(parameters),
            testbed=self.in_use.testbed.name,
            testbed_text=self.testbed_text(),
            version=self.version,
            commit=self.commit,
            virtual_time=self.virtual_time,
            started_wall_ns=self.clock.wall_ns(),
        )


def status_of(run: RunSummary, last: Fact | None) -> RunStatus:
    """The state of a run from its record, and from its newest recorded state for its progress.

    `last` is no RunStatus where another version of hwd recorded it; then nothing is known of the progress.
    """
    queued_ns = run.started_wall_ns
    begun = RunStatus(run=run.id, playbook=run.playbook, state=RunState.RUNNING, steps=0, queued_wall_ns=queued_ns)
    return replace(
        last if isinstance(last, RunStatus) else begun,
        state=RunState.RUNNING if run.outcome is None else RunState(run.outcome),
        stage=None,
        why=run.why,
        rolled_back=run.safe_state == SafeState.BEFORE_APPLY,
        safe_state=run.safe_state,
        started_wall_ns=run.started_wall_ns,
        ended_wall_ns=run.ended_wall_ns,
        expected_s=None,
        waits_for=(),
    )


def ended_status(status: RunStatus, end: RunEnd, *, by: str | None, ended_wall_ns: int) -> RunStatus:
    """`status` with the end of the run; `by`: who aborted it."""
    return replace(
        status,
        state=RunState(end.outcome),
        stage=None,
        fault_class=end.fault.title if end.fault else None,
        why=end.why,
        by=by,
        rolled_back=end.safe_state is SafeState.BEFORE_APPLY,
        safe_state=end.safe_state,
        ended_wall_ns=ended_wall_ns,
        expected_s=None,
    )


def ended_fact(run: str, end: RunEnd) -> RunEnded:
    """The last document of a run."""
    return RunEnded(
        run=run,
        outcome=end.outcome,
        why=end.why,
        safe_state=end.safe_state,
        exit_status=end.fault.exit_status if end.fault else None,
    )
