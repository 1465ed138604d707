"""Begin work that a message asks for: a message may also come while the bus is closing."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


def begin_work(tasks: asyncio.TaskGroup | None, work: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> None:
    """Do it in a task of the group. Where that has not begun, is closing or has ended, it is let go without a word."""
    if tasks is None:
        return
    coroutine = work()
    try:
        tasks.create_task(coroutine, name=name)
    except RuntimeError:  # the group takes no more
        coroutine.close()
