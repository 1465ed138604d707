"""Documents of limits that were reached, at a rate that cannot flood the records."""

import asyncio
from dataclasses import dataclass

from hwd.model.daemon import LimitReached
from hwd.model.limit import Limit
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Sink
from hwd_drivers.core.emitter import Emitter

EVERY_S = 10.0
"""One document a limit in this time: the first at once, and each counts what came since the one before."""
DETAIL_MAX = 200
"""The most characters of a detail, since a client may choose them."""


@dataclass(slots=True)
class _Tally:
    due_s: float
    detail: str = ""
    count: int = 0


class Limits:
    """Call it as `hwd.model.limit.Reached`, in the event loop, also before `run` begins.

    limits = Limits(clock)
    limits(Limit.HTTP_BODY, "127.0.0.1: 9000000 bytes, at most 4194304")
    await limits.run(sink)      # until cancelled: documents `limit.reached`
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tallies: dict[Limit, _Tally] = {}
        self._news = asyncio.Event()

    def __call__(self, limit: Limit, detail: str) -> None:
        tally = self._tallies.setdefault(limit, _Tally(due_s=0.0))
        tally.count += 1
        tally.detail = detail if len(detail) <= DETAIL_MAX else f"{detail[:DETAIL_MAX]}..."
        self._news.set()

    async def run(self, sink: Sink) -> None:
        """Emit the refusals by limits until cancelled, and the rest at the end."""
        loop, emit = asyncio.get_running_loop(), Emitter(self._clock, sink)
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                now_s = loop.time()
                self._tell(emit, now_s)
                if waiting := [tally.due_s for tally in self._tallies.values() if tally.count]:
                    await asyncio.sleep(max(0.0, min(waiting) - now_s))
                    self._news.set()
        finally:
            self._tell(emit, float("inf"))

    def _tell(self, emit: Emitter, now_s: float) -> None:
        for limit, tally in self._tallies.items():
            if tally.count and now_s >= tally.due_s:
                count, tally.count, tally.due_s = tally.count, 0, now_s + EVERY_S
                emit(LimitReached(limit=limit, count=count, detail=tally.detail))
