"""LiveEfficiency: how efficient the operations of a job were that ended lately, told again and again while it runs."""

import logging
from collections import deque
from typing import Final

from msgspec.structs import replace

from hwd.jobs.efficiency.efficiency import efficiency
from hwd.jobs.job_places import JobPlaces
from hwd.jobs.live_job import LiveJob
from hwd.jobs.verification.recorded_operations import RecordedOperation
from hwd.model.job import JobMeasured, OperationSent
from hwd_agents.wire import Operation
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
    """Measures with the rates of ports as they are now: a link that is lit now may have a speed that it did not have
    before.
    """

    def __init__(self, job: LiveJob, places: JobPlaces, *, offload: Offload) -> None:
        self._job = job
        self._places = places
        self._clock = job.clock
        self._offload = offload
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

    async def run(self) -> None:
        """Measure the efficiency until the job is over."""
        had_operations = False
        while not self._job.is_over:
            await self._job.wait_over(MEASURE_S)
            try:
                await self._note_rates()
                if not self._job.is_over:
                    had_operations = await self._measure(had_operations)
            except HwdError as error:
                log.warning("%s: its efficiency cannot be measured: %s", self._job, reason_of(error))
            except Exception:
                log.exception("%s: its efficiency: a defect of hwd", self._job)

    async def _note_rates(self) -> None:
        rates = self._places.rates_mbit_s()
        if not rates.items() <= self._job.record.rates_mbit_s.items():
            await self._job.save(lambda record: replace(record, rates_mbit_s={**record.rates_mbit_s, **rates}))

    async def _measure(self, had_operations: bool) -> bool:
        """Tell it where there are operations, or were; returns whether there are."""
        since_ns = self._clock.monotonic_ns() - round(RECENT_S * 1e9)
        while self._recent and (self._recent[0].over_ns or 0) < since_ns:
            self._recent.popleft()
        if self._recent or had_operations:
            whole = (await self._offload(efficiency, self._job.record, tuple(self._recent))).whole
            self._job.announce(
                JobMeasured,
                operations=whole.operations,
                left_out=whole.left_out,
                gamma=whole.gamma,
                delta=whole.delta,
                theta=whole.theta,
                eta=whole.eta,
                why=whole.why,
            )
        return bool(self._recent)
