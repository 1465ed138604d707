"""SshWorkers: the threads for blocking calls of one SSH side, which end with it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

from hwd_drivers.core.offload import ThreadOffload

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class SshWorkers:
    """An Offload that can be closed without blocking the loop."""

    def __init__(self, count: int) -> None:
        self._offload = ThreadOffload(count)
        self._running: set[asyncio.Future[Any]] = set()
        self._closed = False

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """Return what `fn(*args)` returns.

        A cancelled caller stops waiting; a function that has started runs to its end.
        """
        return await asyncio.shield(self.start(fn, *args))

    def start(self, fn: Callable[[*Ts], T], *args: *Ts) -> "asyncio.Future[T]":
        """Run it, even if nobody waits for it. After `close` nothing is started: the future is cancelled."""
        if self._closed:
            ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            ended.cancel()
            return ended
        running = asyncio.ensure_future(self._offload(fn, *args))
        self._running.add(running)
        running.add_done_callback(self._forget)
        return running

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> "asyncio.Task[None]":
        """Start a task that `close` waits for."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._forget)
        return task

    async def close(self) -> None:
        """Wait for running calls; the caller has made sure that they end soon."""
        self._closed = True
        while self._running:
            await asyncio.wait(tuple(self._running))
        self._offload.close()

    def _forget(self, running: "asyncio.Future[Any]") -> None:
        self._running.discard(running)
        if not running.cancelled():
            running.exception()  # read it, as there may be no waiter
