"""Restarter: restarts a watcher that failed and reports it; the other watchers go on."""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Any, Final

from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.reason import reason_of

RETRY_FIRST_S: Final = 0.1
RETRY_MOST_S: Final = 10.0
WELL_AFTER_S: Final = 1.0
"""A restarted watcher that runs this long counts as well."""

_log = logging.getLogger(__name__)


class Restarter:
    """The restarter of watchers; `broken`: why each failed, until it runs well; `on_change`: called when it changed."""

    def __init__(
        self, host: str, broken: dict[str, str], *, jitter: random.Random, on_change: Callable[[], None]
    ) -> None:
        self._host = host
        self._broken = broken
        self._jitter = jitter
        self._on_change = on_change

    async def keep(self, what: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a watcher for ever: report its failure in the birth message and restart it."""
        wait_s = RETRY_FIRST_S
        loop = asyncio.get_running_loop()
        while True:
            started_s = loop.time()
            healed = loop.call_later(WELL_AFTER_S, self._heal, what)
            watcher = asyncio.create_task(run(), name=f"hwd:{self._host}/{what}")
            try:
                await _ended(watcher)
                watcher.result()
                why = "it ended by itself"
            except (HwdError, OSError) as error:
                why = reason_of(error)
            except Exception as error:  # noqa: BLE001 - the supervisor: a bug in one watcher must not end the others
                known = _first(error)
                why = f"{type(known).__name__}: {known}"
                if not isinstance(known, HwdError | OSError):
                    _log.exception("%s: the watcher %s failed", self._host, what)
            finally:
                healed.cancel()
            if what not in self._broken:
                _log.warning("%s: the watcher %s failed: %s", self._host, what, why)
            self._broken[what] = why
            self._on_change()
            if loop.time() - started_s > RETRY_MOST_S:
                wait_s = RETRY_FIRST_S
            await asyncio.sleep(self._jitter.uniform(0, wait_s))
            wait_s = min(2 * wait_s, RETRY_MOST_S)

    def _heal(self, what: str) -> None:
        if self._broken.pop(what, None) is not None:
            _log.info("%s: the watcher %s is well again", self._host, what)
            self._on_change()


async def _ended(task: "asyncio.Task[None]") -> None:
    """Wait for the end of `task`; a cancellation of the caller ends it first.

    If `run` were awaited in this task, a TaskGroup of Python 3.11 in it would lose a cancellation that arrives together
    with the failure of one of its tasks, and the agent would never stop.
    """
    try:
        await asyncio.wait((task,))
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()  # retrieved, also when we are stopping


def _first(error: BaseException) -> BaseException:
    """The first cause in a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
