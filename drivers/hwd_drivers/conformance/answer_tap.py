"""TappedDialer: a dialer whose connections can hold answers back and deliver other bytes instead."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from typing_extensions import override

from hwd_drivers.conformance.uncaught_errors import UncaughtErrors
from hwd_drivers.transports.dial import Dialer, Listener

ProtoT = TypeVar("ProtoT", bound=asyncio.Protocol)


class TappedDialer:
    """Wraps a dialer. While `holds`, received bytes are stored in `held` and not delivered."""

    def __init__(self, inner: Dialer) -> None:
        self.holds = False
        self.held = b""
        self._inner = inner
        self._taps: list[_Tap] = []

    async def connect(self, factory: Callable[[], ProtoT], address: str) -> tuple[asyncio.Transport, ProtoT]:
        made: list[ProtoT] = []

        def make() -> _Tap:
            made.append(factory())
            return _Tap(made[0], self)

        transport, tap = await self._inner.connect(make, address)
        self._taps = [*(each for each in self._taps if not each.ended), tap]
        return transport, made[0]

    async def listen(self, factory: Callable[[], asyncio.Protocol], address: str) -> Listener:
        return await self._inner.listen(factory, address)

    @property
    def open(self) -> bool:
        """Whether a connection exists that accepts bytes, now or later."""
        return any(not tap.ended for tap in self._taps)

    @property
    def reading(self) -> bool:
        """Whether a connection accepts bytes now."""
        return any(tap.reading for tap in self._taps)

    def feed(self, data: bytes, errors: UncaughtErrors) -> None:
        """Deliver bytes as if the other side had sent them. Exceptions go to `errors` and end the connection."""
        for tap in list(self._taps):
            if tap.reading:
                tap.feed(data, errors)


class _Tap(asyncio.Protocol):
    """Sits between a transport and its protocol."""

    def __init__(self, inner: asyncio.Protocol, dialer: TappedDialer) -> None:
        self._inner = inner
        self._dialer = dialer
        self._transport: asyncio.Transport | None = None

    @property
    def ended(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def reading(self) -> bool:
        return self._transport is not None and self._transport.is_reading() and not self.ended

    def feed(self, data: bytes, errors: UncaughtErrors) -> None:
        try:
            self._inner.data_received(data)
        except Exception as error:  # noqa: BLE001 - a driver that is checked may raise anything: that is the finding
            errors.take(error)
            assert self._transport is not None
            self._transport.abort()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._inner.connection_made(transport)

    @override
    def data_received(self, data: bytes) -> None:
        if self._dialer.holds:
            self._dialer.held += data
        else:
            self._inner.data_received(data)

    @override
    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)

    @override
    def pause_writing(self) -> None:
        self._inner.pause_writing()

    @override
    def resume_writing(self) -> None:
        self._inner.resume_writing()
