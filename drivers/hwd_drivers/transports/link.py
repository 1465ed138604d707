"""Link: the common base of all connections to devices; used once, closed once; its loss fails every waiter."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from typing_extensions import override

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import ConfigError, DeadlineError, LinkError, ProtocolError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.transports.mask import Mask
from hwd_drivers.transports.masked_dialer import mask_of
from hwd_drivers.transports.terminal_server import SEEN_BYTES, hint_of

MessageT = TypeVar("MessageT")

CLOSE_S: Final = 1.0
"""How long the last written bytes may take to be sent; then the connection is cut."""
LOGGED_BYTES: Final = 200
"""How many bytes of an unparseable message are logged."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Generic[MessageT]):
    """Answers in the order of their requests.

    Times are `Clock.monotonic_ns`: just before the first byte was sent, and when the last answer came.
    """

    messages: tuple[MessageT, ...]
    sent_ns: int
    received_ns: int


class Pending(Generic[MessageT]):
    """Requests that were sent together and are answered together; `left` counts the missing answers."""

    __slots__ = ("_messages", "done", "left", "received_ns", "whats")

    def __init__(self, loop: asyncio.AbstractEventLoop, whats: Sequence[str], *, answers: int) -> None:
        self.whats = whats
        self.left = answers
        self.received_ns = 0
        self.done: asyncio.Future[tuple[MessageT, ...]] = loop.create_future()
        self._messages: dict[int, MessageT] = {}

    def take(self, place: int, message: MessageT, received_ns: int, *, answers: int = 1) -> None:
        """Put an answer at its place; it counts for `answers` of the missing ones."""
        self._messages[place] = message
        self.left -= answers
        if not self.left:
            self.finish(received_ns)

    def finish(self, received_ns: int) -> None:
        """Complete the future; a waiter that was cancelled is left alone."""
        if not self.done.done():
            self.received_ns = received_ns
            self.done.set_result(tuple(map(self._messages.__getitem__, sorted(self._messages))))

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)

    @property
    def what(self) -> str:
        return ", ".join(self.whats)


class Link(asyncio.Protocol, ABC, Generic[MessageT]):
    """One connection to one device. Subclasses know which answer belongs to which request.

    `garbled` counts messages that could not be parsed, `late` those whose waiter had gone. `mask` hides secrets in the
    log.
    """

    def __init__(self, *, name: str, clock: Clock) -> None:
        self.garbled = 0
        self.late = 0
        self.mask = Mask()
        self._name = name
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._cause: LinkError | ProtocolError | None = None
        self._lost: asyncio.Future[Exception] = self._loop.create_future()
        self._first = b""
        """What came first, until there was an answer."""
        self._has_answered = False
        self._is_understood = False
        """Whether anything that came could be parsed."""

    @abstractmethod
    def _received(self, data: bytes, received_ns: int) -> None:
        """Hand answers to their waiters. A ProtocolError ends the connection."""

    @abstractmethod
    def _take_waiting(self) -> Iterable[Pending[MessageT]]:
        """Remove and return all waiting requests, to be failed."""

    async def lost(self) -> Exception:
        """Wait until the connection is lost; returns the cause."""
        return await asyncio.shield(self._lost)

    def send_last(self, data: bytes) -> None:
        """Send last bytes, such as a logout, before `close`; no answer is awaited."""
        if self._transport is not None and self._cause is None:
            self._transport.write(data)

    def distrust(self, answer: object, error: ProtocolError) -> ProtocolError:
        """End the connection because of a complete answer that makes no sense.

        Returns the error to raise, with the device's name.
        """
        self._garble(repr(answer).encode(), error)
        return ProtocolError(f"{self._name}: {error}")

    def cut(self, why: str) -> None:
        """End it now; `lost` returns `why` as the cause."""
        self._cut(LinkError(f"{self._name}: connection closed: {why}"))

    async def close(self) -> None:
        """Close it; safe to call any number of times. Written bytes are still sent, within `CLOSE_S`."""
        self._end(LinkError(f"{self._name}: we closed the connection"))
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
        if not self._has_answered and len(self._first) < SEEN_BYTES:
            self._first += data[:SEEN_BYTES]
        try:
            self._received(data, received_ns)
        except ProtocolError as error:
            self._garble(data, error)
        else:
            self._is_understood = True

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._end(LinkError(f"{self._name}: connection lost: {exc or 'the other side closed it'}{self.hint}"))
        if not self._lost.done() and self._cause is not None:
            self._lost.set_result(self._cause)

    async def _exchange(
        self,
        pending: Pending[MessageT],
        data: bytes,
        *,
        deadline_s: float,
        enrol: Callable[[], None],
        on_sent: Callable[[int], None] | None,
    ) -> Answered[MessageT]:
        """Send in one write and wait. `enrol` is called just before the first byte, and only if something is sent."""
        if self._transport is None or self._cause is not None:
            raise self._error_of(pending.what)
        started_s = self._loop.time()
        if deadline_s <= started_s:
            raise DeadlineError(f"{self._name}: {pending.what}: not sent, its deadline is over. Allow more time")
        sent_ns = self._clock.monotonic_ns()
        if on_sent is not None:
            on_sent(sent_ns)
        enrol()
        timer = self._loop.call_at(deadline_s, self._expire, pending, deadline_s - started_s)
        try:
            self._transport.write(data)
            if not pending.left:
                pending.finish(sent_ns)
            messages = await pending.done
        finally:
            timer.cancel()
        self._has_answered = self._has_answered or bool(messages)
        return Answered(messages=messages, sent_ns=sent_ns, received_ns=pending.received_ns)

    def _expire(self, pending: Pending[MessageT], allowed_s: float) -> None:
        pending.fail(DeadlineError(f"{self._name}: {pending.what}: no answer within {allowed_s:.3g} s{self.hint}"))

    @property
    def hint(self) -> str:
        """The hint in an error of a connection that brought no answer: what seems to stand in the way; may be empty."""
        hint = "" if self._has_answered else hint_of(self._first)
        return f". {hint}" if hint else ""

    def _garble(self, data: bytes, error: ProtocolError) -> None:
        self.garbled += 1
        more = "..." if len(data) > LOGGED_BYTES else ""
        began = self.mask.text(repr(data))[:LOGGED_BYTES]
        words = self.mask.text(str(error))
        hint = self.hint
        # Of a connection that never made sense its user warns, once for all attempts, with this error: see Supervisor.
        level = logging.WARNING if self._is_understood and not hint else logging.DEBUG
        began_with = "" if self._is_understood or hint else f". It began with {began}{more}"
        log.log(level, "%s: cannot parse %s%s: %s; closing the connection", self._name, began, more, words)
        self._cut(ProtocolError(f"{self._name}: connection closed: {error}{began_with}{hint}"))

    def _cut(self, cause: LinkError | ProtocolError) -> None:
        """End it now; unsent bytes are dropped."""
        self._end(cause)
        if self._transport is not None:
            self._transport.abort()

    def _end(self, cause: LinkError | ProtocolError) -> None:
        """End it; the first cause counts and is raised in every waiter."""
        if self._cause is not None:
            return
        self._cause = cause
        for pending in self._take_waiting():
            pending.fail(self._error_of(pending.what))

    def _error_of(self, what: str) -> Exception:
        """A separate exception for each waiter, of the cause's type."""
        cause = self._cause or LinkError(f"{self._name}: not connected")
        error = type(cause)(f"{cause} (in {what})")
        error.__cause__ = cause
        return error


LinkT = TypeVar("LinkT", bound=asyncio.Protocol)


async def connect(dialer: Dialer, make: Callable[[], LinkT], address: str, *, name: str, deadline_s: float) -> LinkT:
    """Connect to the device.

    Raises LinkError where the device does not accept, DeadlineError after the deadline, ConfigError for an invalid
    address.
    """
    started_s = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout_at(deadline_s):
            _, link = await dialer.connect(make, address)
        if isinstance(link, Link):
            link.mask = mask_of(dialer)
    except TimeoutError:
        raise DeadlineError(
            f"{name}: cannot connect to {address} within {max(0.0, deadline_s - started_s):.3g} s. "
            "Is the device on, and the network path free?"
        ) from None
    except OSError as error:
        raise LinkError(f"{name}: cannot connect to {address}: {reason_of(error)}") from error
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from error
    return link
