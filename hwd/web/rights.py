"""Rights: who may act on what a job holds, by the row of the call."""

from collections.abc import Mapping

from hwd.jobs.jobs import Jobs
from hwd.model.bodies import OverrideOf
from hwd.ports.claim import job_of, run_of
from hwd.ports.ledger import Ledger
from hwd.ports.rules import Reason
from hwd.reconfigure.leases.leases import BASELINE, Leases
from hwd_agents.wire.access import Access, Proof, Who
from hwd_drivers.core.errors import ConfigError, RefusedError

OF_JOB: OverrideOf = "job"


class Rights:
    """The rights of callers: what a lease covers is its holder's. Where that is a job, an id or an epoch proves
    nothing: both can be read.
    """

    def __init__(self, leases: Leases, jobs: Jobs) -> None:
        self._leases = leases
        self._jobs = jobs

    @property
    def ledger(self) -> Ledger:
        return self._leases.ledger

    async def act_under(self, access: Access, lease: str | None, epoch: int | None) -> None:
        """Check an act under a lease, which is a sign of its holder. Raises RefusedError where it is not in force."""
        self.check(access, lease)
        if lease is not None:
            await self._leases.heartbeat(lease, epoch=epoch)

    def check(
        self,
        access: Access,
        lease: str | None,
        *,
        key: str | None = None,
        override: Mapping[OverrideOf, str] | None = None,
    ) -> str | None:
        """Returns the job whose lease it is, None for that of anybody else. Raises RefusedError where a job holds it
        and the caller is not that job: neither by its `key`, nor with an override, where `access` allows these.
        """
        claim = None if lease is None else self.ledger.get(Reason.LEASE, lease)
        if access.who is not Who.HOLDER or claim is None or (job := job_of(claim.owner)) is None:
            return None
        if access.may_override and override and OF_JOB in override:
            return job
        if access.proof is Proof.KEY and key is not None and self._jobs.knows(job, key):
            return job
        ends = f"`hwd job stop {job}` ends it, `hwd lease kick {claim.id} --why WHY` takes the lease from it"
        if access.may_override:
            ends = f"--override job=WHY does it all the same, and is recorded; {ends}"
        if access.proof is Proof.KEY:
            ends = f"its ranks have its key in HWD_JOB_KEY; {ends}"
        raise RefusedError(
            f"lease {claim.id}: it is that of {claim.owner}, which alone acts under it and on what it holds. {ends}"
        )

    def check_reconfiguration(self, access: Access, id: str) -> None:
        """Raises RefusedError for a move of a job's light: the job ends it itself."""
        if access.who is Who.HOLDER and (job := self._jobs.mover(id)) is not None:
            raise RefusedError(
                f"reconfiguration {id}: moves the light of job {job}, which alone ends it. `hwd job stop {job}` ends "
                "both"
            )

    @staticmethod
    def check_name(holder: str) -> None:
        """Raises ConfigError for a holder of leases who states to be a job, a run, or hwd itself."""
        if job_of(holder) or run_of(holder) or holder.startswith(BASELINE):
            raise ConfigError(f"holder {holder!r}: only hwd itself takes leases in this name. Give your own")
