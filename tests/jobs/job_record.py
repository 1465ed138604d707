"""A job as it is recorded, for tests of what reads or runs it."""

from typing import Any

from msgspec.structs import replace

from hwd.model.job import JobRank, JobRecord

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
