"""The HTTP connection to a daemon: one request and its answer, and the event stream over lost connections."""

import asyncio
import math
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2

from hwd.client import event_stream
from hwd.client.event_stream import Event, Lines, Listening
from hwd.client.find import Whereabouts
from hwd.client.problem import raise_for_problem
from hwd.model.bodies import Body
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import DeadlineError, HwdError, LinkError, ProtocolError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_json, to_json

T = TypeVar("T")

ANSWER_S = 30.0
"""For calls that drive no switch; the slowest is a read of every switch."""
CONNECT_S = 5.0
API = "/api/v1/"
JSON = {"Content-Type": "application/json"}
BYTES = {"Content-Type": "application/octet-stream"}
Query = str | int | Sequence[str] | None
"""A value in a query."""


class Connection:
    """Belongs to one event loop; a forked process has one of its own. A daemon that was found in the run directory is
    looked up again where nothing listens at its address.

    `within_s` limits every answer, whatever its call allows.
    """

    def __init__(self, daemon: str | Whereabouts, *, token: str | None = None, within_s: float = math.inf) -> None:
        self._daemon = daemon if isinstance(daemon, Whereabouts) else Whereabouts(daemon)
        self._token = token
        self._within_s = within_s
        self._of_process = {os.getpid(): self._client()}

    @property
    def url(self) -> str:
        return self._daemon.url

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(
        self,
        method: str,
        answer: type[T],
        *path: str,
        body: Body | Mapping[str, Json] | bytes | None = None,
        within_s: float = ANSWER_S,
        **query: Query,
    ) -> T:
        """Send a request for a path below `API`, by its parts; `answer` is the type of its answer, which must come
        `within_s`. A `body` of bytes is a file. What is None in `query` is left out.

        Raises HwdError: the daemon's error, LinkError where it cannot be reached, DeadlineError where it is late, and
        ProtocolError where the answer is not one to this call.
        """
        within_s, where = min(within_s, self._within_s), _path(path)
        request: dict[str, Any] = {"timeout": httpx2.Timeout(within_s, connect=min(CONNECT_S, within_s))}
        request["params"] = {name: value for name, value in query.items() if value is not None} or None
        if body is not None:
            request["headers"] = BYTES if isinstance(body, bytes) else JSON
            request["content"] = body if isinstance(body, bytes) else to_json(body)
        try:
            response = await self._send(method, where, **request)
        except httpx2.ConnectTimeout as error:
            raise unreachable(self.url, error) from error
        except httpx2.TimeoutException as error:
            raise DeadlineError(f"daemon {self.url}: no answer to {method} {where} within {within_s:g} s") from error
        except httpx2.TransportError as error:
            raise unreachable(self.url, error) from error
        raise_for_problem(response)
        try:
            return from_json(response.content, answer)
        except ValueError as error:  # no JSON, no UTF-8, or another answer
            raise ProtocolError(
                f"{response.request.url}: cannot read the answer to {method} {where}: {error!r}. "
                "Where daemon and client are of different versions, install one version of hwd on both sides"
            ) from error

    async def get(self, answer: type[T], *path: str, **query: Query) -> T:
        return await self.ask("GET", answer, *path, body=None, within_s=ANSWER_S, **query)

    async def post(
        self,
        answer: type[T],
        *path: str,
        body: Body | Mapping[str, Json] | bytes | None = None,
        within_s: float = ANSWER_S,
        **query: Query,
    ) -> T:
        return await self.ask("POST", answer, *path, body=body, within_s=within_s, **query)

    async def lines(self, *path: str, body: Body) -> AsyncGenerator[bytes, None]:
        """Send a POST request whose answer comes line by line, until it is closed; empty lines are signs of life.

        Raises as `ask` does, LinkError where the daemon goes away meanwhile.
        """
        timeout = httpx2.Timeout(ANSWER_S, connect=CONNECT_S)
        sent = {"content": to_json(body), "headers": JSON, "timeout": timeout}
        try:
            async with self._answered("POST", _path(path), **sent) as lines:
                async for line in lines:
                    if line:
                        yield line
        except httpx2.TransportError as error:
            raise unreachable(self.url, error) from error

    async def listen(self, listening: Listening) -> AsyncGenerator[Event, None]:
        """Events until it is closed. Raises LinkError when a lost daemon does not come back."""
        while True:
            cause: BaseException | None = None
            try:
                async with aclosing(self._stream(listening)) as found:
                    async for event in found:
                        yield listening.take(event)
            except (httpx2.TransportError, LinkError) as error:
                cause = _root(error)
            await asyncio.sleep(listening.lost(self.url, cause))
            self._look_again()

    async def _stream(self, listening: Listening) -> AsyncGenerator[Event, None]:
        reader = Lines(listening.beat)
        asked = {"params": listening.params, "headers": listening.headers, "timeout": event_stream.TIMEOUT}
        async with self._answered("GET", event_stream.PATH, **asked) as lines:
            async for line in lines:
                if (event := reader.feed(line.decode(errors="replace"))) is not None:
                    yield event

    @asynccontextmanager
    async def _answered(self, method: str, path: str, **request: Any) -> AsyncGenerator[AsyncGenerator[bytes, None]]:
        """The lines of an answer while it comes."""
        async with self._http.stream(method, path, **request) as response:
            if not response.is_success:
                await response.aread()
            raise_for_problem(response)
            async with aclosing(_lines_of(response)) as lines:
                yield lines

    async def _send(self, method: str, path: str, **request: Any) -> httpx2.Response:
        try:
            return await self._http.request(method, path, **request)
        # nothing was sent; a call that changes something is never sent twice
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            if not self._look_again():
                raise
            return await self._http.request(method, path, **request)

    @property
    def _http(self) -> httpx2.AsyncClient:
        """The client of this process. That of a process from which it was forked is let be: they share sockets."""
        process = os.getpid()
        if process not in self._of_process:
            self._of_process[process] = self._client()
        return self._of_process[process]

    def _client(self) -> httpx2.AsyncClient:
        # No proxy and no .netrc: a daemon is near, and its token must reach nobody else. Loading certificates takes
        # 20 ms, and only https needs them.
        tls = self.url.startswith("https://")
        return httpx2.AsyncClient(base_url=self.url, headers=self._authorization(), trust_env=False, verify=tls)

    def _authorization(self) -> dict[str, str]:
        token = self._token or self._daemon.token
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _look_again(self) -> bool:
        moved = self._daemon.look_again()
        if moved:
            self._http.base_url = httpx2.URL(self.url)
            self._http.headers.update(self._authorization())
        return moved


async def _lines_of(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    """The lines of an answer while it comes; one that is cut off is left out. The iterator over lines of the HTTP
    library cannot be closed, and would leave a task behind.
    """
    parts: list[bytes] = []
    async with aclosing(response.aiter_bytes()) as chunks:
        async for chunk in chunks:
            *lines, last = chunk.split(b"\n")
            for line in lines:
                yield b"".join((*parts, line))
                parts.clear()
            parts.append(last)


def _path(parts: Sequence[str]) -> str:
    """Each part is quoted, whatever characters an id in it has."""
    return API + "/".join([quote(part, safe="") or "%20" for part in parts])


def unreachable(url: str, error: Exception) -> HwdError:
    """The error for a daemon that does not answer.

    Some messages of the HTTP library end in a full stop, which is removed, since more text follows.
    """
    found = reason_of(_root(error)).rstrip(". ")
    was_there = isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError | httpx2.WriteError)
    how = "the connection ended before its answer came" if was_there else "cannot be reached"
    return LinkError(
        f"daemon {url}: {how}: {found}. `hwd serve TESTBED` starts one, "
        "which first settles the reconfigurations that a killed one left open in its journal; "
        "--url or HWD_URL names another"
    )


def _root(error: BaseException) -> BaseException:
    """The system's error that an error of the HTTP library was raised from, which alone says why; else the error."""
    found = error
    while isinstance(cause := found.__cause__ or next(iter(found.args), None), BaseException):
        found = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else cause
    return found if isinstance(found, OSError) else error
