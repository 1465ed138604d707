"""HTTP over our own way to a device: HttpClient for drivers, HttpSession for twins. Both work in virtual time and over rough ways.

client = await HttpClient.open(dialer, "10.0.0.5:8008", name="ocs1", clock=clock, deadline_s=..., user="admin", password="root")
answer = await client.request("GET", "/api/data/optical-switch:cross-connects", deadline_s=loop.time() + 2)
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from typing_extensions import override

from hwd_drivers.kit.clock import Clock
from hwd_drivers.kit.dial import Dialer
from hwd_drivers.kit.errors import DeadlineError, LinkError, ProtocolError
from hwd_drivers.kit.http_wire import ClientWire, Headers, HttpRequest, HttpResponse, ServerWire, basic
from hwd_drivers.kit.link import Link, Pending, connect
from hwd_drivers.kit.server import TwinServer, TwinSession

AFTER_S: Final = 1e-6
"""How much later than an answer the next request of the same session is taken: timers of one time have no order."""

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """A whole answer. `Clock.monotonic_ns` just before the first byte of the request was sent and when the last of the answer came."""

    status: int
    headers: Headers
    body: bytes
    sent_ns: int
    received_ns: int

    def header(self, name: str) -> str:
        """Values of all headers of this name, joined by commas; empty where there is none."""
        return ", ".join(value for each, value in self.headers if each == name)


class HttpClient(Link[HttpResponse]):
    """One connection to a device that speaks HTTP/1.1.

    Requests are sent one after the other, each when the one before it was answered. Answers have no tags, so a deadline that passes while a request is
    under way ends the connection; a request that was cancelled meanwhile is waited for behind the scenes, up to its deadline, and its answer is dropped and
    counted in `late`. Cookies that the device sets are sent back; user and password go with every request.
    """

    def __init__(self, *, name: str, host: str, clock: Clock, authorization: str | None) -> None:
        super().__init__(name=name, clock=clock)
        self.cookies: dict[str, str] = {}
        self._wire = ClientWire(host=host)
        self._authorization = authorization
        self._queue: deque[_Exchange] = deque()
        self._under_way: _Exchange | None = None

    @classmethod
    async def open(
        cls,
        dialer: Dialer,
        address: str,
        *,
        name: str,
        clock: Clock,
        deadline_s: float,
        user: str | None = None,
        password: str | None = None,
    ) -> "HttpClient":
        """Connect. Raises LinkError where nobody answers there, DeadlineError after the deadline, ConfigError for an address that is none."""
        authorization = None if user is None else basic(user, password or "")
        host = address.rpartition("/")[2] if address.startswith("unix:") else address.removeprefix("mem:")

        def make() -> HttpClient:
            return cls(name=name, host=host or "device", clock=clock, authorization=authorization)

        return await connect(dialer, make, address, name=name, deadline_s=deadline_s)

    async def request(
        self,
        method: str,
        path: str,
        *,
        deadline_s: float,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        on_sent: Callable[[int], None] | None = None,
    ) -> HttpAnswer:
        """Send one request, after those before it, and wait for its answer, whatever its status.

        `deadline_s` is a time of `loop.time()`; nothing is sent after it. `on_sent` is called with `Clock.monotonic_ns` just before the first byte. Raises
        DeadlineError, LinkError when the connection is or gets lost, ProtocolError when what came on it could not be parsed.
        """
        request = HttpRequest(method=method, path=path, headers=tuple((headers or {}).items()), body=body)
        if self._transport is None or self._cause is not None:
            raise self._error_of(str(request))
        started_s = self._loop.time()
        if deadline_s <= started_s:
            raise DeadlineError(f"{self._name}: {request}: not sent, its deadline is over. Allow more time")
        exchange = _Exchange(self._loop, request, on_sent)
        exchange.timer = self._loop.call_at(deadline_s, self._expire, exchange, deadline_s - started_s)
        self._queue.append(exchange)
        self._send_next()
        try:
            (response,) = await exchange.done
        finally:
            if exchange is not self._under_way:
                exchange.timer.cancel()
                if exchange in self._queue:
                    self._queue.remove(exchange)
        return HttpAnswer(
            status=response.status,
            headers=response.headers,
            body=response.body,
            sent_ns=exchange.sent_ns,
            received_ns=exchange.received_ns,
        )

    def read(self, answer: HttpAnswer, reader: Callable[[bytes], T]) -> T:
        """What `reader` makes of the body; a ProtocolError of it ends the connection, as bytes do that are no HTTP."""
        try:
            return reader(answer.body)
        except ProtocolError as error:
            self._garble(answer.body, error)
            raise ProtocolError(f"{self._name}: {error}") from error

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
                raise ProtocolError("HTTP: an answer that nobody asked for")
            self._keep_cookies(response)
            exchange.stop()
            if exchange.done.done():
                self.late += 1
                log.debug("%s: %s: answered after it was given up (%d by now)", self._name, exchange.what, self.late)
            exchange.take(0, response, received_ns)
            if self._wire.reusable:
                self._send_next()
                continue
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
        if self._under_way is not None or not self._queue or self._transport is None:
            return
        exchange = self._queue.popleft()
        asked = exchange.request
        headers = dict(asked.headers)
        if self._authorization is not None:
            headers.setdefault("authorization", self._authorization)
        if self.cookies:
            headers["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        data = self._wire.encode(
            HttpRequest(method=asked.method, path=asked.path, headers=tuple(headers.items()), body=asked.body)
        )
        self._under_way = exchange
        exchange.sent_ns = self._clock.monotonic_ns()
        if exchange.on_sent is not None:
            exchange.on_sent(exchange.sent_ns)
        self._transport.write(data)

    def _keep_cookies(self, response: HttpResponse) -> None:
        for header, value in response.headers:
            if header != "set-cookie":
                continue
            pair, *attributes = (part.strip() for part in value.split(";"))
            name, equals, text = pair.partition("=")
            if not equals or not text or "max-age=0" in (each.lower() for each in attributes):
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = text


class HttpSession(TwinSession):
    """One client of a twin that speaks HTTP/1.1: `handle` is called with each request when the one before it was answered, and makes its answer."""

    def __init__(self, server: TwinServer, handle: Callable[[HttpRequest], HttpResponse]) -> None:
        super().__init__(server)
        self._handle = handle
        self._wire = ServerWire()
        self._busy = False

    @override
    def data_received(self, data: bytes) -> None:
        self._take(data)

    @override
    def eof_received(self) -> bool:
        """What was asked before the end is still answered."""
        self._take(b"")
        return self._busy

    def _take(self, data: bytes) -> None:
        try:
            self._wire.feed(data)
        except ProtocolError as error:
            self._refuse(error)
            return
        if not self._busy:
            self._go_on(b"")

    def _go_on(self, _: bytes) -> None:
        self._busy = False
        try:
            while not self._busy and (request := self._wire.next_request()) is not None:
                self._do(request)
        except ProtocolError as error:
            self._refuse(error)
            return
        if self._wire.wants_go_ahead:
            self.send(self._wire.go_ahead())
        if self._wire.over and not self._busy:
            self.close()

    def _do(self, request: HttpRequest) -> None:
        self._busy = True
        response = self._handle(request)
        faults = self.server.faults
        data = self._wire.encode(response, wall_ns=self.server.clock.wall_ns() + round(response.delay_s * 1e9))
        self.reply(data, delay_s=response.delay_s)
        if (wait_s := response.delay_s + faults.slow_s) > 0:
            self.later(wait_s + AFTER_S, self._go_on, b"")
        else:
            self._busy = False

    def _refuse(self, error: ProtocolError) -> None:
        log.warning("twin %s: %s; ending the session", self.server.mirror.name, error)
        if not self._wire.over:
            text = f"{error}\n".encode()
            response = HttpResponse(
                status=400, headers=(("content-type", "text/plain"), ("connection", "close")), body=text
            )
            self.reply(self._wire.encode(response, wall_ns=self.server.clock.wall_ns()))
        self.close()

    def close(self) -> None:
        """End the session; what was written still leaves."""
        if self._transport is not None:
            self._transport.close()


class _Exchange(Pending[HttpResponse]):
    """A request, and when it was sent."""

    __slots__ = ("on_sent", "request", "sent_ns", "timer")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, request: HttpRequest, on_sent: Callable[[int], None] | None
    ) -> None:
        super().__init__(loop, [str(request)], answers=1)
        self.request = request
        self.on_sent = on_sent
        self.sent_ns = 0
        self.timer: asyncio.TimerHandle | None = None

    def stop(self) -> None:
        """No deadline any more."""
        if self.timer is not None:
            self.timer.cancel()
