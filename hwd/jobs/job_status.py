"""A job in words: the answer about it, and the names of its ranks."""

from collections.abc import Iterable, Mapping, Sequence

from hwd.model.job import JobRecord
from hwd.model.job_status import JobRankStatus, JobStatus


def status_of(
    record: JobRecord,
    *,
    at: str = "",
    moving: str = "",
    not_ready: str = "",
    failed: Sequence[str] = (),
    moved: str = "",
    states: Mapping[int, tuple[str, str]] | None = None,
) -> JobStatus:
    """The answer about a job, under way or ended."""
    ranks = []
    for number, rank in enumerate(record.ranks):
        state, operation = (states or {}).get(number, ("running" if number in record.joined else "starting", ""))
        if (end := record.ends.get(number)) is not None:
            state, operation = str(end), ""
        elif record.state.ended:
            state, operation = "ended with the job", ""
        ranks.append(JobRankStatus(rank=number, host=rank.host, gpu=rank.gpu, state=state, operation=operation))
    return JobStatus(
        id=record.id,
        entry=record.entry,
        state=record.state,
        why=record.why,
        plane=record.plane_text,
        by=record.by,
        lease=record.lease,
        prepared_set=record.prepared_set,
        at=at,
        moving=moving,
        not_ready=not_ready,
        failed=[*failed],
        moved=moved,
        moves_of_others=record.moved,
        started_wall_ns=record.started_wall_ns,
        ended_wall_ns=record.ended_wall_ns,
        ranks=ranks,
    )


def named(record: JobRecord, numbers: Iterable[int]) -> str:
    """`rank 2 on h2, rank 3 on h3`."""
    return ", ".join(f"rank {number} on {record.ranks[number].host}" for number in numbers)
