"""LoopThread: an event loop in a thread of its own, for callers that wait. It works beside a running loop too."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from hwd_drivers.core.errors import BugError, LinkError

T = TypeVar("T")

SIGNALS_EVERY_S = 0.2
"""How late a call may be interrupted."""


class LoopThread:
    """The thread starts with the first coroutine and ends with `close`. Any thread may call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for its result. An interrupt of the waiting thread (Ctrl-C) cancels the coroutine,
        and is raised when that has ended. Python itself drops an interrupt that comes while a finaliser runs; a second
        one ends the call.

        Raises BugError after `close` and in the loop's own thread, and LinkError where `close` ended the coroutine.
        """
        ended: Future[asyncio.Task[T] | None] = Future()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            tasks.append(asyncio.create_task(coroutine, name=self._name))
            tasks[0].add_done_callback(ended.set_result)

        def stop() -> None:
            if tasks:
                tasks[0].cancel()
            else:  # the interrupt came before `begin` was scheduled
                coroutine.close()
                ended.set_result(None)

        try:
            self._schedule(begin)
            task = _waited_for(ended)
        except BugError:
            coroutine.close()
            raise
        except BaseException:
            try:
                self._schedule(stop)
            except BugError:  # `close` ends the coroutine
                pass
            else:
                ended.result()
            raise
        assert task is not None, "only an interrupt ends it without a task"
        if task.cancelled():
            raise LinkError("the client was closed before the answer came")
        return task.result()

    def step(self, items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """Step an asynchronous generator, which yields no None, and close it in its loop."""
        try:
            while (item := self.run(_next(items))) is not None:
                yield item
        finally:
            if not self._closed:  # else the end of the loop has closed it
                self.run(_close(items))

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `last`, then end the loop and its thread. Does nothing where no loop was started, or a second time."""
        try:
            if self._thread is not None and not self._closed:
                self.run(last())
        finally:
            with self._lock:
                self._closed, loop, self._loop = True, self._loop, None
            if loop is not None and self._thread is not None:
                loop.call_soon_threadsafe(loop.stop)
                self._thread.join()

    def _schedule(self, callback: Callable[[], object]) -> None:
        with self._lock:  # so that what is scheduled before `close` is begun before it
            if self._closed:
                raise BugError("the client is closed")
            if threading.current_thread() is self._thread:
                raise BugError("the client was called from its own thread, which would wait for itself")
            if self._loop is None:
                self._loop = self._start()
            self._loop.call_soon_threadsafe(callback)

    def _start(self) -> asyncio.AbstractEventLoop:
        started: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=_serve, args=(started,), name=self._name, daemon=True)
        self._thread.start()
        return started.result()


def _waited_for(ended: Future[T]) -> T:
    """The result, which is no error. Python takes a signal that comes just before a wait begins only when that ends, so
    the wait is in parts.
    """
    while not ended.done():
        wait([ended], SIGNALS_EVERY_S)
    return ended.result()


def _serve(started: "Future[asyncio.AbstractEventLoop]") -> None:
    with asyncio.Runner() as runner:  # its end cancels the tasks and closes the generators that are left
        loop = runner.get_loop()
        started.set_result(loop)
        loop.run_forever()


async def _next(items: AsyncGenerator[T, None]) -> T | None:
    return await anext(items, None)


async def _close(items: AsyncGenerator[Any, None]) -> None:
    await items.aclose()
