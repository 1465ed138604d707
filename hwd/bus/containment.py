"""Containment: an exception in the work for one host is reported once, and does not stop the work for other hosts."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

from typing_extensions import override

AGAIN_FIRST_S, AGAIN_MOST_S = 1.0, 60.0
"""The pause before a failed task is started again; it doubles with each failure."""
WELL_AFTER_S = 60.0
"""A trouble is over when nothing failed for this long: a sender cannot produce documents by failing every other
time."""

log = logging.getLogger(__name__)

Report = Callable[[str, str, str], None]
"""`report(host, task, why)`; `why` is empty where the task works again."""
Contain = Callable[[str, str], AbstractContextManager[None, bool]]
"""`Containment.of`."""


class Containment:
    """Supervises the work for each host, and holds its troubles by host and task.

    ```
    with containment.of("h0", "events"):
        take(events)
    group.create_task(containment.keep("h0", "clock", timekeeper.run))
    containment.begin("h0", "its asks", work, name="ask")
    ```
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._troubles: dict[tuple[str, str], str] = {}
        self._failed_s: dict[tuple[str, str], float] = {}
        self.group: asyncio.TaskGroup | None = None
        """The group of the tasks that `begin` makes; None before the bus runs, and after it."""
        self.of: Contain = partial(_Contained, self._failed)
        """A context that catches exceptions in the work for a host and reports them as its trouble."""

    def why(self, host: str) -> str:
        """The present troubles of a host, in words; empty where there are none."""
        return "; ".join(why for (one, _), why in self._troubles.items() if one == host)

    def begin(self, host: str, task: str, work: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> bool:
        """Do work that a message asks for in a task of its host, and return whether it begins.

        A message may also come while the bus is closing: then it is let go without a word.
        """
        if self.group is None:
            return False
        contained = self._contained(host, task, work)
        try:
            self.group.create_task(contained, name=f"hwd:{host}/{name}")
        except RuntimeError:  # the group takes no more
            contained.close()
            return False
        return True

    async def keep(self, host: str, task: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run until cancelled; start it again after each failure."""
        again_s = AGAIN_FIRST_S
        while True:
            began_s = _now_s()
            with self.of(host, task):
                await run()
            if _now_s() - began_s > WELL_AFTER_S:
                again_s = AGAIN_FIRST_S
            await asyncio.sleep(again_s)
            again_s = min(AGAIN_MOST_S, 2 * again_s)

    def heal(self) -> None:
        """End the troubles that did not recur for `WELL_AFTER_S`. Call it each second."""
        for host, task in [key for key, at_s in self._failed_s.items() if _now_s() - at_s >= WELL_AFTER_S]:
            del self._failed_s[host, task]
            why = self._troubles.pop((host, task))
            log.info("%s: %s works again: nothing failed for %g s; before: %s", host, task, WELL_AFTER_S, why)
            self._report(host, task, "")

    async def _contained(self, host: str, task: str, work: Callable[[], Awaitable[None]]) -> None:
        with self.of(host, task):
            await work()

    def _failed(self, host: str, task: str, error: Exception) -> None:
        is_news = (host, task) not in self._troubles
        self._failed_s[host, task] = _now_s()
        self._troubles[host, task] = why = f"{task}: {type(error).__name__}: {error}"[:500]
        if is_news:
            log.error("%s: %s failed, which is a bug of hwd. Nothing else is touched by it", host, task, exc_info=error)
            self._report(host, task, why)


@dataclass(slots=True)
class _Contained(AbstractContextManager[None, bool]):
    """The supervisor of a host's work: it catches errors, and lets a cancellation pass."""

    failed: Callable[[str, str, Exception], None]
    host: str
    task: str

    @override
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception):
            self.failed(self.host, self.task, error)
            return True
        return False


def _now_s() -> float:
    return asyncio.get_running_loop().time()
