"""HTTP/1.1 without I/O: requests and answers, from and to bytes, with limits; h11 does the grammar (RFC 9112).

client = ClientWire(host="10.0.0.5")
transport.write(client.encode(HttpRequest(method="GET", path="/rest/")))
for response in client.feed(data): ...
"""

import base64
import functools
import re
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

import h11

from hwd_drivers.codecs.tl1_words import shorten
from hwd_drivers.core.errors import BugError, ProtocolError

HEAD_LIMIT_BYTES: Final = 64 << 10
"""Largest header section of a message, and largest header of a chunk."""
BODY_LIMIT_BYTES: Final = 4 << 20
"""Largest body: all crossconnects of a switch of 512 ports with their details make 150 kB."""
WAITING_LIMIT_BYTES: Final = HEAD_LIMIT_BYTES + BODY_LIMIT_BYTES
"""Most bytes of requests that wait for an earlier answer; the excess is detected within a sixteenth more."""

Headers = tuple[tuple[str, str], ...]
"""Names in lower case with their values, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """An HTTP request; `path` is the target as in the request line: percent-encoded, with its query.

    `repr` hides headers: they may hold a password.
    """

    method: str
    path: str
    headers: Headers = field(default=(), repr=False)
    body: bytes = b""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    def header(self, name: str) -> str:
        """Values of all headers of this name, joined by commas; empty where there is none."""
        return _header(self.headers, name)

    @property
    def basic(self) -> tuple[str, str] | None:
        """User and password of an `Authorization: Basic` header; None where there is no readable one."""
        scheme, _, token = self.header("authorization").partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            user, colon, password = base64.b64decode(token.strip(), validate=True).decode().partition(":")
        except ValueError:  # not base64, or not text
            return None
        return (user, password) if colon else None

    @property
    def cookies(self) -> dict[str, str]:
        pairs = (part.strip().partition("=") for part in self.header("cookie").replace(",", ";").split(";"))
        return {name: value for name, equals, value in pairs if equals}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """An answer; `delay_s` is for twins: the time between the request and its sending."""

    status: int
    headers: Headers = ()
    body: bytes = b""
    delay_s: float = 0.0

    def header(self, name: str) -> str:
        """Values of all headers of this name, joined by commas; empty where there is none."""
        return _header(self.headers, name)


def basic(user: str, password: str) -> str:
    """The value of an `Authorization` header."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def shorten_body(body: bytes) -> str:
    """The beginning of a body as text, for messages."""
    return shorten(body.decode("utf-8", "backslashreplace"))


def phrase(status: int) -> str:
    """`404 Not Found`"""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


class ClientWire:
    """The client's side of one connection: one request at a time. After a ProtocolError it must not be used again."""

    def __init__(self, *, host: str, body_limit_bytes: int = BODY_LIMIT_BYTES) -> None:
        self._host = host
        self._connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT_BYTES)
        self._body = _Body(body_limit_bytes)
        self._head: h11.Response | None = None

    @property
    def reusable(self) -> bool:
        """Whether another request may follow."""
        return self._connection.our_state is h11.IDLE

    def encode(self, request: HttpRequest) -> bytes:
        """Raises BugError for a request that HTTP cannot carry, and for one before the last was answered."""
        headers = [("host", self._host), *request.headers]
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            headers.append(("content-length", str(len(request.body))))
        try:
            coded = [(name.encode(), value.encode("latin-1")) for name, value in headers]  # as cookies were decoded
            head = self._connection.send(h11.Request(method=request.method, target=request.path, headers=coded))
            body = self._connection.send(h11.Data(data=request.body)) if request.body else b""
            end = self._connection.send(h11.EndOfMessage())
        except (h11.LocalProtocolError, UnicodeEncodeError) as error:
            raise BugError(f"HTTP request {request}: {error}") from error
        return (head or b"") + (body or b"") + (end or b"")

    def feed(self, data: bytes) -> list[HttpResponse]:
        """The answers that `data` completes, at most one; empty `data` is the end of the stream."""
        if not data and self._connection.their_state is h11.IDLE:
            return []
        if data and self._connection.our_state is h11.IDLE:
            raise ProtocolError("HTTP: bytes without a request")
        responses: list[HttpResponse] = []
        try:
            self._connection.receive_data(data)
            while (response := self._next()) is not None:
                responses.append(response)
        except h11.RemoteProtocolError as error:
            raise ProtocolError(f"HTTP answer: {error}") from error
        if self._connection.our_state is h11.DONE and self._connection.their_state is h11.DONE:
            if self._connection.trailing_data[0]:
                raise ProtocolError("HTTP: more bytes after the answer")
            self._connection.start_next_cycle()
        return responses

    def _next(self) -> HttpResponse | None:
        while True:
            if self._connection.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED):
                return None
            event = self._connection.next_event()
            match event:
                case h11.Response():
                    self._head = event
                case h11.Data(data=data):
                    self._body.take(bytes(data))
                case h11.EndOfMessage() if self._head is not None:
                    head, self._head = self._head, None
                    return HttpResponse(
                        status=head.status_code, headers=_texts(head.headers.raw_items()), body=self._body.done()
                    )
                case h11.InformationalResponse():
                    continue
                case h11.NEED_DATA | h11.PAUSED | h11.ConnectionClosed() | _:
                    return None


class ServerWire:
    """The server's side of one connection: `feed`, then `next_request` until it is None.

    Each request is answered before the next is returned.
    """

    def __init__(self, *, body_limit_bytes: int = BODY_LIMIT_BYTES) -> None:
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT_BYTES)
        self._body = _Body(body_limit_bytes)
        self._head: h11.Request | None = None
        self._unread_bytes = 0  # upper bound of the received bytes
        self._recount_at = WAITING_LIMIT_BYTES

    @property
    def over(self) -> bool:
        """Whether no more requests can come: one side has announced the close, or a request could not be parsed."""
        return self._connection.our_state in (h11.MUST_CLOSE, h11.CLOSED, h11.ERROR)

    @property
    def wants_go_ahead(self) -> bool:
        """Whether the client waits for `100 Continue` before it sends its body."""
        return self._connection.they_are_waiting_for_100_continue

    def go_ahead(self) -> bytes:
        return self._connection.send(h11.InformationalResponse(status_code=100, headers=[])) or b""

    def feed(self, data: bytes) -> None:
        """Take received bytes; empty `data` is the end of the stream.

        Raises ProtocolError over the limits; `next_request` raises it for other errors.
        """
        try:
            self._connection.receive_data(data)
        except h11.RemoteProtocolError as error:
            raise ProtocolError(f"HTTP request: {error}") from error
        except RuntimeError as error:  # raised by h11 for bytes after the end of the stream
            raise BugError(f"HTTP request: {error}") from error
        self._unread_bytes += len(data)
        if self._unread_bytes > self._recount_at:  # counting copies them, and is done rarely
            self._unread_bytes = len(self._connection.trailing_data[0])
            self._recount_at = max(WAITING_LIMIT_BYTES, self._unread_bytes + WAITING_LIMIT_BYTES // 16)
            if self._unread_bytes > WAITING_LIMIT_BYTES:
                raise ProtocolError(f"HTTP request: more than {WAITING_LIMIT_BYTES} bytes before an answer")

    def next_request(self) -> HttpRequest | None:
        """Raises ProtocolError for an invalid or too large request.

        Answer that with 400 by `encode` where `over` is not set, and close.
        """
        if self._connection.our_state is h11.DONE and self._connection.their_state is h11.DONE:
            self._connection.start_next_cycle()
        try:
            while self._connection.their_state in (h11.IDLE, h11.SEND_BODY):
                event = self._connection.next_event()
                match event:
                    case h11.Request():
                        self._head = event
                    case h11.Data(data=data):
                        self._body.take(bytes(data))
                    case h11.EndOfMessage() if self._head is not None:
                        return self._whole(self._head)
                    case h11.NEED_DATA:
                        self._unread_bytes = 0  # except for the beginning of a header
                        return None
                    case h11.PAUSED | h11.ConnectionClosed() | _:
                        return None
        except h11.RemoteProtocolError as error:
            raise ProtocolError(f"HTTP request: {error}") from error
        return None

    def encode(self, response: HttpResponse, *, wall_ns: int) -> bytes:
        """The bytes of the answer to the last request, or of an error where that could not be parsed."""
        bodiless = response.status in (204, 304) or response.status < 200
        headers = [("date", formatdate(wall_ns // 1_000_000_000, usegmt=True)), *response.headers]
        if not bodiless:
            headers.append(("content-length", str(len(response.body))))
        reason = phrase(response.status).partition(" ")[2]
        parts = [self._connection.send(h11.Response(status_code=response.status, headers=headers, reason=reason))]
        if response.body and not bodiless and not (self._head is not None and self._head.method == b"HEAD"):
            parts.append(self._connection.send(h11.Data(data=response.body)))
        parts.append(self._connection.send(h11.EndOfMessage()))
        return b"".join(part for part in parts if part)

    def _whole(self, head: h11.Request) -> HttpRequest:
        return HttpRequest(
            method=head.method.decode("ascii"),
            path=_origin_form(head.target.decode("ascii")),
            headers=_texts(head.headers.raw_items()),
            body=self._body.done(),
        )


class _Body:
    """A body of limited size."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._data = bytearray()

    def take(self, data: bytes) -> None:
        if len(self._data) + len(data) > self._limit_bytes:
            raise ProtocolError(f"HTTP: a body of over {self._limit_bytes} bytes")
        self._data += data

    def done(self) -> bytes:
        data = bytes(self._data)
        self._data.clear()
        return data


def _origin_form(target: str) -> str:
    """`/rest/x?y` of `http://10.0.0.5/rest/x?y`: a server must accept an absolute URI too (RFC 9112, 3.2.2)."""
    scheme, there, rest = target.partition("://")
    if not there or scheme.lower() not in ("http", "https"):
        return target
    authority = re.split("[/?]", rest, maxsplit=1)[0]
    path = rest[len(authority) :]
    return path if path.startswith("/") else f"/{path}"


def _header(headers: Headers, name: str) -> str:
    return ", ".join(value for each, value in headers if each == name)


def _texts(raw: list[tuple[bytes, bytes]]) -> Headers:
    return tuple((_name(name), value.decode("latin-1")) for name, value in raw)


@functools.lru_cache(maxsize=256)
def _name(name: bytes) -> str:
    return name.decode("latin-1").lower()
