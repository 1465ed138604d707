"""Offload: the only way to run blocking code (SQL, SSH, GPIO) in threads."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar, TypeVarTuple

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
