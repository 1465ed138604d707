"""HttpServer: uvicorn in the daemon's event loop, without its signal handlers, on connections accepted here.

Open event streams do not delay its end.
"""

import asyncio
import contextlib
import logging
import resource
import socket
from collections.abc import Callable, Generator

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from typing_extensions import override

from hwd.model.limit import Limit, Reached
from hwd.web.connection import HEAD_BYTES_MAX, IDLE_S, Connection
from hwd.web.problem import problem_of_kind, problem_response
from hwd_drivers.core.errors import ConfigError, LinkError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.transports.accept_loop import AcceptLoop

DRAIN_S = 2
"""The time limit for answers in progress when the daemon stops; then they are cancelled."""
CONNECTIONS_MAX = 256
"""At once. Event streams, pages and clients of one rack are some dozens."""
SHARE = 4
"""HTTP may have this fraction of the process's descriptors: switches, broker, records and journal need the rest."""
BUSY_MAX = 8
"""The most connections beyond the limit that get an answer; the kernel refuses the rest."""

SAY_EVERY_S = 60.0
"""The least time between two log lines that descriptors have run out: a client can cause that again and again."""

log = logging.getLogger(__name__)


class HttpServer:
    """Serves an app on a socket that `listen` made. Start it once.

    ```
    sock = listen("127.0.0.1", 0)
    server = HttpServer(app, sock, before_stop=events.stop)
    url = await server.start()
    ...
    await server.stop()
    ```
    """

    def __init__(
        self,
        app: ASGIApp,
        sock: socket.socket,
        *,
        before_stop: Callable[[], None],
        reached: Reached = lambda limit, detail: None,
        most: int | None = None,
        time_scale: float = 1.0,
    ) -> None:
        """`most`: connections at once; None: by the descriptors of the process. `time_scale`: factor on time limits."""
        self._config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,  # who asks is who connects
            http="h11",
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
            timeout_keep_alive=IDLE_S,
            server_header=False,
            timeout_graceful_shutdown=DRAIN_S,
        )
        self._server = _Server(self._config)
        self._sock = sock
        self._before_stop = before_stop
        self._reached = reached
        self._most = most_connections() if most is None else most
        self._time_scale = time_scale
        self._open: dict[Connection, None] = {}
        self._starved_at_s: float | None = None
        self._said_at_s = float("-inf")
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepted: dict[Connection, tuple[socket.socket, asyncio.Task[None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._accepting: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Return the URL when connections are accepted."""
        self._task = asyncio.create_task(self._server.serve([]), name="hwd:http/server")
        url = url_of(self._sock)
        up = asyncio.create_task(self._server.up.wait(), name="hwd:http/up")
        try:
            await asyncio.wait([self._task, up], return_when=asyncio.FIRST_COMPLETED)
        finally:
            up.cancel()
        if self._task.done():
            self._task.result()
        loop = AcceptLoop(self._sock, take=self._take, starved=self._starved)
        self._accepting = asyncio.create_task(loop.run(), name="hwd:http/accept")
        return url

    async def stop(self) -> None:
        """Accept no more, end the streams, let answers be written, then cut what is left."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        self._sock.close()
        for connection, task in self._accepted.values():
            task.cancel()
            connection.close()
        if self._task is None:
            return
        self._before_stop()
        self._server.should_exit = True
        await self._task

    # --- connections

    def _take(self, connection: socket.socket) -> None:
        if self._starved_at_s is not None:
            if self._starved_at_s == self._said_at_s:
                log.info("http: connections are accepted again, after %.1f s", self._loop_s() - self._starved_at_s)
            self._starved_at_s = None
        busy = False
        if len(self._open) >= self._most:
            self._reached(Limit.HTTP_CONNECTIONS, f"{len(self._open) + 1}, at most {self._most}")
            while not busy and len(self._open) >= self._most:
                busy = not self._cut_oldest()
            if len(self._open) >= self._most + BUSY_MAX:
                connection.close()
                return
        made = Connection(
            self._config, self._server.server_state, reached=self._reached, lost=self._lost, scale=self._time_scale
        )
        if busy:
            made.app = _say_busy
        self._open[made] = None
        task = asyncio.create_task(self._connect(made, connection), name="hwd:http/connection")
        self._accepted[made] = connection, task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, made: Connection, connection: socket.socket) -> None:
        del self._accepted[made]
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: made, connection)
        except OSError as error:  # it is gone already
            log.debug("http: a connection that nobody holds any more: %s", reason_of(error))
            connection.close()
            self._open.pop(made, None)

    def _lost(self, connection: Connection) -> None:
        self._open.pop(connection, None)

    def _starved(self, error: OSError) -> None:
        self._reached(Limit.DESCRIPTORS, f"HTTP: {error.strerror}")
        if self._starved_at_s is None:
            self._starved_at_s = self._loop_s()
            if self._starved_at_s - self._said_at_s >= SAY_EVERY_S:
                self._said_at_s = self._starved_at_s
                log.warning(
                    "http: no connection can be accepted: %s (%d are open). Those that wait make room; "
                    "raise the limit (`ulimit -n`, LimitNOFILE=) if it is too low",
                    error.strerror,
                    len(self._open),
                )
        self._cut_oldest()

    def _cut_oldest(self) -> bool:
        """Close the oldest connection that has no request in progress; False where all have one."""
        for one in self._open:
            if (accepted := self._accepted.pop(one, None)) is not None:  # a burst: its request was not read yet
                connection, task = accepted
                task.cancel()
                connection.close()
            elif one.waits and one.transport is not None:
                one.cut()
            else:
                continue
            del self._open[one]
            return True
        return False

    def _loop_s(self) -> float:
        return asyncio.get_running_loop().time()


def most_connections() -> int:
    """The most connections at once, by the present limit of descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS_MAX if soft == resource.RLIM_INFINITY else max(1, min(CONNECTIONS_MAX, soft // SHARE))


async def _say_busy(scope: Scope, receive: Receive, send: Send) -> None:
    """The application for connections beyond the limit, when all others have a request in progress."""
    busy = "the daemon has as many connections as it takes at once, and all are in use. Try again soon"
    problem = problem_of_kind(LinkError, 503, busy)
    await problem_response(problem, {"Retry-After": "1", "Connection": "close"})(scope, receive, send)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises ConfigError where the address cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        made = socket.create_server((host, port), family=family, backlog=128)
        # Named as TCP, or asyncio leaves Nagle's algorithm on and each answer waits 40 ms for a delayed ACK.
        return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=made.detach())
    except OSError as error:
        raise ConfigError(f"http {host}:{port}: cannot listen: {error.strerror or error}") from error


def url_of(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """SIGTERM and SIGINT are the daemon's."""
        yield
