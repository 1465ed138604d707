"""PlaneProcess: a plane in a process of its own, which is held to a time for each answer, and to its memory.

    process = PlaneProcess("static", {"topology": "ring"}, within_s=1.0, memory_bytes=1 << 30)
    targets = await process.begin(job, view)
    process.tell(event)
    actions = await process.answer()
    await process.close()

What the plane prints goes to the log. The process is of the daemon's own control group, and ends with the daemon,
however that ends.
"""

import asyncio
import logging
import os
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import BinaryIO, Final

from typing_extensions import override

from hwd.model.link import Link
from hwd.model.plane import Action, Event, Job, Target, View
from hwd.model.plane_json import NamedEvent
from hwd.planes.breach import Breach, PlaneError
from hwd.planes.wire import (
    LINE_BYTES_MOST,
    SHOWN_MOST,
    Answer,
    Begin,
    Kind,
    Said,
    conversation,
    not_an_answer,
)
from hwd_drivers.core.child_process import Child, end_of
from hwd_drivers.core.errors import BugError, FailedError
from hwd_drivers.core.own_python import own_python
from hwd_drivers.core.printable import printable
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import decoder, to_json

BEGIN_S: Final = 10.0
"""From the start of a process to the targets of its plane, with the imports of its package."""
WITHIN_S: Final = 1.0
"""For each answer, where the job says nothing."""
MEMORY_BYTES: Final = 1 << 30
"""The address space of a plane, where the job says nothing."""
PRINTED_LINES_MOST: Final = 200
"""Lines that a plane prints, in the log."""
PRINTED_MOST: Final = 500
"""Characters of such a line."""
UNREAD_MOST: Final = 1 << 14
"""Messages that it has sent and that nobody has read: an honest one has been asked for each."""
GONE_S: Final = 2.0
"""From the end of a connection to the end of its process, which says why."""
ENVIRONMENT: Final = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}
"""Libraries reserve memory for each thread; sets of texts have the same order in each process."""

log = logging.getLogger(__name__)


Start = Callable[[int, BinaryIO, int], Child]


class PlaneProcess:
    """The process of one plane. It belongs to one event loop; `close` it in any case.

    `within_s`: for each answer. `memory_bytes`: of address space. `start`: makes the process, from the descriptor of
    its connection, what it prints to, and its memory.
    """

    def __init__(
        self,
        plane: str,
        arguments: Mapping[str, str],
        *,
        within_s: float = WITHIN_S,
        memory_bytes: int = MEMORY_BYTES,
        start: Start | None = None,
    ) -> None:
        self._plane = plane
        self._arguments = dict(arguments)
        self._within_s = within_s
        self._memory_bytes = memory_bytes
        self._kind: Kind | None = None
        self._start_process = start or _installed
        self._process: Child | None = None
        self._said = _Said()
        self._printed = _Printed(plane)
        self._told: deque[tuple[Event, float]] = deque()
        """Events without an answer, and when each was sent, on the clock of the loop."""
        self._answered_s = 0.0

    @property
    def demand_s(self) -> float | None:
        return None if self._kind is None else self._kind.demand_s

    async def begin(self, job: Job, view: View) -> Mapping[str, Target]:
        begin = Begin.of(self._plane, self._arguments, job, view)
        self._kind, targets = await self._declared(begin, view.topology)
        return targets

    async def declared_arguments(self) -> tuple[str, ...]:
        """The names of the arguments that it takes; no plane is made. Raises as `begin` does."""
        kind, _ = await self._declared(Begin(plane=self._plane, arguments=None), _of_no_job)
        return kind.arguments

    async def make(self) -> None:
        """Make the plane with its arguments, for no job. Raises as `begin` does."""
        await self._declared(Begin(plane=self._plane, arguments=self._arguments), _of_no_job)

    def tell(self, event: Event) -> None:
        self._told.append((event, asyncio.get_running_loop().time()))
        self._said.send(NamedEvent.of(event))

    async def answer(self) -> tuple[Action, ...]:
        event, told_s = self._told[0]
        said = await self._next(max(told_s, self._answered_s) + self._within_s, f"{self._within_s:g} s at {event}")
        if not isinstance(said, Answer):
            raise not_an_answer(said)
        self._told.popleft()
        self._answered_s = asyncio.get_running_loop().time()
        try:
            return tuple(named.action for named in said.actions)
        except ValueError as error:
            raise not_an_answer(said) from error

    async def close(self) -> None:
        self._said.close()
        if (process := self._process) is None:
            return
        self._process = None
        _kill(process)
        await self._ended
        self._printed.close()

    async def _declared(
        self, begin: Begin, topology: Callable[[str], tuple[Link, ...]]
    ) -> tuple[Kind, dict[str, Target]]:
        due_s = await self._start() + BEGIN_S
        self._said.send(begin)
        talk = conversation(topology)
        next(talk)
        while True:
            said = await self._next(due_s, f"{BEGIN_S:g} s at its targets")
            try:
                answer = talk.send(said)
            except StopIteration as end:
                found: tuple[Kind, dict[str, Target]] = end.value
                return found
            if answer is not None:
                self._said.send(answer)

    async def _start(self) -> float:
        """Start the process. Returns when, on the clock of the loop."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        reads, writes = os.pipe()
        with theirs, os.fdopen(writes, "wb", 0) as output:
            try:
                self._process = self._start_process(theirs.fileno(), output, self._memory_bytes)
            except OSError as error:
                ours.close()
                os.close(reads)
                raise FailedError(f"plane {self._plane}: its process cannot start: {reason_of(error)}") from error
        self._ended = end_of(self._process)
        await loop.create_connection(lambda: self._said, sock=ours)
        await loop.connect_read_pipe(lambda: self._printed, os.fdopen(reads, "rb", 0))
        return loop.time()

    async def _next(self, due_s: float, what: str) -> Said:
        """The next message of the process. Raises PlaneError where it says nothing until `due_s`."""
        try:
            return await self._said.next(due_s)
        except TimeoutError:
            raise PlaneError(Breach.NEVER_RETURNS, f"no answer within {what}") from None
        except EOFError:
            raise PlaneError(Breach.DIED, await self._how_it_died()) from None

    async def _how_it_died(self) -> str:
        await asyncio.wait([self._ended], timeout=GONE_S)
        if not self._ended.done():
            return "it closed its connection"
        status = self._ended.result()
        how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"it exited with {status}"
        return how + (f"; it wrote at last: {self._printed.last}" if self._printed.last else "")


class _Said(asyncio.Protocol):
    """The connection to the process: lines of JSON, both ways."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parts: list[bytes] = []
        self._bytes = 0
        self._came: deque[Said | PlaneError] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._is_lost = False

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        *lines, last = data.split(b"\n")
        for line in lines:
            whole = b"".join((*self._parts, line))
            self._parts, self._bytes = [], 0
            try:
                self._came.append(_read(whole))
            except PlaneError as error:
                self._came.append(error)
        self._parts.append(last)
        self._bytes += len(last)
        if self._bytes > LINE_BYTES_MOST or len(self._came) > UNREAD_MOST:
            self._came = deque([PlaneError(Breach.TOO_MUCH, "it says more than it was asked for")])
            self.close()
        self._wake()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._wake()

    def send(self, said: object) -> None:
        if self._transport is not None and not self._is_lost:
            self._transport.write(to_json(said) + b"\n")

    async def next(self, due_s: float) -> Said:
        """Raises TimeoutError at `due_s` of the clock of the loop, EOFError at the end, and PlaneError for what cannot
        be read.
        """
        loop = asyncio.get_running_loop()
        while not self._came:
            if self._is_lost:
                raise EOFError
            if loop.time() >= due_s:
                raise TimeoutError
            self._waiting = loop.create_future()
            timer = loop.call_at(due_s, self._wake)  # what has come by then was read before
            try:
                await self._waiting
            finally:
                timer.cancel()
        said = self._came.popleft()
        if isinstance(said, PlaneError):
            raise said
        return said

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class _Printed(asyncio.Protocol):
    """The lines that a plane prints, for the log. `last`: the end of it, on one line."""

    def __init__(self, plane: str) -> None:
        self.last = ""
        self._plane = plane
        self._rest = b""
        self._lines = 0
        self._transport: asyncio.BaseTransport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[:PRINTED_MOST]
        for line in lines[-PRINTED_LINES_MOST:]:
            self._lines += 1
            self.last = printable(line.decode(errors="replace"), PRINTED_MOST) or self.last
            if self._lines <= PRINTED_LINES_MOST:
                log.info("plane %s prints: %s", self._plane, self.last)
            elif self._lines == PRINTED_LINES_MOST + 1:
                log.info("plane %s prints more, which is dropped", self._plane)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _installed(descriptor: int, output: BinaryIO, memory_bytes: int) -> subprocess.Popen[bytes]:
    """Its session is its own, so that what it starts can be ended with it."""
    return subprocess.Popen(
        own_python("-m", "hwd.config.planes.child", str(descriptor), str(os.getpid()), str(memory_bytes)),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=(descriptor,),
        env={**os.environ, **ENVIRONMENT},
        start_new_session=True,
    )


def _of_no_job(text: str) -> tuple[Link, ...]:
    raise BugError(f"a plane asks for {text!r}, and has no job")


def _read(line: bytes) -> Said:
    """Raises PlaneError for what is no message."""
    try:
        said: Said = _decode(line)
        return said
    except ValueError as error:
        raise PlaneError(Breach.NO_ACTION, f"it says what is no answer: {printable(str(error), SHOWN_MOST)}") from error


def _kill(process: Child) -> None:
    """Kill a process with all that is in its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


_decode = decoder(Said).decode
