"""Programs on hosts: what one says, how it ended, and the seam that starts them."""

import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec
from typing_extensions import override

if TYPE_CHECKING:
    from hwd.model.testbed import Host
from typing import ClassVar

from hwd.model.api_value import ApiValue
from hwd_drivers.core.documents import Fact

Signal = Literal["INT", "TERM", "KILL", "HUP", "USR1", "USR2", "STOP", "CONT"]
"""What can be sent to a program of a host."""


class ProgramStarted(msgspec.Struct, frozen=True, kw_only=True, tag="started", tag_field="is"):
    """The first thing that is said of a process. `pid` is that on its host; `id` is that of the daemon."""

    id: str
    host: str
    pid: int


class ProgramOutput(msgspec.Struct, frozen=True, kw_only=True, tag="output", tag_field="is"):
    """The output of a program, in pieces as they came; `data` is base64 in JSON."""

    stream: Literal["out", "err"]
    data: bytes


class ProgramEnd(msgspec.Struct, frozen=True, kw_only=True, tag="end", tag_field="is"):
    """The last thing that is said. `status` or `signal` (`SIGKILL`; `SIG35` where it has no name) says how it ended;
    neither: that is not known.

    `why`: why it was ended, what was left behind, or what is not known; empty where it ended by itself.
    """

    status: int | None = None
    signal: str = ""
    why: str = ""

    @override
    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        if self.status is not None:
            return f"ended with status {self.status}{why}"
        return f"was ended by {self.signal}{why}" if self.signal else f"its end is not known{why}"

    @property
    def exit_status(self) -> int:
        """The exit status as a shell has it: 128 and the number of the signal. Not for an end that is not known."""
        if self.status is not None:
            return self.status
        known = signal.Signals.__members__.get(self.signal)
        return 128 + (int(self.signal.removeprefix("SIG")) if known is None else known.value)


ProgramNews = ProgramStarted | ProgramOutput | ProgramEnd


class RunningProgram(Protocol):
    """A process on a host; close it or leave it, once."""

    @property
    def pid(self) -> int: ...

    @property
    def has_ended(self) -> bool:
        """Whether the program is known to have ended, though perhaps not how. False too where its connection broke."""
        ...

    @property
    def taken(self) -> int:
        """The place in its output, in bytes of both streams from its first one on, up to which `output` has come."""
        ...

    def output(self) -> AsyncIterator[ProgramOutput]:
        """Yield what the program writes, until it has ended. Call it once. A piece counts as taken when the next one is
        asked for.

        Of a program that is kept, the first piece may be a line of hwd, on stream `err`: how many bytes were dropped.
        """
        ...

    async def signal(self, name: Signal) -> None:
        """Send a signal to it and its process group; to nobody when it has ended."""
        ...

    async def wait(self) -> ProgramEnd:
        """Wait for the end of the program, once all output is read, and return how it ended. Where another one has
        attached to it, or the connection to it broke, that is not known.
        """
        ...

    async def close(self) -> None:
        """End it where it still runs, and all that it started.

        Of a program that is kept, this takes its end: nobody can attach to it any more. Raises LinkError where it is
        kept and it is not known whether it has ended, since the connection to it broke.
        """
        ...

    async def leave(self) -> None:
        """Disconnect from one that is kept, which goes on, or whose end waits for the next who attaches. What `output`
        has passed on is taken. For one that is not kept the same as `close`.
        """
        ...


class Processes(Protocol):
    """Starts programs on hosts: the seam `Processes`."""

    async def start(
        self,
        host: "Host",
        command: Sequence[str],
        *,
        user: str,
        within_s: float,
        environment: Mapping[str, str] = MappingProxyType({}),
        keep: str | None = None,
    ) -> RunningProgram:
        """Start it. `within_s`: its longest time. `environment` comes on top of HOME, LANG, LOGNAME, PATH, SHELL and
        USER; only its user and root can read it, while others of the host can read the command.

        `keep`: an id, 1 to 64 of 0-9, a-z and -. The program then goes on when whoever started it goes, and others
        attach to it under this id. While nobody is attached, the newest 1 MiB of its output is held. After its end the
        id is taken until somebody has closed it, 3600 s at most.

        Raises RefusedError where the host cannot run programs or has one of this id, FailedError where the program
        cannot be executed, and as a connection to the host does. Where the connection breaks, or this is cancelled, in
        the moment in which one with an id is told that it is kept, that may run all the same: `attach` shows it.
        """
        ...

    async def attach(self, host: "Host", keep: str, *, user: str, taken: int | None = None) -> RunningProgram:
        """Attach to a program that was started with this `keep` and this `user`, and that runs or whose end nobody has
        taken. Whoever was attached to it is not any more.

        Its output goes on from `taken`, a place as `RunningProgram.taken`. None: from where earlier ones said that they
        had taken it, as far as that arrived before they were killed.

        Raises UnknownError where there is none, and as a connection to the host does.
        """
        ...


class ProgramFact(Fact, frozen=True, kw_only=True):
    """A fact of one process on a host. `name`: the entry of the testbed file; `command`: the whole command line,
    `user`: as whom; `by`: who asked for it.
    """

    program: str
    host: str
    name: str
    command: list[str]
    user: str
    by: str


class HostProgramStarted(ProgramFact, frozen=True, kw_only=True):
    """A program was executed, as process `pid` of the host."""

    KIND: ClassVar = "program.started"
    pid: int


class HostProgramEnded(ProgramFact, frozen=True, kw_only=True):
    """A program has ended after `seconds`, with `status` or by `signal`; with neither how it ended is not known. `why`:
    why it was ended, or what is not known. What it wrote is not in the records.
    """

    KIND: ClassVar = "program.ended"
    status: int | None
    signal: str
    why: str
    seconds: float


class ProgramStatus(ApiValue, frozen=True, kw_only=True):
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
