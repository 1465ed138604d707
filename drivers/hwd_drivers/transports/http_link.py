"""HttpLink: one connection to a device that speaks HTTP/1.1, with its queue of requests."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable

from typing_extensions import override

from hwd_drivers.codecs.http import ClientWire, HttpRequest, HttpResponse
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import DeadlineError, LinkError, ProtocolError
from hwd_drivers.transports.link import Link, Pending

log = logging.getLogger(__name__)


class HttpExchange(Pending[HttpResponse]):
    """A request and the time when it was sent; `sent` stays false where the connection ended first."""

    __slots__ = ("on_sent", "request", "sent", "sent_ns", "timer")

    def __init__(self, request: HttpRequest, on_sent: Callable[[int], None] | None) -> None:
        super().__init__(asyncio.get_running_loop(), [str(request)], answers=1)
        self.request = request
        self.on_sent = on_sent
        self.sent = False
        self.sent_ns = 0
        self.timer: asyncio.TimerHandle | None = None

    def stop(self) -> None:
        """Cancel the deadline."""
        if self.timer is not None:
            self.timer.cancel()


class HttpLink(Link[HttpResponse]):
    """Sends requests one after the other, each when the one before it was answered.

    Answers have no tags, so a deadline that passes during a request ends the connection. The answer to a cancelled
    request is awaited up to its deadline, dropped, and counted in `late`. `headers` is called for each request that is
    sent, `answered` for each answer. `announced`: the device announced in its last answer that it ends the connection.
    """

    def __init__(
        self,
        *,
        name: str,
        host: str,
        clock: Clock,
        headers: Callable[[], dict[str, str]],
        answered: Callable[[HttpResponse], None],
    ) -> None:
        super().__init__(name=name, clock=clock)
        self.announced = False
        self._on_lost: Callable[[LinkError | ProtocolError], None] | None = None
        self._headers = headers
        self._answered = answered
        self._wire = ClientWire(host=host)
        self._queue: deque[HttpExchange] = deque()
        self._under_way: HttpExchange | None = None

    async def exchange(self, exchange: HttpExchange, deadline_s: float) -> HttpResponse:
        """Errors as those of `HttpClient.request`."""
        if self._transport is None or self._cause is not None:
            raise self._error_of(exchange.what)
        started_s = self._loop.time()
        if deadline_s <= started_s:
            raise DeadlineError(f"{self._name}: {exchange.what}: not sent, its deadline is over. Allow more time")
        exchange.timer = self._loop.call_at(deadline_s, self._expire, exchange, deadline_s - started_s)
        self._queue.append(exchange)
        self._send_next()
        try:
            (response,) = await exchange.done
        finally:
            if exchange is not self._under_way:
                exchange.stop()
                if exchange in self._queue:
                    self._queue.remove(exchange)
        return response

    def when_lost(self, callback: Callable[[LinkError | ProtocolError], None]) -> None:
        """Call `callback` with the cause when the connection is lost; at once where it already is."""
        self._on_lost = callback
        if self._lost.done():
            callback(self._cause or LinkError(f"{self._name}: connection lost"))

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._on_lost is not None and self._cause is not None:
            self._on_lost(self._cause)

    @override
    def eof_received(self) -> None:
        if self._cause is None:
            try:
                self._received(b"", self._clock.monotonic_ns())
            except ProtocolError as error:
                self._end(LinkError(f"{self._name}: connection lost: the other side closed it: {error}"))

    @override
    def _received(self, data: bytes, received_ns: int) -> None:
        for response in self._wire.feed(data):
            exchange, self._under_way = self._under_way, None
            if exchange is None:
                raise ProtocolError("HTTP: an answer without a request")
            self._answered(response)
            exchange.stop()
            if exchange.done.done():
                self.late += 1
                log.debug("%s: %s: answered after it was abandoned (%d so far)", self._name, exchange.what, self.late)
            exchange.take(0, response, received_ns)
            if self._wire.reusable:
                self._send_next()
                continue
            self.announced = True
            self._end(LinkError(f"{self._name}: the device ended the connection after {exchange.what}"))
            if self._transport is not None:
                self._transport.close()

    @override
    def _take_waiting(self) -> Iterable[Pending[HttpResponse]]:
        waiting = [*([self._under_way] if self._under_way is not None else []), *self._queue]
        self._under_way = None
        self._queue.clear()
        for exchange in waiting:
            exchange.stop()
        return waiting

    @override
    def _expire(self, pending: Pending[HttpResponse], allowed_s: float) -> None:
        super()._expire(pending, allowed_s)
        if pending is self._under_way:
            finding = f"{pending.what} was not answered within {allowed_s:.3g} s"
            self._cut(LinkError(f"{self._name}: connection closed: {finding}"))

    def _send_next(self) -> None:
        """Send the first request of the queue that is still wanted and in time."""
        while self._under_way is None and self._queue and self._transport is not None:
            exchange = self._queue.popleft()
            if exchange.done.done():
                continue
            if exchange.timer is not None and exchange.timer.when() <= self._loop.time():
                text = f"{self._name}: {exchange.what}: not sent in time, after those before it. Allow more time"
                exchange.fail(DeadlineError(text))
                continue
            self._send(exchange, self._transport)

    def _send(self, exchange: HttpExchange, transport: asyncio.Transport) -> None:
        asked = exchange.request
        headers = tuple((self._headers() | dict(asked.headers)).items())
        data = self._wire.encode(HttpRequest(method=asked.method, path=asked.path, headers=headers, body=asked.body))
        self._under_way = exchange
        exchange.sent = True
        exchange.sent_ns = self._clock.monotonic_ns()
        if exchange.on_sent is not None:
            exchange.on_sent(exchange.sent_ns)
        transport.write(data)
