"""Connection: one connection to a device that answers by tags; used once, closed once, and its death fails every waiter with the cause."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from typing_extensions import override

from hwd_drivers.kit.clock import Clock
from hwd_drivers.kit.dial import Dialer
from hwd_drivers.kit.errors import BugError, ConfigError, DeadlineError, LinkError, ProtocolError

MessageT = TypeVar("MessageT")

CLOSE_S: Final = 1.0
"""How long the last bytes of ours may take to leave; then the connection is cut."""
LOGGED_BYTES: Final = 200
"""How much of what cannot be parsed goes into the log."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Bytes to send, the tag that the answer will carry, and words for errors; never a secret in `what`."""

    tag: str
    data: bytes
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Generic[MessageT]):
    """Answers in the order of their requests. `Clock.monotonic_ns` just before the first byte was sent and when the last answer came."""

    messages: tuple[MessageT, ...]
    sent_ns: int
    received_ns: int


class Connection(asyncio.Protocol, Generic[MessageT]):
    """Requests and their answers over one connection.

        connection = await Connection.open(dialer, "10.0.0.5:3082", name="ocs1", decode=decode, clock=clock, deadline_s=...)
        answered = await connection.request(Request(tag="1", data=b"...", what="RTRV-PATCH"), deadline_s=loop.time() + 2)

    `decode` turns bytes into answers, each with its tag, and keeps for itself what nobody asked for; a ProtocolError of it ends the connection. A request that is given up (deadline, cancellation) leaves the connection alone: its late answer is known by its tag.
    `garbled` and `late` count what could not be parsed and what came too late.
    """

    def __init__(
        self,
        *,
        name: str,
        decode: Callable[[bytes], Sequence[tuple[str, MessageT]]],
        clock: Clock,
    ) -> None:
        self.garbled = 0
        self.late = 0
        self._name = name
        self._decode = decode
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[str, tuple[_Exchange[MessageT], int]] = {}
        self._cause: LinkError | ProtocolError | None = None
        self._lost: asyncio.Future[Exception] = self._loop.create_future()

    @classmethod
    async def open(
        cls,
        dialer: Dialer,
        address: str,
        *,
        name: str,
        decode: Callable[[bytes], Sequence[tuple[str, MessageT]]],
        clock: Clock,
        deadline_s: float,
    ) -> "Connection[MessageT]":
        """Connect. Raises LinkError where nobody answers there, DeadlineError after the deadline, ConfigError for an address that is none."""

        def make() -> Connection[MessageT]:
            return cls(name=name, decode=decode, clock=clock)

        started_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(deadline_s):
                _, connection = await dialer.connect(make, address)
        except TimeoutError:
            raise DeadlineError(
                f"{name}: cannot connect to {address} within {max(0.0, deadline_s - started_s):.3g} s. Is the device on, and the way to it free?"
            ) from None
        except OSError as error:
            raise LinkError(f"{name}: cannot connect to {address}: {error}") from error
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from error
        return connection

    async def request(
        self, *requests: Request, deadline_s: float, on_sent: Callable[[int], None] | None = None
    ) -> Answered[MessageT]:
        """Send all in one write and wait for all answers.

        `deadline_s` is a time of `loop.time()`; nothing is sent after it. Raises DeadlineError, LinkError when the connection is or gets lost, ProtocolError
        when what came on it could not be parsed.
        """
        if self._transport is None or self._cause is not None:
            raise self._error_of(requests)
        started_s = self._loop.time()
        if deadline_s <= started_s:
            raise DeadlineError(f"{self._name}: {_what(requests)}: not sent, its deadline is over. Allow more time")
        exchange: _Exchange[MessageT] = _Exchange(self._loop, requests)
        for place, request in enumerate(requests):
            if request.tag in self._waiting:
                raise BugError(f"{self._name}: {request.what}: tag {request.tag} is in use")
            self._waiting[request.tag] = exchange, place
        timer = self._loop.call_at(deadline_s, self._expire, exchange, deadline_s - started_s)
        try:
            sent_ns = self._clock.monotonic_ns()
            if on_sent is not None:
                on_sent(sent_ns)
            self._transport.write(b"".join([request.data for request in requests]))
            messages = await exchange.done
        finally:
            timer.cancel()
            if exchange.left:
                for request in requests:
                    self._waiting.pop(request.tag, None)
        return Answered(messages=messages, sent_ns=sent_ns, received_ns=exchange.received_ns)

    async def lost(self) -> Exception:
        """Wait until the connection is gone; returns the cause."""
        return await asyncio.shield(self._lost)

    def send_last(self, data: bytes) -> None:
        """Send a farewell that nobody waits for, before `close`."""
        if self._transport is not None and self._cause is None:
            self._transport.write(data)

    async def close(self) -> None:
        """Close it, at any time, any number of times; what was written still leaves, within `CLOSE_S`."""
        self._end(LinkError(f"{self._name}: the connection was closed by us"))
        if self._transport is not None and not self._lost.done():
            self._transport.close()
            _, pending = await asyncio.wait((self._lost,), timeout=CLOSE_S)
            if pending:
                self._transport.abort()
                await asyncio.wait((self._lost,))

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        received_ns = self._clock.monotonic_ns()
        if self._cause is not None:
            return
        try:
            answers = self._decode(data)
        except ProtocolError as error:
            self._garble(data, error)
            return
        for tag, message in answers:
            if (waiting := self._waiting.pop(tag, None)) is not None:
                exchange, place = waiting
                exchange.take(place, message, received_ns)
            else:
                self.late += 1
                log.debug("%s: an answer with tag %s that nobody waits for (%d by now)", self._name, tag, self.late)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._end(LinkError(f"{self._name}: connection lost: {exc or 'the other side closed it'}"))
        if not self._lost.done() and self._cause is not None:
            self._lost.set_result(self._cause)

    def _garble(self, data: bytes, error: ProtocolError) -> None:
        self.garbled += 1
        more = "..." if len(data) > LOGGED_BYTES else ""
        log.warning("%s: cannot parse %r%s: %s; closing the connection", self._name, data[:LOGGED_BYTES], more, error)
        self._end(ProtocolError(f"{self._name}: connection closed: {error}"))
        if self._transport is not None:
            self._transport.abort()

    def _end(self, cause: LinkError | ProtocolError) -> None:
        """The first cause stands; whoever waits gets it."""
        if self._cause is not None:
            return
        self._cause = cause
        waiting, self._waiting = self._waiting, {}
        for exchange, _ in waiting.values():
            if not exchange.done.done():
                exchange.done.set_exception(self._error_of(exchange.requests))

    def _expire(self, exchange: "_Exchange[MessageT]", allowed_s: float) -> None:
        if not exchange.done.done():
            text = f"{self._name}: {_what(exchange.requests)}: no answer within {allowed_s:.3g} s"
            exchange.done.set_exception(DeadlineError(text))

    def _error_of(self, requests: Sequence[Request]) -> Exception:
        """An error of its own for each waiter, of the cause's kind."""
        cause = self._cause or LinkError(f"{self._name}: not connected")
        error = type(cause)(f"{cause} (in {_what(requests)})")
        error.__cause__ = cause
        return error


class _Exchange(Generic[MessageT]):
    """Requests that are answered together."""

    __slots__ = ("_messages", "done", "left", "received_ns", "requests")

    def __init__(self, loop: asyncio.AbstractEventLoop, requests: Sequence[Request]) -> None:
        self.requests = requests
        self.left = len(requests)
        self.received_ns = 0
        self.done: asyncio.Future[tuple[MessageT, ...]] = loop.create_future()
        self._messages: dict[int, MessageT] = {}

    def take(self, place: int, message: MessageT, received_ns: int) -> None:
        self._messages[place] = message
        self.left -= 1
        if not self.left and not self.done.done():
            self.received_ns = received_ns
            self.done.set_result(tuple(self._messages[index] for index in range(len(self.requests))))


def _what(requests: Sequence[Request]) -> str:
    return ", ".join(request.what for request in requests)
