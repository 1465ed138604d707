"""Offload: the only way to run blocking code (SQL, SSH, GPIO, files of users) in threads."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar, TypeVarTuple

from hwd_drivers.core.errors import RefusedError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Offload(Protocol):
    """Runs a blocking function without blocking the loop."""

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """Return what `fn(*args)` returns.

        A cancelled caller stops waiting; a function that has started runs to its end.
        """


class ThreadOffload:
    """Runs functions in its own threads. Whoever makes it closes it."""

    def __init__(self, max_workers: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers, thread_name_prefix="hwd-offload")

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._pool, context.run, _call, fn, args)

    def close(self) -> None:
        """Drop the functions that have not started and wait for those that have. This blocks the loop: close last."""
        self._pool.shutdown(cancel_futures=True)


class DetachedOffload:
    """Runs one function at a time in a daemon thread: for what may block for ever, as a file on a dead file server.

    Neither its caller waits for longer than `within_s`, nor the end of the process for it.
    """

    def __init__(self, within_s: float) -> None:
        self.within_s = within_s
        self._running: Future[object] | None = None

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """Raises TimeoutError after `within_s`, and RefusedError while a former function has not ended since then."""
        if self._running is not None and not self._running.done():
            raise RefusedError("the former reading has not ended: its file system does not answer")
        context, ran = contextvars.copy_context(), Future[T]()

        def run() -> None:
            try:
                result = context.run(_call, fn, args)
            except BaseException as error:  # noqa: BLE001 - raised where it is awaited
                ran.set_exception(error)
            else:
                ran.set_result(result)

        self._running = ran  # type: ignore[assignment] # Future is invariant
        ran.set_running_or_notify_cancel()  # a cancelled caller does not make the thread another one's
        threading.Thread(target=run, name="hwd-detached", daemon=True).start()
        async with asyncio.timeout(self.within_s):
            return await asyncio.wrap_future(ran)


class InlineOffload:
    """Runs functions in the loop: for virtual time, which threads would break, and for tests.

    It yields before and after the work, as a thread would: other tasks run meanwhile. A crash can come before the work,
    or between the work and the caller's resumption.
    """

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        await asyncio.sleep(0)
        try:
            return _call(fn, args)
        finally:
            await asyncio.sleep(0)


def _call(fn: Callable[[*Ts], T], args: tuple[*Ts]) -> T:
    try:
        return fn(*args)
    except StopIteration as error:  # a future refuses it, and the caller would never resume
        raise RuntimeError(f"{fn!r} raised StopIteration") from error
