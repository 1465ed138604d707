"""Offload: the one door to threads, for what blocks (SQL, SSH, GPIO)."""

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
        """Return what `fn(*args)` returns. A cancelled caller stops waiting; a function that has begun runs to its end."""


class ThreadOffload:
    """Runs functions in threads of its own. Close it where it was made."""

    def __init__(self, max_workers: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers, thread_name_prefix="hwd-offload")

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._pool, context.run, _call, fn, args)

    def close(self) -> None:
        """Drop what has not begun, and return when what has begun is done. This blocks the loop: close last."""
        self._pool.shutdown(cancel_futures=True)


class InlineOffload:
    """Runs functions in the loop: in virtual time, where threads would lie, and in tests.

    It yields before and after the work, as a thread would: others run meanwhile, and a crash can come before the work, or
    after it and before the caller hears of it.
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
    except StopIteration as error:  # a future refuses it, and the caller would wait for ever
        raise RuntimeError(f"{fn!r} raised StopIteration") from error
