"""RoughDialer: a dialer for tests whose received bytes come one by one, late, lossy, or until an early reset."""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Final, Generic, TypeVar

from typing_extensions import override

from hwd_drivers.core.ids import Draws
from hwd_drivers.transports.dial import Dialer, Listener

ProtoT = TypeVar("ProtoT", bound=asyncio.Protocol)

SLOW_S: Final = 0.02
"""Delay of each chunk on a slow connection."""
LOSS: Final = 0.15
"""Share of chunks that a lossy connection drops or cuts short."""
SPARED: Final = (3, 9, 32)
"""Most chunks, drawn, that a connection delivers intact before it gets lossy or is reset.

Some connections thus end while they are opened, and some last long enough for a protocol that needs many exchanges to
open.
"""


class Way(StrEnum):
    """How received bytes are delivered."""

    WHOLE = "whole"
    """As they were sent."""
    BYTEWISE = "bytewise"
    """The bytes come one by one."""
    SLOW = "slow"
    """Each chunk late, in order."""
    LOSSY = "lossy"
    """Some answers are dropped, some cut short; the connection stays open."""
    DYING = "dying"
    """Each connection is reset after a few answers."""


class RoughDialer:
    """Wraps a dialer and impairs what its connections receive; loss and resets concern only the side that dials."""

    def __init__(self, inner: Dialer, way: Way, *, draws: Draws) -> None:
        self._inner = inner
        self._way = way
        self._rng = draws.stream(f"rough/{way}")

    async def connect(self, factory: Callable[[], ProtoT], address: str) -> tuple[asyncio.Transport, ProtoT]:
        transport, rough = await self._inner.connect(lambda: _Rough(factory(), self._way, self._rng), address)
        return transport, rough.inner

    async def listen(self, factory: Callable[[], asyncio.Protocol], address: str) -> Listener:
        way = self._way if self._way in (Way.BYTEWISE, Way.SLOW) else Way.WHOLE
        return await self._inner.listen(lambda: _Rough(factory(), way, self._rng), address)


class _Rough(asyncio.Protocol, Generic[ProtoT]):
    """Sits between a transport and its protocol."""

    def __init__(self, inner: ProtoT, way: Way, rng: random.Random) -> None:
        self.inner = inner
        self._way = way
        self._rng = rng
        self._left = rng.randint(1, rng.choice(SPARED))
        self._transport: asyncio.Transport | None = None
        self._late: deque[Callable[[], None]] = deque()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.inner.connection_made(transport)

    @override
    def data_received(self, data: bytes) -> None:
        match self._way:
            case Way.WHOLE:
                self.inner.data_received(data)
            case Way.BYTEWISE:
                for byte in data:
                    if not self._is_closing():
                        self.inner.data_received(bytes([byte]))
            case Way.SLOW:
                self._later(lambda: None if self._is_closing() else self.inner.data_received(data))
            case Way.LOSSY:
                self._left -= 1
                lost = self._left < 0 and self._rng.random() < LOSS
                kept = self._rng.randrange(len(data)) if lost else len(data)
                if kept > len(data) // 3:
                    self.inner.data_received(data[:kept])
            case Way.DYING:
                self._left -= 1
                if self._left >= 0:
                    self.inner.data_received(data)
                elif self._transport is not None:
                    self._transport.abort()

    @override
    def eof_received(self) -> bool | None:
        """Delay the end of the stream as the bytes before it: a slow transport is kept open until then."""
        if self._way is not Way.SLOW:
            return self.inner.eof_received()
        self._later(self._end)
        return True

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._way is Way.SLOW:
            self._later(lambda: self.inner.connection_lost(exc))
        else:
            self.inner.connection_lost(exc)

    @override
    def pause_writing(self) -> None:
        self.inner.pause_writing()

    @override
    def resume_writing(self) -> None:
        self.inner.resume_writing()

    def _is_closing(self) -> bool:
        """Whether the transport is closing, after which it delivers nothing."""
        return self._transport is None or self._transport.is_closing()

    def _later(self, event: Callable[[], None]) -> None:
        """Call `event` later, in order, which a loop does not promise for timers that are due at the same time."""
        self._late.append(event)
        asyncio.get_running_loop().call_later(SLOW_S, lambda: self._late.popleft()())

    def _end(self) -> None:
        if not self._is_closing() and not self.inner.eof_received() and self._transport is not None:
            self._transport.close()
