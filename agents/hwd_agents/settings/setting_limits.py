"""SettingLimits: puts the settings of runs back when no daemon holds them any more."""

import asyncio
from typing import Final

from hwd_agents.settings.port_settings import Settings
from hwd_agents.spool.outbox import Emit
from hwd_agents.wire.events import PutBackData
from hwd_drivers.core.clock import Clock

SOURCE: Final = "settings"
AGAIN_S: Final = 10.0
"""Interval of attempts to put back a setting after a failure."""
LOOK_S: Final = 60.0
"""Poll interval: the kernel of a twin host may restart without a notice."""


class SettingLimits:
    """The time limits of settings, with events `put-back`. The daemon renews the settings of its runs.

    If it was killed or cut off for longer than a run allows, the host is put back to its earlier state.
    """

    def __init__(self, settings: Settings, clock: Clock, emit: Emit, *, origin: str) -> None:
        self._settings = settings
        self._clock = clock
        self._emit = emit
        self._origin = origin
        self._changed = asyncio.Event()
        settings.on_limit = self._changed.set

    async def run(self) -> None:
        """Put settings back at their limits until cancelled."""
        while True:
            self._changed.clear()
            left = await self._put_back()
            due_ns = self._settings.next_due_ns
            wait_s = LOOK_S if due_ns is None else min(LOOK_S, (due_ns - self._clock.monotonic_ns()) / 1e9)
            try:
                async with asyncio.timeout(AGAIN_S if left else max(0.0, wait_s)):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _put_back(self) -> bool:
        """Put back what is due; returns whether some of it is left."""
        before_ns = self._clock.monotonic_ns()
        reports = await self._settings.put_back_due()
        after_ns = self._clock.monotonic_ns()
        for run, one in reports.items():
            for back in one["back"]:
                self._emit(
                    "put-back",
                    back["port"],
                    earliest_ns=before_ns,
                    at_ns=after_ns,
                    source=SOURCE,
                    origin=self._origin,
                    data=PutBackData(run=run, setting=back["setting"], state=back["state"]),
                )
        return any(one["left"] for one in reports.values())
