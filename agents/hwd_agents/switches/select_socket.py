"""SelectSocket: the Unix socket on which jobs of this host set its switches, in JSON lines, one answer per request.

Answers come in the order in which the requests are done.

{"set": {"sel0": "in-2"}, "within_s": 1, "epoch": 7, "id": 3}     answer: `Selected`; see `switches.request.Request`
{"show": true}                                                    answer: {"switches": {name: note, crossconnects}}
"""

import asyncio
import logging
import os
import shutil
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import msgspec
from typing_extensions import override

from hwd_agents.process.config import SelectionConfig
from hwd_agents.switches.host_switches import Switches
from hwd_agents.switches.request import Request
from hwd_agents.switches.selections import Selections
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.transports.dial import Acceptor

MODE: Final = 0o660
LINE_LIMIT_BYTES: Final = 64 * 1024
PENDING_MOST: Final = 64
"""Most unanswered requests of one client; further ones are not read until one is answered and that answer is read."""
UNIX: Final = "unix:"

log = logging.getLogger(__name__)

Spawn = Callable[[Coroutine[Any, Any, None], str], None]
"""Runs a coroutine to its end, in a task of the agent."""


class SelectSocket:
    """Listens until cancelled."""

    def __init__(
        self,
        config: SelectionConfig,
        selections: Selections,
        switches: Switches,
        *,
        acceptor: Acceptor,
        clock: Clock,
        spawn: Spawn,
    ) -> None:
        self._config = config
        self._selections = selections
        self._switches = switches
        self._acceptor = acceptor
        self._clock = clock
        self._spawn = spawn
        self._sessions: dict[_Session, None] = {}

    async def run(self) -> None:
        """Raises ConfigError when it cannot listen there."""
        place = self._config.socket
        if not place.startswith(UNIX):
            listener = await self._acceptor.listen(self._session, place)
            close: Callable[[], Coroutine[Any, Any, None]] = listener.close
        else:
            close = await self._listen(Path(place.removeprefix(UNIX)))
        log.info("selections: at %s", place)
        try:
            await asyncio.Event().wait()
        finally:
            await close()
            for session in [*self._sessions]:
                session.hang_up()

    async def _listen(self, path: Path) -> Callable[[], Coroutine[Any, Any, None]]:
        """Set the mode before the socket has a name: only owner and group can ever connect, whatever the umask."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_socket():
                path.unlink()  # left by a dead agent; a running one would hold the spool
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
            try:
                os.fchmod(sock.fileno(), MODE)
                sock.bind(str(path))
                path.chmod(MODE)
                if self._config.group is not None:
                    shutil.chown(path, group=self._config.group)
                server = await asyncio.get_running_loop().create_unix_server(self._session, sock=sock)
            except BaseException:
                sock.close()
                raise
        except (OSError, LookupError) as error:
            raise ConfigError(f"selection.socket: {path}: cannot listen: {reason_of(error)}") from error

        async def close() -> None:
            server.close()
            path.unlink(missing_ok=True)

        return close

    def _session(self) -> "_Session":
        return _Session(self._answer, self._sessions, self._spawn)

    async def _answer(self, line: bytes) -> bytes:
        requested_ns = self._clock.monotonic_ns()
        try:
            data = msgspec.json.decode(line)
            if isinstance(data, dict) and data.get("show") is True:
                return msgspec.json.encode({"switches": self._switches.show()})
            request = msgspec.convert(data, Request)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:  # the last: nested too deeply
            why = f'not a request: {reason_of(error)}. Write {{"set": {{"sel0": "in-2"}}, "within_s": 1}}'
            return msgspec.json.encode(self._selections.refusal(why, requested_ns=requested_ns))
        return msgspec.json.encode(await self._selections.select(request, requested_ns=requested_ns))


class _Session(asyncio.Protocol):
    """One client."""

    def __init__(
        self, answer: Callable[[bytes], Coroutine[Any, Any, bytes]], sessions: "dict[_Session, None]", spawn: Spawn
    ) -> None:
        self._answer = answer
        self._sessions = sessions
        self._spawn = spawn
        self._begun = bytearray()
        self._transport: asyncio.Transport | None = None
        self._lines: deque[bytes] = deque()
        self._pending = 0
        self._full = False

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._sessions[self] = None

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._sessions.pop(self, None)

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

    def hang_up(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _go_on(self) -> None:
        """Start the received requests; stop reading from a client that does not read its answers."""
        while self._lines and self._pending < PENDING_MOST and not self._full:
            self._pending += 1
            self._spawn(self._do(self._lines.popleft()), "selection")
        if self._transport is None:
            return
        if self._lines:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    async def _do(self, line: bytes) -> None:
        try:
            answer = await self._answer(line)
        finally:
            self._pending -= 1
        if self._transport is not None:
            self._transport.write(answer + b"\n")
        self._go_on()
