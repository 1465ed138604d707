"""Programs on hosts: what one says, how it ended, and the seam that starts them."""

import signal
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec
from typing_extensions import override

if TYPE_CHECKING:
    from hwd.model.testbed import Host

Signal = Literal["INT", "TERM", "KILL", "HUP", "USR1", "USR2", "STOP", "CONT"]
"""What can be sent to a program of a host."""


class ProgramStarted(msgspec.Struct, frozen=True, kw_only=True, tag="started", tag_field="is"):
    """The first thing that is said of a process. `pid` is that on its host; `id` is that of the daemon."""

    id: str
    host: str
    pid: int


class ProgramOutput(msgspec.Struct, frozen=True, kw_only=True, tag="output", tag_field="is"):
    """What it wrote, in pieces as they came; `data` is base64 in JSON."""

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
        """As a shell has it: 128 and the number of the signal. Not for an end that is not known."""
        if self.status is not None:
            return self.status
        known = signal.Signals.__members__.get(self.signal)
        return 128 + (int(self.signal.removeprefix("SIG")) if known is None else known.value)


ProgramNews = ProgramStarted | ProgramOutput | ProgramEnd


class RunningProgram(Protocol):
    """A process on a host; close it once, which ends it where it still runs."""

    @property
    def pid(self) -> int: ...

    def output(self) -> AsyncIterator[ProgramOutput]:
        """What it writes, until it has ended. Call it once."""
        ...

    async def signal(self, name: Signal) -> None:
        """Send a signal to it and its process group; to nobody when it has ended."""
        ...

    async def wait(self) -> ProgramEnd:
        """How it ended, once all output is read."""
        ...

    async def close(self) -> None: ...


class Processes(Protocol):
    """Starts programs on hosts: the seam `Processes`."""

    async def start(self, host: "Host", command: Sequence[str], *, user: str, within_s: float) -> RunningProgram:
        """Start it. `within_s`: its longest time.

        Raises RefusedError where the host cannot run programs, FailedError where the program cannot be executed, and
        as a connection to the host does.
        """
        ...
