"""HttpClient: a session with a device that speaks HTTP/1.1, over any dialer, in real and in virtual time.

client = await HttpClient.open(dialer, "10.0.0.5:8008", name="ocs1", clock=clock, deadline_s=..., user="admin")
answer = await client.request("GET", "/api/data/optical-switch:cross-connects", deadline_s=loop.time() + 2)
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from hwd_drivers.codecs.http import Headers, HttpRequest, HttpResponse, basic
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import DeadlineError, LinkError, ProtocolError
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.transports.http_link import HttpExchange, HttpLink
from hwd_drivers.transports.link import connect
from hwd_drivers.transports.mask import WHOLE_WORD_CHARACTERS, Mask
from hwd_drivers.transports.masked_dialer import mask_of

COOKIES_MAX: Final = 64
"""Most cookies of a device that are stored; the oldest is dropped."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """A complete answer.

    Times are `Clock.monotonic_ns`: just before the first byte of the request was sent, and when the last of the answer
    came.
    """

    status: int
    headers: Headers
    body: bytes
    sent_ns: int
    received_ns: int

    def header(self, name: str) -> str:
        """Values of all headers of this name, joined by commas; empty where there is none."""
        return ", ".join(value for each, value in self.headers if each == name)


class HttpClient:
    """A session with a device that speaks HTTP/1.1, over one connection.

    Its loss ends the session and fails all requests.

    A device may announce in an answer that it closes afterwards, as small web servers do each time. That does not end
    the session: the next request is sent on a new connection. Otherwise nothing is ever sent twice. Requests are sent
    one after the other. A deadline that passes during a request ends the session, since answers have no tags. Cookies
    that the device sets are sent back; user and password go with every request.
    """

    def __init__(
        self, dial: Callable[["HttpClient", float], Awaitable[HttpLink]], *, name: str, authorization: str | None
    ) -> None:
        self.cookies: dict[str, str] = {}
        self._dial = dial
        self._name = name
        self._authorization = authorization
        self._links: list[HttpLink] = []
        self._dialling = asyncio.Lock()
        self._mask = Mask()
        self._dead: LinkError | ProtocolError | None = None
        self._lost: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

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
        """Connect to the device.

        Raises LinkError where the device does not accept, DeadlineError after the deadline, ConfigError for an invalid
        address.
        """
        host = address.rpartition("/")[2] if address.startswith("unix:") else address.removeprefix("mem:")

        def dial(client: HttpClient, deadline_s: float) -> Awaitable[HttpLink]:
            def make() -> HttpLink:
                return HttpLink(
                    name=name,
                    host=host or "device",
                    clock=clock,
                    headers=client._headers,
                    answered=client._keep_cookies,
                )

            return connect(dialer, make, address, name=name, deadline_s=deadline_s)

        client = cls(dial, name=name, authorization=None if user is None else basic(user, password or ""))
        client._mask = mask_of(dialer)
        await client._link(deadline_s)
        return client

    @property
    def garbled(self) -> int:
        """Number of received messages that could not be parsed."""
        return sum(link.garbled for link in self._links)

    @property
    def late(self) -> int:
        """Number of answers that came after their request was abandoned."""
        return sum(link.late for link in self._links)

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

        `deadline_s` is a time of `loop.time()`; nothing is sent after it. `on_sent` is called with `Clock.monotonic_ns`
        just before the first byte. Raises DeadlineError, LinkError when the connection is or gets lost, ProtocolError
        when received bytes could not be parsed.
        """
        request = HttpRequest(method=method, path=path, headers=tuple((headers or {}).items()), body=body)
        while True:
            link = await self._link(deadline_s, str(request))
            exchange = HttpExchange(request, on_sent)
            try:
                response = await link.exchange(exchange, deadline_s)
            except LinkError:
                if link.announced and not exchange.sent and self._dead is None:
                    continue
                raise
            return HttpAnswer(
                status=response.status,
                headers=response.headers,
                body=response.body,
                sent_ns=exchange.sent_ns,
                received_ns=exchange.received_ns,
            )

    def read(self, answer: HttpAnswer, reader: Callable[[bytes], T]) -> T:
        """The result of `reader` for the body. Its ProtocolError ends the session, as bytes that are not HTTP do."""
        try:
            return reader(answer.body)
        except ProtocolError as error:
            raise self.distrust(answer, error) from error

    def distrust(self, answer: HttpAnswer, error: ProtocolError) -> ProtocolError:
        """End the session because of a complete answer that makes no sense.

        Returns the error to raise, with the device's name.
        """
        found = self._links[-1].distrust(answer.body, error)
        self._end(found)
        return found

    async def lost(self) -> Exception:
        """Wait until the session ends; returns the cause."""
        return await asyncio.shield(self._lost)

    async def close(self) -> None:
        """End the session; safe to call any number of times."""
        self._end(LinkError(f"{self._name}: we closed the connection"))
        for link in self._links:
            await link.close()

    def _end(self, cause: LinkError | ProtocolError) -> None:
        """End the session; only the first cause counts."""
        if self._dead is None:
            self._dead = cause
            self._lost.set_result(cause)

    async def _link(self, deadline_s: float, what: str = "connecting") -> HttpLink:
        """The present connection; a new one where the device has announced the end of the last."""
        if (link := self._present(what)) is not None:
            return link
        try:
            async with asyncio.timeout_at(deadline_s), self._dialling:
                if (link := self._present(what)) is not None:
                    return link
                link = await self._dial(self, deadline_s)
        except TimeoutError:
            raise DeadlineError(f"{self._name}: {what}: not sent in time: no connection yet. Allow more time") from None
        except LinkError as error:
            self._end(error)
            raise
        link.garbled, link.late = self.garbled, self.late
        before, self._links = self._links, [link]
        link.when_lost(functools.partial(self._link_lost, link))
        for each in before:
            each.cut("the device announced its end")  # it no longer reads what it has not read by then
        if self._dead is not None:
            await link.close()
        return self._present(what) or link

    def _present(self, what: str) -> HttpLink | None:
        """The connection if one is open. Raises the cause where the session is over."""
        if self._dead is not None:
            error = type(self._dead)(f"{self._dead} (in {what})")
            error.__cause__ = self._dead
            raise error
        return self._links[-1] if self._links and not self._links[-1].announced else None

    def _link_lost(self, link: HttpLink, cause: LinkError | ProtocolError) -> None:
        if not link.announced:
            self._end(cause)

    def _headers(self) -> dict[str, str]:
        headers = {} if self._authorization is None else {"authorization": self._authorization}
        if self.cookies:
            headers["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return headers

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
                if len(text) >= WHOLE_WORD_CHARACTERS:  # a session; shorter ones are words such as `true`
                    self._mask.add(text)
                if len(self.cookies) > COOKIES_MAX:
                    del self.cookies[next(iter(self.cookies))]
