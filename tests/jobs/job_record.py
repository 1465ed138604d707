"""A job as it is recorded, for tests of what reads or runs it."""

from typing import Any

from msgspec.structs import replace

from hwd.model.job import JobEnded, JobEvent, JobRank, JobRecord, OperationSent
from hwd.model.plane import Action, Event
from hwd_agents.wire import PortBytes

MS = 1_000_000
Ports = dict[str, PortBytes]

RECORD = JobRecord(
    id="j7x2a1b9",
    entry="train",
    command=["/bin/true"],
    user="lab",
    ranks=[JobRank(host=f"h{n}", optical=[f"h{n}.eth0", f"h{n}.eth1"]) for n in range(2)],
    groups={"world": [0, 1]},
    dimensions={},
    plane="static",
    plane_arguments={},
    shim="ask",
    fallback=False,
    within_s=60,
    arrive_within_s=60,
    answer_within_s=60,
    ready_within_s=30,
    key="secret",
    by="me",
    started_wall_ns=1,
)


def job_record(**changes: Any) -> JobRecord:
    """Two ranks on two hosts, each with two ports on light, but for these fields."""
    return replace(RECORD, **changes)


def job_event(at_ms: float, event: Event, *actions: Action, **more: Any) -> JobEvent:
    """What a plane was told, and what it answered."""
    return JobEvent.of(event, actions, at_ns=round(at_ms * MS), wall_ns=0, ticked_s=None, **more)


def measured(
    began_ms: float | None, ended_ms: float, before: Ports | None = None, after: Ports | None = None, **more: Any
) -> OperationSent:
    """What an agent measured of an operation of a rank."""
    return OperationSent(
        began_ns=None if began_ms is None else round(began_ms * MS),
        ended_ns=round(ended_ms * MS),
        before=before or {},
        after=after or {},
        **{"error_ns": 2000} | more,
    )


ENDED = JobEnded(job=RECORD.id, entry="train", outcome="succeeded", why="", seconds=1.0)
