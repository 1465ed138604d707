"""LiveJob: one job while it runs: its durable record, its outcome once that is known, and the documents about it."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from hwd.jobs.job_parts import JobParts
from hwd.model.job import JobRecord, JobState
from hwd.planes.breach import PlaneError
from hwd.ports.claim import utc
from hwd_drivers.core.documents import Fact
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.reason import reason_of

log = logging.getLogger(__name__)


class LiveJob:
    """A job that has not ended. `record`: the job as it is durable now. `outcome`: the state that it goes to, and why;
    None while it goes on. `emit` takes what is recorded, `announce` what comes by the hundred and is not.
    """

    def __init__(self, record: JobRecord, parts: JobParts) -> None:
        self.record = record
        self.clock = parts.clock
        self.outcome: tuple[JobState, str] | None = None
        self.over_s = 0.0
        """The time on the loop's clock at which the outcome was known."""
        self.moved: dict[str, str] = {}
        """By target that the light is not at any more: how it has left that, and by whom."""
        self.left_moved: list[str] = []
        """How its light was away when it came to its end, and by whom."""
        self.on_over: list[Callable[[], None]] = []
        """Called when the outcome is known."""
        self._store = parts.store
        self._emit = Emitter(parts.clock, parts.sink)
        self._announce = Emitter(parts.clock, parts.announce)
        self._saving = asyncio.Lock()
        self._over = asyncio.Event()

    def __str__(self) -> str:
        return str(self.record)

    @property
    def is_over(self) -> bool:
        return self.outcome is not None

    @property
    def lasted_s(self) -> float:
        return max(0.0, (self.clock.wall_ns() - self.record.started_wall_ns) / 1e9)

    async def save(self, change: Callable[[JobRecord], JobRecord]) -> None:
        """Make a change durable, then let it count; one after the other."""
        async with self._saving:
            record = change(self.record)
            await self._store.save(record)
            self.record = record

    def come_to(self, state: JobState, why: str) -> None:
        """Come to an end; the first one counts."""
        if self.outcome is not None:
            return
        moved = [*self.moved.values()]
        if away := " and ".join(words for words in moved if words not in why):
            why = "; ".join(filter(None, (why, f"its light had been moved {away}, and was not back")))
        at = utc(self.clock.wall_ns())
        self.left_moved = [f"{at}: {words}, not back at its end" for words in moved]
        self.outcome = state, why
        self.over_s = asyncio.get_running_loop().time()
        for call in self.on_over:
            call()
        self._over.set()

    def fail(self, why: str) -> None:
        self.come_to(JobState.FAILED, why)

    @contextmanager
    def or_fail(self) -> Iterator[None]:
        """Where this cannot be done, the job fails."""
        try:
            yield
        except PlaneError as error:
            self.fail(f"plane {self.record.plane}: {reason_of(error)}")
        except HwdError as error:
            self.fail(reason_of(error))
        except Exception as error:
            log.exception("%s: a defect of hwd", self)
            self.fail(f"a defect of hwd: {error!r}; its log has more")

    async def wait_over(self, within_s: float) -> None:
        """Return when the job is over, or after so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._over.wait()

    def emit(self, kind: type[Fact], **fields: Any) -> None:
        self._emit(kind(job=self.record.id, entry=self.record.entry, **fields))

    def announce(self, kind: type[Fact], **fields: Any) -> None:
        self._announce(kind(job=self.record.id, entry=self.record.entry, **fields))
