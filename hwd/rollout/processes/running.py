"""A program on a host, over a pipe to its supervisor."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from importlib.resources import files
from typing import Any, Final, Protocol, Self

import msgspec

from hwd.model.program import ProgramEnd, ProgramOutput, Signal
from hwd_drivers.core.errors import FailedError, LinkError, ProtocolError

SUPERVISOR: Final = files("hwd.rollout.onhost").joinpath("supervisor.py").read_bytes()
"""The text of the supervisor's program, which goes first into its input: nothing of ours is installed on a host."""
BOOT: Final = (
    "import os, sys\n"
    "text = b''\n"
    f"while len(text) < {len(SUPERVISOR)}:\n"
    f"    text += os.read(0, {len(SUPERVISOR)} - len(text)) or sys.exit('the supervisor did not arrive')\n"
    "exec(compile(text, 'supervisor', 'exec'))"
)
"""`python3 -I -B -c BOOT JSON` runs it."""
LINE_BYTES: Final = 131_072
"""Longer than any line of a supervisor."""


SILENT_S: Final = 30.0
"""Daemon and supervisor count each other as gone after so long without a sign of life."""
BEATS: Final = 4
"""Signs of life in that time."""
SAID_MOST: Final = 500
"""Characters of what comes beside its lines that an error repeats: the last ones."""


def wanted(command: Sequence[str], *, user: str, within_s: float, **more: object) -> str:
    """What a supervisor is told of its program, as JSON."""
    return json.dumps({"command": [*command], "user": user, "within_s": within_s, "silent_s": SILENT_S, **more})


class Pipe(Protocol):
    """Bytes to the input of a supervisor, and from its output."""

    async def read(self) -> bytes:
        """Some bytes; none at its end. Raises LinkError where the connection broke."""
        ...

    async def write(self, data: bytes) -> None: ...

    async def close(self) -> None:
        """End its input, so that it ends the program, and free everything."""
        ...


class SupervisedProgram:
    """`hwd.model.program.RunningProgram` of one supervisor."""

    def __init__(self, host: str, pipe: Pipe, silent_s: float) -> None:
        self._host = host
        self._pipe = pipe
        self._silent_s = silent_s
        self._beats: asyncio.Task[None] | None = None
        self._buffer = b""
        self._said = ""
        """What came beside the lines of the supervisor: errors of a shell, of sudo, of Python."""
        self._end: ProgramEnd | None = None
        self.pid = 0

    @classmethod
    async def start(cls, host: str, pipe: Pipe, *, silent_s: float = SILENT_S) -> Self:
        """Send the supervisor, and wait until the program was executed. Raises FailedError where it could not be; the
        pipe is closed then. `silent_s`: the same as in `wanted`.
        """
        program = cls(host, pipe, silent_s)
        try:
            await pipe.write(SUPERVISOR)
            match await program._line():
                case {"started": int() as pid}:
                    program.pid = pid
                case {"failed": str() as why}:
                    raise FailedError(f"{host}: cannot start {why}")
                case other:
                    raise ProtocolError(f"{host}: the supervisor of the program said {other!r}")
        except BaseException:
            await pipe.close()
            raise
        program._beats = asyncio.create_task(program._beat(), name=f"hwd:{host}/program-{program.pid}")
        return program

    async def output(self) -> AsyncIterator[ProgramOutput]:
        while self._end is None:
            try:
                line = await self._line()
            except LinkError as error:
                self._end = ProgramEnd(
                    why=f"{error}. Where its supervisor runs, it ends it within {self._silent_s:g} s"
                )
                return
            match line:
                case {"out": str() as data}:
                    yield ProgramOutput(stream="out", data=base64.b64decode(data))
                case {"err": str() as data}:
                    yield ProgramOutput(stream="err", data=base64.b64decode(data))
                case {"end": dict() as end}:
                    self._end = msgspec.convert({"is": "end", **end}, ProgramEnd)
                case other:
                    raise ProtocolError(f"{self._host}: the supervisor of the program said {other!r}")

    async def signal(self, name: Signal) -> None:
        if self._end is None:
            await self._pipe.write(json.dumps({"signal": name}).encode() + b"\n")

    async def wait(self) -> ProgramEnd:
        async for _ in self.output():
            pass
        assert self._end is not None
        return self._end

    async def close(self) -> None:
        try:
            if self._beats is not None:
                self._beats.cancel()
                await asyncio.wait((self._beats,))
        finally:
            await self._pipe.close()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._silent_s / BEATS)
            await self._pipe.write(b"\n")

    async def _line(self) -> dict[str, Any]:
        """The next line of the supervisor; others are put aside. Raises LinkError at the end of the pipe."""
        while True:
            if not (line := await self._any_line()):
                continue  # a sign of life
            try:
                found = json.loads(line)
            except ValueError:
                found = None
            if isinstance(found, dict):
                return found
            self._said = f"{self._said} {line.decode(errors='replace').strip()}"[-SAID_MOST:]

    async def _any_line(self) -> bytes:
        while b"\n" not in self._buffer:
            try:
                async with asyncio.timeout(self._silent_s):
                    data = await self._pipe.read()
            except TimeoutError as error:
                raise LinkError(
                    f"{self._host}: nothing was heard of the program's supervisor for {self._silent_s:g} s"
                ) from error
            if not data:
                self._said = f"{self._said} {self._buffer.decode(errors='replace').strip()}"[-SAID_MOST:].strip()
                words = f": {self._said}" if self._said else ", and said nothing of its end"
                raise LinkError(f"{self._host}: the supervisor of the program has gone{words}")
            self._buffer += data
            if len(self._buffer) > LINE_BYTES and b"\n" not in self._buffer:
                raise ProtocolError(
                    f"{self._host}: the supervisor of the program sent over {LINE_BYTES} bytes in a line"
                )
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line
