"""The HTTP connection to a daemon: one request and its answer, and the event stream over lost connections."""

import asyncio
import math
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

import httpx2

from hwd.client import event_stream
from hwd.client.event_stream import Event, Lines, Listening
from hwd.client.find import Whereabouts, tls
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

    async def get(self, path: str, answer: type[T], *, query: Mapping[str, str | Sequence[str]] | None = None) -> T:
        """Send a GET request for a path below `API`; `answer` is the type of its answer.

        Raises HwdError: the daemon's error, LinkError where it cannot be reached, DeadlineError where it is late, and
        ProtocolError where the answer is not one to this call.
        """
        return await self._ask("GET", API + path, answer, ANSWER_S, params=query)

    async def post(
        self,
        path: str,
        answer: type[T],
        body: Body | Mapping[str, Json] | None = None,
        *,
        within_s: float = ANSWER_S,
    ) -> T:
        """Send a POST request, whose answer must come `within_s`. Raises as `get` does."""
        sent = {} if body is None else {"content": to_json(body), "headers": JSON}
        return await self._ask("POST", API + path, answer, within_s, **sent)

    async def upload(self, path: str, answer: type[T], data: bytes, *, query: Mapping[str, str], within_s: float) -> T:
        """Send a POST request whose body is a file. Raises as `get` does."""
        return await self._ask("POST", API + path, answer, within_s, params=query, content=data, headers=BYTES)

    async def delete(self, path: str, answer: type[T]) -> T:
        """Send a DELETE request. Raises as `get` does."""
        return await self._ask("DELETE", API + path, answer, ANSWER_S)

    async def lines(self, path: str, body: Body) -> AsyncGenerator[bytes, None]:
        """Send a POST request whose answer comes line by line, until it is closed; empty lines are signs of life.

        Raises as `get` does, LinkError where the daemon goes away meanwhile.
        """
        timeout = httpx2.Timeout(ANSWER_S, connect=CONNECT_S)
        try:
            async with self._http.stream(
                "POST", API + path, content=to_json(body), headers=JSON, timeout=timeout
            ) as response:
                if not response.is_success:
                    await response.aread()
                raise_for_problem(response)
                async with aclosing(_lines_of(response)) as lines:
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
        async with self._http.stream(
            "GET", event_stream.PATH, params=listening.params, headers=listening.headers, timeout=event_stream.TIMEOUT
        ) as response:
            if not response.is_success:
                await response.aread()
            raise_for_problem(response)
            reader = Lines(listening.beat)
            async with aclosing(_lines_of(response)) as lines:
                async for line in lines:
                    if (event := reader.feed(line.decode(errors="replace"))) is not None:
                        yield event

    async def _ask(self, method: str, path: str, answer: type[T], within_s: float, **request: Any) -> T:
        within_s = min(within_s, self._within_s)
        timeout = httpx2.Timeout(within_s, connect=min(CONNECT_S, within_s))
        try:
            response = await self._send(method, path, timeout=timeout, **request)
        except httpx2.ConnectTimeout as error:
            raise unreachable(self.url, error) from error
        except httpx2.TimeoutException as error:
            raise DeadlineError(f"daemon {self.url}: no answer to {method} {path} within {within_s:g} s") from error
        except httpx2.TransportError as error:
            raise unreachable(self.url, error) from error
        raise_for_problem(response)
        try:
            return from_json(response.content, answer)
        except ValueError as error:  # no JSON, no UTF-8, or another answer
            raise ProtocolError(
                f"{response.request.url}: cannot read the answer to {method} {path}: {error!r}. "
                "Where daemon and client are of different versions, install one version of hwd on both sides"
            ) from error

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
        # No proxy and no .netrc: a daemon is near, and its token must reach nobody else.
        return httpx2.AsyncClient(
            base_url=self.url, headers=self._authorization(), trust_env=False, verify=tls(self.url)
        )

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
