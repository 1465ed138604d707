"""Watchdog: feeds the watchdog of a service manager while the event loop turns in time."""

import asyncio
import logging

from hwd_agents.process.systemd import BEATS, Notifier

log = logging.getLogger(__name__)


class Watchdog:
    """Sends nothing where no service manager has a watchdog on this process.

    watchdog = Watchdog(Notifier(os.environ, pid=os.getpid()))
    await watch_lag(emit, watchdog.feed)
    """

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self._due_s = float("-inf")
        self._was_late = False

    def feed(self, lag_s: float) -> None:
        """Take the lag of one turn of the event loop.

        No message goes out after a turn that was later than a third of the watchdog's period: a loop that stays so late
        is restarted as one that hangs is.
        """
        period_s = self._notifier.period_s
        if period_s <= 0:
            return
        limit_s, now_s = period_s / BEATS, asyncio.get_running_loop().time()
        is_late = lag_s > limit_s
        if is_late and not self._was_late:
            log.warning(
                "event loop: a turn came %.1f s late, over %.1f s: the watchdog is not fed. The service manager "
                "restarts the daemon where that lasts %.0f s",
                *(lag_s, limit_s, period_s),
            )
        self._was_late = is_late
        if not is_late and now_s >= self._due_s:
            self._due_s = now_s + limit_s
            self._notifier.beat()
