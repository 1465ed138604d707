"""The state of a run that has ended: from its end, or from what the records hold of it."""

import dataclasses

from hwd.model.run import RunState, RunStatus
from hwd.playbook.runner import RunEnd
from hwd.playbook.safe import SafeState
from hwd.records.run import Run
from hwd_drivers.core.documents import Document, Json


def status_of(run: Run, last: Document | None) -> RunStatus:
    """How it ended is what `run` says; how far it came, what `last` says, its newest `run.state`."""
    if last is not None:
        status = RunStatus.from_data(last.data)
    else:
        queued_ns = run.started_wall_ns
        status = RunStatus(run=run.id, playbook=run.playbook, state=RunState.RUNNING, steps=0, queued_wall_ns=queued_ns)
    return dataclasses.replace(
        status,
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
    """`status` as its end left it; `by`: who aborted it."""
    return dataclasses.replace(
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


def ended_data(run: str, end: RunEnd) -> dict[str, Json]:
    """The data of `run.ended`."""
    return {
        "run": run,
        "outcome": end.outcome,
        "why": end.why,
        "safe_state": end.safe_state,
        "exit_status": end.fault.exit_status if end.fault else None,
    }
