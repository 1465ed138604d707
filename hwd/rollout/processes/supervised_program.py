"""A program on a host, over a pipe to its supervisor."""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Protocol, Self

from hwd.model.program import ProgramEnd, ProgramOutput, Signal
from hwd.rollout.host_program import SUPERVISION, make_program
from hwd_drivers.core.errors import ConfigError, FailedError, LinkError, ProtocolError, RefusedError, UnknownError
from hwd_drivers.core.structs import from_plain

SUPERVISOR: Final = make_program(SUPERVISION)
"""The text of the supervisor's program, which goes first into its input: nothing of ours is installed on a host."""
LINE_BYTES: Final = 131_072
"""Longer than any line of a supervisor."""

SILENT_S: Final = 30.0
"""Daemon and supervisor count each other as gone after so long without a sign of life."""
BEATS: Final = 4
"""Signs of life in that time."""
SAID_MOST: Final = 500
"""Characters of what comes beside its lines that an error repeats: the last ones."""
WAITS_S: Final = 3600.0
"""So long the end of a program with an id waits for somebody to take it."""
ENDS_WITHIN_S: Final = 6.0
"""A supervisor ends its program within 2 s, and what that started in another 2."""
LEAVES_WITHIN_S: Final = 2.0
ID: Final = re.compile(r"[0-9a-z-]{1,64}")
"""The form of the id of a program that is kept."""


def boot(asked: str) -> str:
    """`python3 -I -B -c` runs this: a supervisor, or a relay, which comes with what it is asked over its input. On its
    command line every user of the host could read the environment of the program.
    """
    size = len(SUPERVISOR) + len(asked.encode())
    return (
        "import os, sys\n"
        "text = b''\n"
        f"while len(text) < {size}:\n"
        f"    text += os.read(0, {size} - len(text)) or sys.exit('the supervisor did not arrive')\n"
        f"sys.argv[1:] = [text[{len(SUPERVISOR)}:].decode()]\n"
        f"exec(compile(text[:{len(SUPERVISOR)}], 'supervisor', 'exec'))"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRequest:
    """A program that is to be started; the fields are the arguments of `hwd.model.program.Processes.start`."""

    command: Sequence[str]
    user: str
    within_s: float
    environment: Mapping[str, str] = field(default_factory=dict)
    keep: str | None = None

    def text(self, *place: str, **more: object) -> str:
        """What a supervisor at this place is told, as JSON. Raises ConfigError where `keep` is no id."""
        kept = {} if self.keep is None else {"keep": socket_name(self.keep, *place), "waits_s": WAITS_S}
        return json.dumps(
            {
                "command": [*self.command],
                "user": self.user,
                "within_s": self.within_s,
                "environment": {**self.environment},
                "silent_s": SILENT_S,
                **kept,
                **more,
            }
        )


def attach_request(keep: str, *place: str, taken: int | None) -> str:
    """What a relay to the program of this id at a place is told, as JSON. Raises ConfigError for what is no id."""
    return json.dumps({"attach": socket_name(keep, *place), "taken": taken})


def socket_name(keep: str, *place: str) -> str:
    """The name of the socket of the program of this id at a place: several hosts of a testbed, and racks, may be on one
    machine.

    Raises ConfigError for what is no id.
    """
    if not ID.fullmatch(keep):
        raise ConfigError(f"{keep!r} is no id of a program: 1 to 64 of 0-9, a-z and -")
    return f"{keep}.{sha256(json.dumps(place).encode()).hexdigest()[:12]}"


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
    """A program under one supervisor, a `hwd.model.program.RunningProgram`."""

    def __init__(self, host: str, pipe: Pipe, silent_s: float, *, kept: bool) -> None:
        self._host = host
        self._pipe = pipe
        self._silent_s = silent_s
        self._is_kept = kept
        self._beats: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[bytes] | None = None
        self._buffer = b""
        self._said = ""
        """What came beside the lines of the supervisor: errors of a shell, of sudo, of Python."""
        self._end: ProgramEnd | None = None
        self._is_settled = False
        """Whether there is nothing left of the program that this one could end: it has ended, or is another's."""
        self.has_ended = False
        self._is_lost = False
        """Whether the supervisor is at the other end of the pipe no more."""
        self._is_closing = self._is_closed = False
        self._dropped = 0
        """Bytes of output that the supervisor does not have any more, not yet said."""
        self._processed = 0
        """The place in the output before which whoever reads it came back for more."""
        self._news = asyncio.Event()
        """Something is to be said to the supervisor before the next sign of life is due."""
        self.pid = 0
        self.taken = 0

    @classmethod
    async def start(cls, host: str, pipe: Pipe, asked: str, *, silent_s: float = SILENT_S, kept: bool = False) -> Self:
        """Send the supervisor with what is `asked` of it, and wait until the program was executed.

        Raises FailedError where it could not be, RefusedError where there is a program of its id; the pipe is closed
        then. `silent_s`: the same as in `wanted`.
        """
        return await cls._open(host, pipe, asked, "start", silent_s, kept=kept)

    @classmethod
    async def attach(cls, host: str, pipe: Pipe, asked: str, *, silent_s: float = SILENT_S) -> Self:
        """Send a relay, and wait until it has reached the supervisor. Raises UnknownError where there is none."""
        return await cls._open(host, pipe, asked, "attach to", silent_s, kept=True)

    @classmethod
    async def _open(cls, host: str, pipe: Pipe, asked: str, verb: str, silent_s: float, *, kept: bool) -> Self:
        program = cls(host, pipe, silent_s, kept=kept)
        try:
            await pipe.write(SUPERVISOR + asked.encode())
            match line := await program._line():
                case {"started": int() as pid, **more}:
                    program.pid = pid
                    program.taken = program._processed = more.get("at", 0)
                    program._dropped = more.get("dropped", 0)
                case {"failed": str() as why}:
                    raise FailedError(f"{host}: cannot {verb} {why}")
                case {"refused": str() as why}:
                    raise RefusedError(f"{host}: {why}")
                case {"unknown": str() as why}:
                    raise UnknownError(f"{host}: {why}")
                case _:
                    raise ProtocolError(f"{host}: the supervisor of the program said {line!r}")
            if kept and verb == "start":
                await program._say()
                if "known" not in (line := await program._line()):
                    raise ProtocolError(f"{host}: the supervisor of the program said {line!r}")
        except BaseException:
            await program._close_pipe()
            raise
        program._beats = asyncio.create_task(program._beat(), name=f"hwd:{host}/program-{program.pid}")
        return program

    async def output(self) -> AsyncIterator[ProgramOutput]:
        if self._dropped:
            self.taken += self._dropped
            words = f"[hwd: {self._dropped} bytes of output were dropped while no daemon was attached]\n"
            self._dropped = 0
            yield ProgramOutput(stream="err", data=words.encode())
        while self._end is None:
            self._process()
            try:
                line = await self._line()
            except LinkError as error:
                if self._end is None:  # whoever closes it may have heard of it meanwhile
                    self._end = ProgramEnd(why=f"{error}. {self._prospect()}")
                return
            if (piece := self._take(line)) is not None:
                self.taken += len(piece.data)
                yield piece
        self._process()

    async def signal(self, name: Signal) -> None:
        if self._end is None and not self._is_closing:
            await self._pipe.write(json.dumps({"signal": name}).encode() + b"\n")

    async def wait(self) -> ProgramEnd:
        async for _ in self.output():
            pass
        assert self._end is not None
        return self._end

    async def close(self) -> None:
        if self._is_closed:
            return
        try:
            await self._stop_beats()
            if self._is_kept:
                await self._say_last({"close": True}, ENDS_WITHIN_S)
        finally:
            await self._close_pipe()
        if self._is_kept and not self._is_settled:
            raise LinkError(f"{self._host}: it is not known whether program {self.pid} has ended. {self._prospect()}")

    async def leave(self) -> None:
        if not self._is_kept:
            await self.close()
            return
        if self._is_closed:
            return
        try:
            await self._stop_beats()
            await self._say_last({"leave": self.taken}, LEAVES_WITHIN_S)
        finally:
            await self._close_pipe()

    def _take(self, line: Mapping[str, Any]) -> ProgramOutput | None:
        """A line of the supervisor, after the first one."""
        match line:
            case {"out": str() as data}:
                return ProgramOutput(stream="out", data=base64.b64decode(data))
            case {"err": str() as data}:
                return ProgramOutput(stream="err", data=base64.b64decode(data))
            case {"end": dict() as end}:
                self._end = from_plain({"is": "end", **end}, ProgramEnd)
                self._is_settled = self.has_ended = True
            case {"replaced": True}:
                self._end = ProgramEnd(why=f"{self._host}: another daemon has attached to it")
                self._is_settled = True
            case other:
                raise ProtocolError(f"{self._host}: the supervisor of the program said {other!r}")
        return None

    def _prospect(self) -> str:
        """What becomes of a program whose supervisor is lost."""
        if self._is_kept:
            return "Where its supervisor runs, it goes on: attach to it"
        return f"Where its supervisor runs, it ends it within {self._silent_s:g} s"

    def _process(self) -> None:
        """Whoever reads the output has come back for more."""
        if self._is_kept and self._processed < self.taken:
            self._processed = self.taken
            self._news.set()

    async def _beat(self) -> None:
        while not self._is_closing:
            try:
                async with asyncio.timeout(self._silent_s / BEATS):
                    await self._news.wait()
            except TimeoutError:
                pass  # a sign of life is due
            self._news.clear()
            if not self._is_closing:
                await self._say()

    async def _say(self) -> None:
        """A sign of life, which says what was taken of the output that waits at the supervisor for that."""
        await self._pipe.write(b'{"taken": %d}\n' % self._processed if self._is_kept else b"\n")

    async def _stop_beats(self) -> None:
        """Stop the beats. The task is not cancelled while it writes: the pipe is needed."""
        self._is_closing = True
        self._news.set()
        if self._beats is not None:
            await asyncio.wait((self._beats,), timeout=LEAVES_WITHIN_S if self._is_kept else 0)
            self._beats.cancel()
            await asyncio.wait((self._beats,))

    async def _say_last(self, line: Mapping[str, object], within_s: float) -> None:
        """Say it to the supervisor, and read on until that ends the connection."""
        if self._is_lost:
            return
        try:
            async with asyncio.timeout(within_s):
                await self._pipe.write(json.dumps(line).encode() + b"\n")
                while True:
                    self._take(await self._line())
        except (TimeoutError, LinkError, ProtocolError):
            return

    async def _close_pipe(self) -> None:
        self._is_closed = True
        try:
            await self._pipe.close()
        finally:
            if self._reading is not None:
                self._reading.cancel()
                await asyncio.wait((self._reading,))

    async def _line(self) -> dict[str, Any]:
        """The next line of the supervisor; others are put aside. Raises LinkError at the end of the pipe."""
        while True:
            while b"\n" not in self._buffer:
                await self._read()
            line, self._buffer = self._buffer.split(b"\n", 1)
            if not line:
                continue  # a sign of life
            try:
                found = json.loads(line)
            except ValueError:
                found = None
            if isinstance(found, dict):
                return found
            self._said = f"{self._said} {line.decode(errors='replace').strip()}"[-SAID_MOST:]

    async def _read(self) -> None:
        """Wait for more of the pipe, once for all who wait: a read goes on when one of them is cancelled, so that
        nothing that it brings is lost.
        """
        if not self._is_lost:
            if self._reading is None:
                self._reading = asyncio.create_task(self._pipe.read(), name=f"hwd:{self._host}/program-read")
            reading = self._reading
            done, _ = await asyncio.wait((reading,), timeout=self._silent_s)
            if not done:
                raise LinkError(f"{self._host}: nothing was heard of the program's supervisor for {self._silent_s:g} s")
            if self._reading is not reading:
                return  # another one has taken it
            self._reading = None
            data = b"" if reading.cancelled() else reading.result()
            self._buffer += data
            self._is_lost = not data
        if self._is_lost:
            self._said = f"{self._said} {self._buffer.decode(errors='replace').strip()}"[-SAID_MOST:].strip()
            self._buffer = b""
            words = f": {self._said}" if self._said else ", and said nothing of its end"
            raise LinkError(f"{self._host}: the supervisor of the program has gone{words}")
        if len(self._buffer) > LINE_BYTES and b"\n" not in self._buffer:
            raise ProtocolError(f"{self._host}: the supervisor of the program sent over {LINE_BYTES} bytes in a line")
