"""The delay of the event loop, measured and reported; the watchdog of a service manager is fed by it."""

import asyncio
from collections.abc import Callable

from hwd.model.daemon import DaemonLag
from hwd_drivers.core.emitter import Emitter

PERIOD_S = 0.25
"""The period of the measurement."""
REPORT_S = 10.0
"""The time between two documents `daemon.lag`."""


async def watch_lag(emit: Emitter, on_turn: Callable[[float], None]) -> None:
    """Emit `daemon.lag`, how late the loop was at most, until cancelled. `on_turn` gets the lag of each turn that was
    measured.
    """
    loop = asyncio.get_running_loop()
    while True:
        longest_s, until_s = 0.0, loop.time() + REPORT_S
        while (due_s := loop.time() + PERIOD_S) < until_s:
            await asyncio.sleep(PERIOD_S)
            lag_s = loop.time() - due_s
            longest_s = max(longest_s, lag_s)
            on_turn(lag_s)
        emit(DaemonLag(seconds=longest_s))
        await asyncio.sleep(max(0.0, until_s - loop.time()))
