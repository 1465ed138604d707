"""Completes work whose caller is cancelled: a transaction that has begun ends before the cancellation is raised."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_its_end(work: Coroutine[Any, Any, T], *, name: str) -> T:
    """Await `work`. A cancellation is raised only when it is done; its result, or its error, is then dropped."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not report it lost
        raise
