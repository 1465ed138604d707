"""LiveEfficiency: how efficient the operations of a job were that ended lately, told again and again while it runs."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from hwd.jobs.efficiency.efficiency import efficiency
from hwd.jobs.verification.recorded_operations import RecordedOperation
from hwd.model.job import JobRecord, OperationSent
from hwd.model.job_status import JobEfficiencyRow
from hwd_agents.wire import Operation
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.offload import Offload
from hwd_drivers.core.reason import reason_of

MEASURE_S: Final = 5.0
"""Between two measurements."""
RECENT_S: Final = 60.0
RECENT_MOST: Final = 1024
"""Operations of ranks over which it is measured: those that ended lately, and so many at most, which take 60 ms."""

log = logging.getLogger(__name__)


class LiveEfficiency:
    """`record` gives the job as it is now, with the rates of its ports, which may change. `tell` gets the whole job."""

    def __init__(
        self,
        record: Callable[[], Awaitable[JobRecord]],
        *,
        clock: Clock,
        offload: Offload,
        tell: Callable[[JobEfficiencyRow], None],
    ) -> None:
        self._record = record
        self._clock = clock
        self._offload = offload
        self._tell = tell
        self._recent: deque[RecordedOperation] = deque(maxlen=RECENT_MOST)

    def take(self, rank: int, operation: Operation, sent: OperationSent) -> None:
        """Take an operation that has ended now, as its agent measured it."""
        now_ns = self._clock.monotonic_ns()
        self._recent.append(
            RecordedOperation(
                rank=rank,
                operation=operation,
                granted_ns=now_ns if sent.began_ns is None else sent.began_ns,
                ended_ns=now_ns,
                sent=sent,
            )
        )

    async def run(self, job: str, over: asyncio.Event) -> None:
        """Measure the efficiency until the job is over. `job`: its name, for the log."""
        had_operations = False
        while not over.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(MEASURE_S):
                    await over.wait()
            try:
                record = await self._record()
                if not over.is_set():
                    had_operations = await self._measure(record, had_operations)
            except HwdError as error:
                log.warning("%s: its efficiency cannot be measured: %s", job, reason_of(error))
            except Exception:
                log.exception("%s: its efficiency: a defect of hwd", job)

    async def _measure(self, record: JobRecord, had_operations: bool) -> bool:
        """Tell it where there are operations, or were; returns whether there are."""
        since_ns = self._clock.monotonic_ns() - round(RECENT_S * 1e9)
        while self._recent and (self._recent[0].over_ns or 0) < since_ns:
            self._recent.popleft()
        if self._recent or had_operations:
            self._tell((await self._offload(efficiency, record, tuple(self._recent))).whole)
        return bool(self._recent)
