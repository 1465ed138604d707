"""SetCalls: prepared sets, from their preparation to their release."""

from typing import Final

from hwd.jobs.jobs import Jobs
from hwd.model.bodies import PrepareBody, ReleaseSetBody, SwitchBody
from hwd.model.prepared_set import PreparedSetStatus
from hwd.model.reconfiguration import ReconfigurationStatus
from hwd.model.request import Caller
from hwd.reconfigure.applies import Applies
from hwd.reconfigure.leases.leases import Leases
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.records.finish import to_its_end
from hwd.web.calls.call import HELD, OVERRIDABLE, Call, Calls
from hwd.web.rights import OF_JOB, Rights
from hwd_agents.wire.access import ANYONE, Access


class SetCalls:
    """The calls about sets that are prepared under a lease. A set of a job is moved by the job, or with an override."""

    def __init__(
        self, *, applies: Applies, reconfigurer: Reconfigurer, leases: Leases, jobs: Jobs, rights: Rights
    ) -> None:
        self._applies = applies
        self._reconfigurer = reconfigurer
        self._leases = leases
        self._jobs = jobs
        self._rights = rights

    def sets(self) -> list[PreparedSetStatus]:
        """Prepared sets that have not ended, each with the target that its switches have."""
        return [*self._reconfigurer.sets.all()]

    async def prepare(self, body: PrepareBody, caller: Caller | None = None) -> PreparedSetStatus:
        """Route and check targets, hold their ports under a lease, and journal them. No switch moves.

        A lease that ends ends its sets.
        """
        await self._rights.act_under(SETS.access("prepare"), body.lease, body.epoch)
        return await self._applies.prepare(body, caller)

    async def switch(self, id: str, body: SwitchBody, caller: Caller | None = None) -> ReconfigurationStatus:
        """Bring a set to a target: driven at once, without a plan; answers when it is read back and confirmed.

        Every set has the target `before`: what its switches carried at the preparation. A set of a job: only with
        `override`; the job brings its light back, or fails.
        """
        return await self.bring(id, body, caller, access=SETS.access("switch"))

    async def bring(
        self, prepared_set: str, body: SwitchBody, caller: Caller | None, *, access: Access, key: str | None = None
    ) -> ReconfigurationStatus:
        """Do what `switch` does. A set of a job is switched only by the `key` of that, or with an override, as `access`
        allows; the job is told before it moves.
        """
        lease = self._reconfigurer.sets.lease_of(prepared_set)
        job = self._rights.check(access, lease, key=key, override=body.override)
        self._leases.note_act(lease)
        epoch, by, target = body.epoch, body.by, body.target
        if job is None:
            return await self._applies.switch(prepared_set, target, id=body.id, epoch=epoch, by=by, caller=caller)
        why, who = body.override.get(OF_JOB, ""), Caller.of(caller, by)
        of_switch = body.id or self._jobs.new_id()

        async def switch() -> ReconfigurationStatus:
            with self._jobs.overridden(
                job, prepared_set, target=target, reconfiguration=of_switch, caller=who, why=why
            ) as overridden:
                return await self._applies.switch(
                    prepared_set, target, id=of_switch, epoch=epoch, by=by, caller=caller, override=overridden
                )

        return await to_its_end(switch(), name=f"hwd:jobs/{job}/overridden")  # the job hears of its end

    async def release(self, id: str, body: ReleaseSetBody, caller: Caller | None = None) -> PreparedSetStatus:
        """End a set: its ports are free, its switches stay as they are. A set of a job: only with `override`."""
        sets = self._reconfigurer.sets
        job = self._rights.check(SETS.access("release"), sets.lease_of(id), override=body.override)
        if job is None:
            return await sets.release(id, epoch=body.epoch)
        why = body.override.get(OF_JOB, "")
        with self._jobs.overridden(job, id, caller=Caller.of(caller, body.by), why=why) as overridden:
            return await sets.release(id, epoch=body.epoch, why=f"released by override of {overridden}")


SETS: Final = Calls(
    part="sets",
    tag="prepared sets",
    rows=(
        Call(method="GET", path="/sets", handler=SetCalls.sets, access=ANYONE),
        Call(method="POST", path="/sets", handler=SetCalls.prepare, access=HELD, status=201),
        Call(method="POST", path="/sets/{id}/switch", handler=SetCalls.switch, access=OVERRIDABLE),
        Call(method="POST", path="/sets/{id}/release", handler=SetCalls.release, access=OVERRIDABLE, needs_body=False),
    ),
)
