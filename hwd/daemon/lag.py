"""The delay of the event loop, measured and reported."""

import asyncio

from hwd.model.documents.daemon import DaemonLag
from hwd_drivers.core.emitter import Emitter

PERIOD_S = 0.25
"""The period of the measurement."""
REPORT_S = 10.0
"""The time between two documents `daemon.lag`."""


class LagWatch:
    """Emits `daemon.lag`: how late the loop was at most."""

    def __init__(self, emit: Emitter) -> None:
        self._emit = emit

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            longest_s, until_s = 0.0, loop.time() + REPORT_S
            while (due_s := loop.time() + PERIOD_S) < until_s:
                await asyncio.sleep(PERIOD_S)
                longest_s = max(longest_s, loop.time() - due_s)
            self._emit(DaemonLag(seconds=longest_s))
            await asyncio.sleep(max(0.0, until_s - loop.time()))
