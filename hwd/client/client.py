"""Client: one daemon over HTTP, with blocking calls. It raises the errors that the daemon raised.

with Client.find() as hwd:
    plan = hwd.plan(what="pairs rail=0")
    hwd.apply_hash(plan.hash)
    for state in hwd.follow(hwd.start_run(text=text, file="smoke.yaml").id):
        print(state)
"""

import os
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import httpx
from typing_extensions import override

from hwd.client import event_stream
from hwd.client.call import Asker, Call, T
from hwd.client.call_methods import CallMethods
from hwd.client.event_stream import Event, Lines, Listening
from hwd.client.find import Whereabouts, tls
from hwd.client.problem import raise_for_problem
from hwd.client.run_follower import KINDS, RunFollower
from hwd_drivers.core.errors import LinkError

if TYPE_CHECKING:
    from hwd.client.timelines import RunResult
    from hwd.model.run import RunStatus


class Client(CallMethods, Asker):
    """Close it, or use it as a context. Every call raises HwdError: LinkError when the daemon cannot be reached."""

    def __init__(self, daemon: str | Whereabouts, *, token: str | None = None) -> None:
        self._daemon = daemon if isinstance(daemon, Whereabouts) else Whereabouts(daemon)
        self._token = token
        # No proxy and no .netrc: a daemon is near, and its token must reach nobody else.
        self._http = httpx.Client(
            base_url=self.url, headers=self._authorization(), trust_env=False, verify=tls(self.url)
        )

    @classmethod
    def find(
        cls, url: str | None = None, environment: Mapping[str, str] = os.environ, *, testbed: str | None = None
    ) -> Self:
        """The daemon at `url`, else at HWD_URL, else the one of this user on this machine; `testbed` selects among
        several.

        The token is HWD_TOKEN, the content of the file HWD_TOKEN_FILE, or that in the daemon's own token file. A daemon
        that was found in the run directory is looked up again after a restart on another port.
        """
        return cls(Whereabouts.find(url, environment, testbed=testbed))

    @property
    def url(self) -> str:
        return self._daemon.url

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @override
    def ask(self, call: Call[T]) -> T:
        try:
            return call.answer(self._send(call))
        except httpx.TransportError as error:
            raise call.failed(self.url, error) from error

    @contextmanager
    def events(
        self, *, after: str | None = None, kinds: Iterable[str] = (), say: Callable[[str], None] | None = None
    ) -> Generator[Generator[Event]]:
        """Events from now on, or after an id; reconnects when the connection is lost.

        with client.events(kinds=["run."]) as events:
            for event in events: ...

        `say` gets a line when the daemon stops answering, and one when it answers again. Raises LinkError when it does
        not come back.
        """
        closed = threading.Event()
        found = self._listen(Listening(after=after, kinds=kinds, say=say), closed)
        try:
            yield found
        finally:
            closed.set()
            found.close()

    def follow(self, run: str) -> "Generator[RunStatus]":
        """The state of a run, now and at every change, until it has ended. Survives lost connections and restarts of
        the daemon.
        """
        last = self.documents().last
        following = RunFollower(self.run_state(run))
        yield following.status
        if following.ended():
            return
        with self.events(after=last, kinds=KINDS) as found:
            for event in found:
                if following.take(following.state_from(event) if event.document else self.run_state(run)):
                    yield following.status
                if following.ended():
                    return

    def result(self, run: str) -> "RunResult":
        """The measurements of a run: its timelines, and the table of their stages."""
        from hwd.client.timelines import RunResult

        return RunResult.of(self.run(run), self.run_documents(run))

    def _send(self, call: Call[T]) -> httpx.Response:
        try:
            return self._request(call)
        # nothing was sent; a call that changes something is never sent twice
        except (httpx.ConnectError, httpx.ConnectTimeout):
            if not self._look_again():
                raise
            return self._request(call)

    def _request(self, call: Call[T]) -> httpx.Response:
        return self._http.request(call.method, call.path, json=call.body, params=call.query, timeout=call.timeout)

    def _authorization(self) -> dict[str, str]:
        token = self._token or self._daemon.token
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _look_again(self) -> bool:
        moved = self._daemon.look_again()
        if moved:
            self._http.base_url = httpx.URL(self.url)
            self._http.headers.update(self._authorization())
        return moved

    def _listen(self, listening: Listening, closed: threading.Event) -> Generator[Event, None, None]:
        while not closed.is_set():
            cause: Exception | None = None
            try:
                for event in self._connection(listening):
                    yield listening.take(event)
                    if closed.is_set():
                        return
            except (httpx.TransportError, LinkError) as error:
                cause = error
            closed.wait(listening.lost(self.url, cause))
            self._look_again()

    def _connection(self, listening: Listening) -> Generator[Event, None, None]:
        with self._http.stream(
            "GET", event_stream.PATH, params=listening.params, headers=listening.headers, timeout=event_stream.TIMEOUT
        ) as response:
            if not response.is_success:
                response.read()
            raise_for_problem(response)
            lines = Lines()
            for line in response.iter_lines():
                if (event := lines.feed(line)) is not None:
                    yield event
