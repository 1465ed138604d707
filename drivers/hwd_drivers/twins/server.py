"""TwinServer: the server and the sessions of a twin, on a mirror, in real or virtual time."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from typing_extensions import override

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.reason import reason_of
from hwd_drivers.transports.dial import Acceptor, Listener
from hwd_drivers.twins.faults import Denial, Faults
from hwd_drivers.twins.mirror import Mirror

__all__ = ["Denial", "Faults", "TwinServer", "TwinSession"]

RELISTEN_S: Final = 0.2
"""Pause between attempts to listen again at an address that is in use."""

UNREAD_LIMIT_BYTES: Final = 16 << 20
"""Most bytes of answers that a client may leave unread: more than the longest answer; then its session is cut."""

log = logging.getLogger(__name__)


class TwinServer:
    """Listens for and owns the sessions of one protocol of a twin.

    A twin with several protocols makes one Faults and passes it to each of its servers. `sessions_max`: a session above
    its `refuse` is called, and it is ended.
    """

    def __init__(
        self,
        *,
        mirror: Mirror,
        clock: Clock,
        dialer: Acceptor,
        address: str,
        make_session: Callable[["TwinServer"], "TwinSession"],
        faults: Faults | None = None,
        sessions_max: int | None = None,
    ) -> None:
        self.mirror = mirror
        self.clock = clock
        self.faults = faults or Faults(mirror=mirror, clock=clock)
        self.sessions: list[TwinSession] = []
        self.sessions_max = sessions_max
        self._dialer = dialer
        self._address = address
        self._make_session = make_session
        self._listener: Listener | None = None
        self._restart: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Listen; returns the address, with the free port where 0 was asked for."""
        await self._listen()
        self.faults.attach(self)
        return self._address

    async def close(self) -> None:
        if self._restart is not None:
            self._restart.cancel()
            await asyncio.wait([self._restart])
            self._restart = None
        self.faults.detach(self)
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        sessions = list(self.sessions)
        self.cut()
        for session in sessions:
            await session.ended

    def cut(self) -> None:
        """End all sessions at once, without notice."""
        for session in list(self.sessions):
            session.abort()
        if self._listener is not None:
            self._listener.cut()

    def restart(self, seconds: float) -> None:
        """End all sessions and listen again after `seconds`."""
        self.cut()
        if self._restart is not None:
            self._restart.cancel()
        self._restart = asyncio.get_running_loop().create_task(self._come_back(seconds), name="twin restarts")

    async def _come_back(self, seconds: float) -> None:
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        await asyncio.sleep(seconds)
        while self._listener is None:
            try:
                await self._listen()
            except OSError as error:
                log.warning("twin %s: cannot listen at %s again: %s", self.mirror.name, self._address, reason_of(error))
                await asyncio.sleep(RELISTEN_S)

    async def _listen(self) -> None:
        self._listener = await self._dialer.listen(lambda: self._make_session(self), self._address)
        self._address = self._listener.address


class TwinSession(asyncio.Protocol):
    """One client of a twin. Subclasses receive bytes in `data_received` and answer by `reply`."""

    def __init__(self, server: TwinServer) -> None:
        self.server = server
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._timers: set[asyncio.TimerHandle] = set()
        self._quiet_s = 0.0
        self._last_input_s = 0.0
        self._quiet_timer: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        server = self.server
        server.sessions.append(self)
        if server.faults.refusing or server.faults.rebooting:
            transport.abort()
        elif server.sessions_max is not None and len(server.sessions) > server.sessions_max:
            self.refuse()
            self.hang_up()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.server.sessions.remove(self)
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self.end_after_idle(0)
        if not self.ended.done():
            self.ended.set_result(None)

    def refuse(self) -> None:
        """Report, in the words of the protocol, that there are too many sessions; by default nothing."""

    def abort(self) -> None:
        """Cut this session without notice."""
        if self._transport is not None:
            self._transport.abort()

    def hang_up(self) -> None:
        """End this session when all bytes are sent."""
        if self._transport is not None:
            self._transport.close()

    def end_after_idle(self, seconds: float) -> None:
        """Call `idle` when the client was silent for so long; 0 is never. Call `note_input` when it sends something."""
        self._quiet_s = seconds
        if self._quiet_timer is not None:
            self._quiet_timer.cancel()
            self._quiet_timer = None
        if seconds > 0:
            self.note_input()
            self._quiet_timer = asyncio.get_running_loop().call_later(seconds, self._check_idle)

    def note_input(self) -> None:
        """The client has sent something."""
        if self._quiet_s:
            self._last_input_s = asyncio.get_running_loop().time()

    def idle(self) -> None:
        """The client was silent for too long: cut the session. A subclass may send a message, and hang up."""
        self.abort()

    def reply(self, data: bytes, *, delay_s: float = 0.0) -> None:
        """Send an answer after `delay_s`, as far as the faults allow."""
        spoiled = self.server.faults.spoil(data)
        if spoiled is not None:
            self.send(spoiled, delay_s=delay_s + self.server.faults.slow_s)

    def send(self, data: bytes, *, delay_s: float = 0.0) -> None:
        """Send unchanged, in one write."""
        if delay_s > 0:
            self.later(delay_s, self._write, data)
        else:
            self._write(data)

    def later(self, delay_s: float, callback: Callable[[bytes], None], data: bytes) -> asyncio.TimerHandle:
        """Call back later unless the session has ended."""
        loop = asyncio.get_running_loop()

        def run() -> None:
            self._timers.discard(timer)
            callback(data)

        timer = loop.call_later(delay_s, run)
        self._timers.add(timer)
        return timer

    def _check_idle(self) -> None:
        left_s = self._last_input_s + self._quiet_s - asyncio.get_running_loop().time()
        if left_s <= 0:
            self._quiet_timer = None
            self.idle()
        else:
            self._quiet_timer = asyncio.get_running_loop().call_later(left_s, self._check_idle)

    def _write(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(data)
        if (unread_bytes := self._transport.get_write_buffer_size()) > UNREAD_LIMIT_BYTES:
            name = self.server.mirror.name
            log.warning("twin %s: a client does not read its answers: %d bytes wait", name, unread_bytes)
            self.abort()
