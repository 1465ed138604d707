"""The memory of the event stream: the last documents with their numbers, and its listeners."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

from hwd_drivers.core.documents import Document

REPLAY = 10_000
"""Documents in memory, for `Last-Event-ID`."""
WAITING = 5_000
"""The most documents that a listener may be behind; then it misses some and goes on with the newest."""


class Hub:
    """A `Sink`. Numbers documents from 1 and hands them to listeners."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, Document]] = deque(maxlen=REPLAY)
        self._last = 0
        self._listeners: set[asyncio.Queue[tuple[int, Document]]] = set()

    @property
    def last(self) -> int:
        return self._last

    def __call__(self, document: Document) -> None:
        self._last += 1
        item = (self._last, document)
        self._recent.append(item)
        for queue in self._listeners:
            if queue.qsize() < WAITING:
                queue.put_nowait(item)

    def since(self, after: int) -> list[tuple[int, Document]]:
        """The documents in memory after the number `after`."""
        return [item for item in self._recent if item[0] > after]

    async def follow(self, after: int | None = None) -> AsyncGenerator[tuple[int, Document], None]:
        """Documents with their numbers, from `after` (exclusive; None: from now on) for ever.

        A gap in the numbers means that the listener was too slow, or that `after` is older than the memory.
        """
        queue: asyncio.Queue[tuple[int, Document]] = asyncio.Queue()
        self._listeners.add(queue)
        try:
            if after is not None:
                for item in self.since(after):
                    yield item
            while True:
                yield await queue.get()
        finally:
            self._listeners.discard(queue)
