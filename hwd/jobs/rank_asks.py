"""RankAsks: what agents ask for processes of their hosts: to send, and of the jobs that these are ranks of."""

from hwd.bus.asks import AskedBy
from hwd.jobs.jobs import Jobs
from hwd.ports.claim import job_of
from hwd.ports.ledger import Ledger
from hwd.ports.rules import Reason
from hwd.reconfigure.transfers import Transfers
from hwd_agents.wire import (
    ClaimOperation,
    ClaimTransfer,
    EndedOperation,
    EndOperation,
    EndTransfers,
    JobJoined,
    JoinJob,
    OperationEnded,
    OperationGranted,
    TransferGranted,
    TransfersEnded,
)
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import DeadlineError, RefusedError
from hwd_drivers.core.values import natural_key


class RankAsks:
    """The handler of asks of ranks; its methods raise RefusedError, and DeadlineError where it is to be asked again."""

    def __init__(self, jobs: Jobs, transfers: Transfers, ledger: Ledger, *, clock: Clock) -> None:
        self._jobs = jobs
        self._transfers = transfers
        self._ledger = ledger
        self._clock = clock

    async def claim_transfer(self, by: AskedBy, asked: ClaimTransfer) -> TransferGranted:
        """Let a process send. Over ports that a job has leased only one that has its key: any other would hold up its
        light.
        """
        ports, now = {f"{by.host}.{port}" for port in asked.ports}, self._clock.wall_ns()
        for lease in self._ledger.all(Reason.LEASE):
            if not lease.is_in_force(now) or ports.isdisjoint(lease.ports) or (job := job_of(lease.owner)) is None:
                continue
            if asked.key is None or not self._jobs.knows(job, asked.key):
                named = ", ".join(sorted(ports & lease.ports, key=natural_key))
                raise RefusedError(
                    f"{named}: leased to {lease.owner}, whose ranks alone send over it: with its key, which they have "
                    "in HWD_JOB_KEY"
                )
        return await self._transfers.claim(by, asked)

    async def join(self, by: AskedBy, asked: JoinJob) -> JobJoined:
        return await self._jobs.of(asked.job).join(by, asked.rank, asked.key)

    async def claim(self, by: AskedBy, asked: ClaimOperation) -> OperationGranted:
        return await self._jobs.of(asked.job).operations.claim(by, asked)

    async def end(self, by: AskedBy, asked: EndOperation) -> OperationEnded:
        await self._jobs.of(asked.job).operations.end(by, asked)
        return OperationEnded()

    async def end_transfers(self, by: AskedBy, asked: EndTransfers) -> TransfersEnded:
        """First in the ledger, so that a plane which hears of it may switch. Raises DeadlineError where a job cannot
        hear of it yet: then the agent tells it again.
        """
        ended = await self._transfers.end(by, asked)
        held: DeadlineError | None = None
        for one in sorted(asked.operations, key=self._is_held):  # one job that is held holds up no other
            if one.job in self._jobs.runs or not self._jobs.is_up:
                try:
                    await self._jobs.of(one.job).operations.ended(by, one)
                except DeadlineError as error:
                    held = held or error
        if held is not None:
            raise held
        return ended

    def _is_held(self, one: EndedOperation) -> bool:
        run = self._jobs.runs.get(one.job)
        return run is None or run.operations.is_held
