"""AsyncClient: the calls of `Client` for coroutines.

async with AsyncClient.find() as hwd:
    await hwd.apply(what="ring hosts=h0,h1", ready_within_s=15)
    async for state in hwd.follow((await hwd.start_run(text=text, file="smoke.yaml")).id):
        print(state)
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Self

import httpx
from typing_extensions import override

from hwd.client import event_stream
from hwd.client.call import AsyncAsker, Call, T
from hwd.client.call_methods import CallMethods
from hwd.client.event_stream import Event, Lines, Listening
from hwd.client.find import Whereabouts, tls
from hwd.client.problem import raise_for_problem
from hwd.client.run_follower import KINDS, RunFollower
from hwd_drivers.core.errors import LinkError

if TYPE_CHECKING:
    from hwd.client.timelines import RunResult
    from hwd.model.run import RunStatus


class AsyncClient(CallMethods, AsyncAsker):
    """Belongs to one event loop: close it there, or use it as a context. Raises the same errors as `Client`."""

    def __init__(self, daemon: str | Whereabouts, *, token: str | None = None) -> None:
        self._daemon = daemon if isinstance(daemon, Whereabouts) else Whereabouts(daemon)
        self._token = token
        self._http = httpx.AsyncClient(
            base_url=self.url, headers=self._authorization(), trust_env=False, verify=tls(self.url)
        )

    @classmethod
    def find(
        cls, url: str | None = None, environment: Mapping[str, str] = os.environ, *, testbed: str | None = None
    ) -> Self:
        """As `Client.find`."""
        return cls(Whereabouts.find(url, environment, testbed=testbed))

    @property
    def url(self) -> str:
        return self._daemon.url

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    @override
    async def ask(self, call: Call[T]) -> T:
        try:
            return call.answer(await self._send(call))
        except httpx.TransportError as error:
            raise call.failed(self.url, error) from error

    @asynccontextmanager
    async def events(
        self, *, after: str | None = None, kinds: Iterable[str] = (), say: Callable[[str], None] | None = None
    ) -> AsyncGenerator[AsyncGenerator[Event, None]]:
        """As `Client.events`, with `async with` and `async for`."""
        async with aclosing(self._listen(Listening(after=after, kinds=kinds, say=say))) as found:
            yield found

    async def follow(self, run: str) -> "AsyncGenerator[RunStatus, None]":
        """As `Client.follow`, with `async for`."""
        last = (await self.documents()).last
        following = RunFollower(await self.run_state(run))
        yield following.status
        if following.ended():
            return
        async with self.events(after=last, kinds=KINDS) as found:
            async for event in found:
                if following.take(following.state_from(event) if event.document else await self.run_state(run)):
                    yield following.status
                if following.ended():
                    return

    async def result(self, run: str) -> "RunResult":
        """As `Client.result`."""
        from hwd.client.timelines import RunResult

        return RunResult.of(await self.run(run), await self.run_documents(run))

    async def _send(self, call: Call[T]) -> httpx.Response:
        try:
            return await self._request(call)
        # nothing was sent; a call that changes something is never sent twice
        except (httpx.ConnectError, httpx.ConnectTimeout):
            if not self._look_again():
                raise
            return await self._request(call)

    async def _request(self, call: Call[T]) -> httpx.Response:
        return await self._http.request(call.method, call.path, json=call.body, params=call.query, timeout=call.timeout)

    def _authorization(self) -> dict[str, str]:
        token = self._token or self._daemon.token
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _look_again(self) -> bool:
        moved = self._daemon.look_again()
        if moved:
            self._http.base_url = httpx.URL(self.url)
            self._http.headers.update(self._authorization())
        return moved

    async def _listen(self, listening: Listening) -> AsyncGenerator[Event, None]:
        while True:
            cause: Exception | None = None
            try:
                async with aclosing(self._connection(listening)) as found:
                    async for event in found:
                        yield listening.take(event)
            except (httpx.TransportError, LinkError) as error:
                cause = error
            await asyncio.sleep(listening.lost(self.url, cause))
            self._look_again()

    async def _connection(self, listening: Listening) -> AsyncGenerator[Event, None]:
        async with self._http.stream(
            "GET", event_stream.PATH, params=listening.params, headers=listening.headers, timeout=event_stream.TIMEOUT
        ) as response:
            if not response.is_success:
                await response.aread()
            raise_for_problem(response)
            lines = Lines()
            async for line in response.aiter_lines():
                if (event := lines.feed(line)) is not None:
                    yield event
