"""Planning: plans from what the switches report now, with what the testbed and others say of them meanwhile."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from hwd.model.circuit import Observed
from hwd.model.interlock import InterlockName, in_order, refused
from hwd.model.plan import Plan
from hwd.model.plan_summary import InterlockRefused
from hwd.ports.isolation import breach, isolation
from hwd.ports.ledger import Ledger
from hwd.ports.rules import Reason
from hwd.reconfigure.apply.switches import Look, Switches
from hwd.reconfigure.plans.move_counts import MoveCounts
from hwd.reconfigure.plans.planner import Planner, PlanWithInputs
from hwd.reconfigure.plans.route import RoutedRequest
from hwd.reconfigure.transfers import Transfers
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import RefusedError


class Planning:
    """Asks a planner, and completes its plans. `note_baseline`: makes durable what the ports of the plan's lease had
    before the first change under it.
    """

    def __init__(
        self,
        planner: Planner,
        *,
        switches: Switches,
        move_counts: MoveCounts,
        ledger: Ledger,
        transfers: Transfers,
        note_baseline: Callable[[Plan, Observed], Awaitable[None]],
        clock: Clock,
        emit: Emitter,
    ) -> None:
        self.planner = planner
        self.note_baseline = note_baseline
        self._switches = switches
        self._move_counts = move_counts
        self._ledger = ledger
        self._transfers = transfers
        self._clock = clock
        self._emit = emit

    async def plan(self, routed: RoutedRequest, look: Look, before: PlanWithInputs | None = None) -> PlanWithInputs:
        """Plan, unless a plan was made before from the same."""
        blocked, motion = self._switches.blocked(routed.switches), self._move_counts.of(routed.switches)
        planned_from = (routed, look.observed, blocked, motion)
        if before is not None and (before.routed, before.observed, before.blocked, before.motion) == planned_from:
            return before
        plan = await self.planner.plan(*planned_from)
        return PlanWithInputs(routed=routed, observed=look.observed, blocked=blocked, motion=motion, plan=plan)

    def in_flight(self, plan: Plan, overrides: Mapping[InterlockName, str]) -> Plan:
        """The plan with the interlock of the transfers that are in flight now."""
        others = [one for one in plan.interlocks if one.name is not InterlockName.TRANSFER_IN_FLIGHT]
        transfers = self._transfers.on(plan.touches)
        found = self.planner.interlocks.in_flight(transfers, len(plan.touches), overrides)
        return replace(plan, interlocks=in_order([*others, *found]))

    def isolated(self, plan: Plan) -> Plan:
        """The plan with its proof that it touches no circuit of somebody else's lease; raises RefusedError where it
        does.
        """
        now = self._clock.wall_ns()
        leases = [one for one in self._ledger.all(Reason.LEASE) if one.is_in_force(now)]
        own = next((one for one in leases if one.id == plan.lease), None)
        others = [one for one in leases if own is None or one.owner != own.owner]
        latest = self._switches.latest()
        found = isolation(
            self.planner.circuits(latest) if others else {},
            others,
            plan.moves,
            plan.touches,
            unknown=set(self._switches.names) - latest.keys() if others else (),
        )
        if (why := breach(found)) is not None:
            raise RefusedError(why)
        return replace(plan, lease_epoch=None if own is None else own.epoch, isolation=found)

    def report_refusals(self, plan: Plan, *, run: str | None = None) -> None:
        """Emit one document for each interlock that refuses."""
        found = refused(plan.interlocks)
        subjects = Counter(one.name for one in found)
        for one in {one.name: one for one in reversed(found)}.values():
            self._emit(
                InterlockRefused(
                    interlock=one.name,
                    subject=one.subject,
                    figure=one.figure,
                    limit=one.limit,
                    unit=one.unit,
                    why=one.why,
                    subjects=subjects[one.name],
                    what=plan.what,
                    hash=plan.hash,
                    run=run,
                )
            )
