"""What the daemon tells of programs that it runs on hosts."""

from typing import ClassVar

from hwd_drivers.core.documents import Fact


class ProgramFact(Fact, frozen=True, kw_only=True):
    """Of one process on a host. `name`: the entry of the testbed file; `command`: the whole command line, `user`: as
    whom; `by`: who asked for it.
    """

    program: str
    host: str
    name: str
    command: list[str]
    user: str
    by: str


class HostProgramStarted(ProgramFact, frozen=True, kw_only=True):
    """It was executed, as process `pid` of the host."""

    KIND: ClassVar = "program.started"
    pid: int


class HostProgramEnded(ProgramFact, frozen=True, kw_only=True):
    """It has ended after `seconds`, with `status` or by `signal`; with neither how it ended is not known. `why`: why it
    was ended, or what is not known. What it wrote is not in the records.
    """

    KIND: ClassVar = "program.ended"
    status: int | None
    signal: str
    why: str
    seconds: float
