"""LineSocket: a Unix socket for processes of this host, with JSON lines. At most some clients, lines and answers."""

import asyncio
import logging
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Final, Protocol

from typing_extensions import override

from hwd_agents.probes.token_bucket import Bucket
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.transports.dial import Acceptor
from hwd_drivers.transports.unix_listener import RESTORE_EVERY_S, UnixListener

MODE: Final = 0o660
LINE_LIMIT_BYTES: Final = 64 * 1024
PENDING_MOST: Final = 64
"""Most unanswered requests of one client; further ones are not read until one is answered and that answer is read."""
CLIENTS_MOST: Final = 256
"""Clients at a time; a further one is hung up on."""
UNIX: Final = "unix:"
_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: pid, uid, gid

log = logging.getLogger(__name__)

Spawn = Callable[[Coroutine[Any, Any, None], str], None]
"""Runs a coroutine to its end, in a task of the agent."""


class Client(Protocol):
    """One connection, as who answers its lines has it."""

    @property
    def peer(self) -> str:
        """`pid 4711 of uid 1000`; empty where the kernel does not say it."""
        ...

    def send(self, line: bytes) -> None:
        """Send a line that is no answer; nothing where the client is gone."""
        ...


class LineSocket:
    """Listens until cancelled. `answer` makes the answer of one line; `gone` is called with each client that is gone.

    `what`: the key of the configuration that names the place, for errors and for names of tasks. `lines_per_s`: of one
    client, read later beyond that.
    """

    def __init__(
        self,
        place: str,
        *,
        what: str,
        group: str | None,
        answer: Callable[[Client, bytes], Awaitable[bytes]],
        acceptor: Acceptor,
        spawn: Spawn,
        gone: Callable[[Client], None] = lambda client: None,
        lines_per_s: float | None = None,
    ) -> None:
        self._place = place
        self._what = what
        self._group = group
        self.answer = answer
        self._acceptor = acceptor
        self._spawn = spawn
        self.gone = gone
        self._lines_per_s = lines_per_s
        self.sessions: dict[_Session, None] = {}

    async def run(self) -> None:
        """Raises ConfigError when it cannot listen there."""
        if not self._place.startswith(UNIX):
            listener = await self._acceptor.listen(self._session, self._place)
            close: Callable[[], Coroutine[Any, Any, None]] = listener.close
            stay: Callable[[], Coroutine[Any, Any, object]] = asyncio.Event().wait
        else:
            path = Path(self._place.removeprefix(UNIX))
            unix = await self._listen(path)
            close, stay = unix.close, lambda: self._stay_there(unix, path)
        try:
            await stay()
        finally:
            await close()
            for session in [*self.sessions]:
                session.hang_up()

    async def _listen(self, path: Path) -> UnixListener:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return await UnixListener.open(self._session, path, mode=MODE, group=self._group)
        except (OSError, LookupError) as error:
            raise ConfigError(f"{self._what}: {path}: cannot listen: {reason_of(error)}") from error

    async def _stay_there(self, unix: UnixListener, path: Path) -> None:
        """Make the socket's file again where a clean-up has removed it, until cancelled."""
        is_away = False
        while True:
            await asyncio.sleep(RESTORE_EVERY_S)
            try:
                if await unix.restore():
                    log.warning("%s: %s: its file was gone, and was made again", self._what, path)
                    is_away = False
            except (OSError, LookupError) as error:
                if not is_away:
                    log.warning("%s: %s: its file is gone and cannot be made: %s", self._what, path, reason_of(error))
                is_away = True

    def _session(self) -> "_Session":
        bucket = None
        if self._lines_per_s is not None:
            bucket = Bucket(per_s=self._lines_per_s, most=self._lines_per_s)
        return _Session(self, bucket)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the work of a session in a task of its own."""
        self._spawn(work, self._what.partition(".")[0])


class _Session(asyncio.Protocol):
    def __init__(self, owner: LineSocket, bucket: Bucket | None) -> None:
        self.peer = ""
        self._owner = owner
        self._bucket = bucket
        self._again: asyncio.TimerHandle | None = None
        self._begun = bytearray()
        self._transport: asyncio.Transport | None = None
        self._lines: deque[bytes] = deque()
        self._pending = 0
        self._full = False

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._owner.sessions[self] = None
        if len(self._owner.sessions) > CLIENTS_MOST:
            self.hang_up()
            return
        if (sock := transport.get_extra_info("socket")) is not None and sock.family == socket.AF_UNIX:
            found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid, uid, _ = _CREDENTIALS.unpack(found)
            self.peer = f"pid {pid} of uid {uid}"

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._owner.sessions.pop(self, None)
        if self._again is not None:
            self._again.cancel()
        self._owner.gone(self)

    @override
    def data_received(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._begun) + lines[0]
            self._begun.clear()
        self._begun += rest
        self._lines += filter(None, map(bytes.strip, lines))
        self._go_on()
        if len(self._begun) > LINE_LIMIT_BYTES:
            self.hang_up()

    @override
    def pause_writing(self) -> None:
        self._full = True

    @override
    def resume_writing(self) -> None:
        self._full = False
        self._go_on()

    def send(self, line: bytes) -> None:
        if self._transport is not None:
            self._transport.write(line + b"\n")

    def hang_up(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _go_on(self) -> None:
        """Start the received requests; stop reading from a client that does not read its answers, or asks too much."""
        while self._lines and self._pending < PENDING_MOST and not self._full and self._may_go_on():
            self._pending += 1
            self._owner.spawn(self._do(self._lines.popleft()))
        if self._transport is None:
            return
        if self._lines:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _may_go_on(self) -> bool:
        """Whether the client is within its rate; else it goes on by itself."""
        if self._bucket is None or self._bucket.take():
            return True
        if self._again is None:
            self._again = asyncio.get_running_loop().call_later(self._bucket.wait_s(), self._try_again)
        return False

    def _try_again(self) -> None:
        self._again = None
        self._go_on()

    async def _do(self, line: bytes) -> None:
        try:
            answer = await self._owner.answer(self, line)
        finally:
            self._pending -= 1
        self.send(answer)
        self._go_on()
