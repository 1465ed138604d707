"""Programs on hosts, in the answers of the API."""

from typing_extensions import override

from hwd.model.answers.answer import Answer


class ProgramStatus(Answer, frozen=True, kw_only=True):
    """A program that runs on a host now, since `since_s`, as process `pid` there. `by`: who started it."""

    id: str
    host: str
    name: str
    command: list[str]
    user: str
    pid: int
    since_s: float
    by: str

    @override
    def __str__(self) -> str:
        return f"program {self.id} of {self.by}: {self.name} on {self.host}, pid {self.pid}, since {self.since_s:.0f} s"
