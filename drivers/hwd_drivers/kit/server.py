"""A twin behind a socket: sessions on one mirror, in real or virtual time, and what can be made to go wrong with it."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from hwd_drivers.kit.clock import Clock
from hwd_drivers.kit.dial import Dialer, Listener
from hwd_drivers.kit.mirror import Mirror
from hwd_drivers.kit.values import PortSide

EARLY_NS: Final = 1_000
"""A timer that fires earlier than this before its time is set again: the loop's clock and the twin's may run at different rates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """The device's own words for no."""

    code: str
    text: str = ""


class Faults:
    """What goes wrong with a twin from now on; nothing at first. Set the attributes at any time.

    `slow_s`: every answer comes so much later. `silent`: commands are done and not answered. `refusing`: new sessions are ended at once.
    `half_next`: the next answer ends in its middle. `garble_next`: the next answer is garbage. `deny_next`: the next change is denied.
    """

    def __init__(self, *, mirror: Mirror, reset: Callable[[], None]) -> None:
        self.slow_s = 0.0
        self.silent = False
        self.refusing = False
        self.half_next = False
        self.garble_next = False
        self.deny_next: Denial | None = None
        self._mirror = mirror
        self._reset = reset

    def reset(self) -> None:
        """Cut all sessions, now."""
        self._reset()

    def stick(self, ends: Iterable[PortSide]) -> None:
        """The mirrors of `ends` do not move any more; commands are answered as if they did."""
        self._mirror.stick(ends)

    def clear(self) -> None:
        """All is well again."""
        self.slow_s = 0.0
        self.silent = self.refusing = self.half_next = self.garble_next = False
        self.deny_next = None
        self._mirror.release()

    def take_denial(self) -> Denial | None:
        """The denial for this change, used up by that."""
        denial, self.deny_next = self.deny_next, None
        return denial


class TwinServer:
    """Listens, keeps the sessions, and moves the mirror on when its time has come."""

    def __init__(
        self,
        *,
        mirror: Mirror,
        clock: Clock,
        dialer: Dialer,
        address: str,
        make_session: Callable[["TwinServer"], "TwinSession"],
    ) -> None:
        self.mirror = mirror
        self.clock = clock
        self.faults = Faults(mirror=mirror, reset=self._reset)
        self.sessions: list[TwinSession] = []
        self._dialer = dialer
        self._address = address
        self._make_session = make_session
        self._listener: Listener | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> str:
        self._listener = await self._dialer.listen(lambda: self._make_session(self), self._address)
        self.mirror.on_change.append(self._arm)
        return self._listener.address

    async def close(self) -> None:
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
            self.mirror.on_change.remove(self._arm)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        sessions = list(self.sessions)
        self._reset()
        for session in sessions:
            await session.ended

    def _reset(self) -> None:
        for session in list(self.sessions):
            session.abort()

    def _arm(self, now_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ns = self.mirror.next_ns()
        if due_ns is not None:
            delay_s = max(0, due_ns - self.clock.monotonic_ns()) / 1e9
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._advance, due_ns)

    def _advance(self, due_ns: int) -> None:
        """Changes that this makes set the timer again; so does one that fired too early."""
        self._timer = None
        now_ns = self.clock.monotonic_ns()
        if now_ns < due_ns - EARLY_NS:
            self._arm(now_ns)
        else:
            self.mirror.advance(max(now_ns, due_ns))


class TwinSession(asyncio.Protocol):
    """One client of a twin. Subclasses take the bytes in `data_received` and answer through `reply`."""

    def __init__(self, server: TwinServer) -> None:
        self.server = server
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._timers: set[asyncio.TimerHandle] = set()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.server.sessions.append(self)
        if self.server.faults.refusing:
            transport.abort()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.server.sessions.remove(self)
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if not self.ended.done():
            self.ended.set_result(None)

    def abort(self) -> None:
        """Cut this session without a word."""
        if self._transport is not None:
            self._transport.abort()

    def reply(self, data: bytes, *, delay_s: float = 0.0) -> None:
        """Send an answer after its time, or what the faults make of it."""
        faults = self.server.faults
        if faults.silent:
            return
        if faults.garble_next:
            faults.garble_next = False
            data = b"\r\n\n#" + data[::-1] + b"\r\n;\r\n"
        if faults.half_next:
            faults.half_next = False
            data = data[: len(data) // 2]
        self.send(data, delay_s=delay_s + faults.slow_s)

    def send(self, data: bytes, *, delay_s: float = 0.0) -> None:
        """Send as it is, in one write."""
        if delay_s > 0:
            self.later(delay_s, self._write, data)
        else:
            self._write(data)

    def later(self, delay_s: float, callback: Callable[[bytes], None], data: bytes) -> asyncio.TimerHandle:
        """Call back unless the session ends before."""
        loop = asyncio.get_running_loop()

        def run() -> None:
            self._timers.discard(timer)
            callback(data)

        timer = loop.call_later(delay_s, run)
        self._timers.add(timer)
        return timer

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)
