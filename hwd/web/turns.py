"""Long answers that are made in turns of the event loop."""

import asyncio
from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET

from hwd_drivers.core.structs import to_json

T = TypeVar("T")
WRITTEN_AT_ONCE: Final = 1024
"""Items of a list; those of a large rack take some milliseconds."""


async def in_turns(items: Iterable[T], at_once: int) -> list[T]:
    """The items, of which `at_once` are made before other tasks have their turn."""
    made: list[T] = []
    for item in items:
        made.append(item)
        if len(made) % at_once == 0:
            await asyncio.sleep(0)
    if len(made) > at_once and len(made) % at_once:
        await asyncio.sleep(0)
    return made


async def to_json_in_turns(answer: msgspec.Struct) -> bytes:
    """Write an answer as `to_json` does, with a turn for other tasks between parts of its long lists."""
    parts: list[bytes] = []
    for field in msgspec.structs.fields(answer):
        value = getattr(answer, field.name)
        if value is UNSET:
            continue
        if isinstance(value, list) and len(value) > WRITTEN_AT_ONCE:
            written = await _list(value)
        else:
            written = to_json(value)
        parts.append(b"%b:%b" % (to_json(field.encode_name), written))
    return b"{%b}" % b",".join(parts)


async def _list(items: list[T]) -> bytes:
    parts: list[bytes] = []
    for first in range(0, len(items), WRITTEN_AT_ONCE):
        parts.append(to_json(items[first : first + WRITTEN_AT_ONCE])[1:-1])
        await asyncio.sleep(0)
    return b"[%b]" % b",".join(parts)
