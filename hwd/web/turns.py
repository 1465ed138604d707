"""Long lists that are made in turns of the event loop."""

import asyncio
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


async def in_turns(items: Iterable[T], at_once: int) -> list[T]:
    """The items, of which `at_once` are made before other tasks have their turn."""
    made: list[T] = []
    for item in items:
        made.append(item)
        if len(made) % at_once == 0:
            await asyncio.sleep(0)
    return made
