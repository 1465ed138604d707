"""HttpServer: uvicorn inside the daemon's loop. It leaves signals to the daemon, and open event streams do not hold up its end."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Generator

import uvicorn
from fastapi import FastAPI
from typing_extensions import override

from hwd_drivers.kit.errors import ConfigError

DRAIN_S = 2
"""For answers that are being written when the daemon ends; what takes longer is cancelled."""


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

    def __init__(self, app: FastAPI, sock: socket.socket, *, before_stop: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            http="h11",
            server_header=False,
            timeout_graceful_shutdown=DRAIN_S,
        )
        self._server = _Server(config)
        self._sock = sock
        self._before_stop = before_stop
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Return the URL when connections are accepted."""
        self._task = asyncio.create_task(self._server.serve([self._sock]), name="hwd:http/server")
        url = url_of(self._sock)
        up = asyncio.create_task(self._server.up.wait(), name="hwd:http/up")
        try:
            await asyncio.wait([self._task, up], return_when=asyncio.FIRST_COMPLETED)
        finally:
            up.cancel()
        if self._task.done():
            self._task.result()
        return url

    async def stop(self) -> None:
        """Accept no more, end the streams, let answers be written, then cut what is left."""
        if self._task is None:
            self._sock.close()
            return
        self._before_stop()
        self._server.should_exit = True
        await self._task


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises ConfigError where the address cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        made = socket.create_server((host, port), family=family, backlog=128)
        # Named as TCP, or asyncio leaves Nagle's algorithm on and each answer waits 40 ms for a delayed acknowledgement.
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
