"""Containment: what fails in the work for one host marks that host, is said once, and stops nothing else."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from types import TracebackType

from typing_extensions import override

AGAIN_FIRST_S, AGAIN_MOST_S = 1.0, 60.0
"""What has to run all the time is begun anew after so long; twice as long after each time that it failed again."""
WELL_AFTER_S = 60.0
"""Without a failure for so long, the mark is taken off: whoever sends cannot make documents by failing and not failing
in turn."""

log = logging.getLogger(__name__)

Tell = Callable[[str, str, str], None]
"""`tell(host, task, why)`; `why` is empty where it works again."""
Contain = Callable[[str, str], AbstractContextManager[None, bool]]
"""`Containment.of`."""


class Containment:
    """Supervises what is done for hosts. `now_s` is the loop's time.

    ```
    with containment.of("h0", "events"):
        take(events)
    group.create_task(containment.keep("h0", "clock", timekeeper.run))
    ```
    """

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._marks: dict[tuple[str, str], str] = {}
        self._failed_s: dict[tuple[str, str], float] = {}

    def why(self, host: str) -> str:
        """What does not work for a host; empty where nothing is known to."""
        return "; ".join(why for (one, _), why in self._marks.items() if one == host)

    def of(self, host: str, task: str) -> AbstractContextManager[None, bool]:
        """Whatever fails inside is a fault in what we do for this host, or in what it told."""
        return _Contained(self._failed, host, task)

    async def keep(self, host: str, task: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run until cancelled, though it fails again and again."""
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
        """Take off the marks of what has not failed for a while. Call it now and then."""
        for host, task in [key for key, at_s in self._failed_s.items() if _now_s() - at_s >= WELL_AFTER_S]:
            del self._failed_s[host, task]
            why = self._marks.pop((host, task))
            log.info("%s: %s works again: nothing failed for %g s; before: %s", host, task, WELL_AFTER_S, why)
            self._tell(host, task, "")

    def _failed(self, host: str, task: str, error: Exception) -> None:
        is_news = (host, task) not in self._marks
        self._failed_s[host, task] = _now_s()
        self._marks[host, task] = why = f"{task}: {type(error).__name__}: {error}"[:500]
        if is_news:
            log.error("%s: %s failed, which is a bug of hwd. Nothing else is touched by it", host, task, exc_info=error)
            self._tell(host, task, why)


class _Contained(AbstractContextManager[None, bool]):
    """The supervisor of a host's work: an error ends here, a cancellation does not."""

    __slots__ = ("_failed", "_host", "_task")

    def __init__(self, failed: Callable[[str, str, Exception], None], host: str, task: str) -> None:
        self._failed = failed
        self._host = host
        self._task = task

    @override
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception):
            self._failed(self._host, self._task, error)
            return True
        return False


def _now_s() -> float:
    return asyncio.get_running_loop().time()
