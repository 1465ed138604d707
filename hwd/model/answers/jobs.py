"""Jobs, in the answers of the API."""

from typing_extensions import override

from hwd.model.answers.answer import Answer


class JobRankStatus(Answer, frozen=True, kw_only=True):
    """A rank. `state`: `starting`, `running`, `waiting` for its plane, `sending`, or how it ended."""

    rank: int
    host: str
    gpu: int | None
    state: str
    operation: str = ""


class JobOutput(Answer, frozen=True, kw_only=True):
    """What a rank has written, both streams as they came, from byte `first` on; `next`: where to go on."""

    data: bytes
    first: int
    next: int


class JobStatus(Answer, frozen=True, kw_only=True):
    """A job. `at`: the target that its light is at, empty where it is at none; `moving`: where it is on the way to.

    `why`: why it did not succeed. `lease` and `prepared_set` are empty where it holds none.
    """

    id: str
    entry: str
    state: str
    why: str
    plane: str
    by: str
    lease: str
    prepared_set: str
    at: str
    moving: str
    started_wall_ns: int
    ended_wall_ns: int | None
    ranks: list[JobRankStatus]

    @property
    def ended(self) -> bool:
        return self.ended_wall_ns is not None

    @override
    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"job {self.id} of {self.by}: {self.entry}, {len(self.ranks)} ranks, {self.state}{why}"
