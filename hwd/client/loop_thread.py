"""LoopThread: an event loop in a thread of its own, for callers that wait. It works beside a running loop too, and in
processes that were forked from the one that made it.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hwd_drivers.core.errors import BugError, LinkError

T = TypeVar("T")

SIGNALS_EVERY_S = 0.2
"""How late a call may be interrupted."""


@dataclass(slots=True)
class _ProcessLoop:
    """The loop of one process, and the thread that it runs in."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    thread: threading.Thread | None = None
    loop: asyncio.AbstractEventLoop | None = None


class LoopThread:
    """The thread starts with the first coroutine and ends with `close`. Any thread may call.

    A forked process has no thread but the one that forked: it gets a loop of its own. What it has of its parent's loop
    is let be, since they share descriptors.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._of_process: dict[int, _ProcessLoop] = {}
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
        """Step an asynchronous generator, which yields no None, and close it in its loop. Raises BugError in a process
        that was forked meanwhile.
        """
        process = os.getpid()
        try:
            while (item := self.run(_next(items))) is not None:
                yield item
                if os.getpid() != process:
                    raise BugError(f"these items come to process {process}; ask for them anew in this one")
        finally:
            # `close` has closed it with its loop; in a forked process that loop does not run
            if not self._closed and os.getpid() == process:
                self.run(_close(items))

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `last`, then end the loop and its thread. Does nothing where no loop was started, or a second time."""
        serving = self._serving()
        try:
            if serving.thread is not None and not self._closed:
                self.run(last())
        finally:
            with serving.lock:
                self._closed, loop, serving.loop = True, serving.loop, None
            if loop is not None and serving.thread is not None:
                loop.call_soon_threadsafe(loop.stop)
                serving.thread.join()

    def _schedule(self, callback: Callable[[], object]) -> None:
        serving = self._serving()
        with serving.lock:  # so that what is scheduled before `close` is begun before it
            if self._closed:
                raise BugError("the client is closed")
            if threading.current_thread() is serving.thread:
                raise BugError("the client was called from its own thread, which would wait for itself")
            if serving.loop is None:
                serving.loop = self._start(serving)
            serving.loop.call_soon_threadsafe(callback)

    def _start(self, serving: _ProcessLoop) -> asyncio.AbstractEventLoop:
        started: Future[asyncio.AbstractEventLoop] = Future()
        serving.thread = threading.Thread(target=_serve, args=(started,), name=self._name, daemon=True)
        serving.thread.start()
        return started.result()

    def _serving(self) -> _ProcessLoop:
        process = os.getpid()
        return self._of_process.get(process) or self._of_process.setdefault(process, _ProcessLoop())


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
