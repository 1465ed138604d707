"""The preparer of sets: from requests to a set that holds its ports and is in the journal."""

from collections.abc import Mapping

from msgspec import UNSET

from hwd.model.bodies import PrepareBody
from hwd.model.plan import Plan
from hwd.model.prepared_set import BEFORE, PreparedSet, SetPrepared
from hwd.model.request import Caller, Request
from hwd.ports.claim import Claim, run_of
from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import PortAction, Reason
from hwd.reconfigure.apply.journal_writer import journal_written
from hwd.reconfigure.apply.switches import Switches, same_fault
from hwd.reconfigure.journal.journal import Journal
from hwd.reconfigure.plans.planning import Planning
from hwd.reconfigure.prepared.live_set import LiveSet
from hwd.reconfigure.prepared.preparation import check_targets, prepared_from
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import HwdError, RefusedError
from hwd_drivers.core.ids import Ids
from hwd_drivers.core.values import natural_key


class Preparer:
    """Prepares sets; the switches are read, and stay as they are."""

    def __init__(
        self,
        planning: Planning,
        *,
        journal: Journal,
        switches: Switches,
        ledger: Ledger,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._planning = planning
        self._journal = journal
        self._switches = switches
        self._ledger = ledger
        self._clock = clock
        self._ids = ids

    async def prepare(
        self, requests: Mapping[str, Request], body: PrepareBody, caller: Caller | None
    ) -> tuple[LiveSet, SetPrepared]:
        """Returns a set that the journal has, with what its document says. Raises as `PreparedSets.prepare` does."""
        check_targets(requests, body)
        id = self._ids.token(length=8)
        planning, planner = self._planning, self._planning.planner
        routed = {name: await planner.route(request) for name, request in requests.items()}
        switches = frozenset(switch for one in routed.values() for switch in one.switches)
        relies = frozenset(port for one in routed.values() for port in one.ports)
        # a transfer in flight does not keep a set from being prepared: nothing moves before a switch, which asks for it
        asker = Asker(lease=body.lease, epoch=body.epoch, prepared_set=id, switches=switches, cuts=True)
        lease = self._claim(asker, id, relies_on=relies)
        try:
            async with self._switches.turns.take(switches):
                look = await self._switches.read_unmoved(sorted(switches))
                plans: dict[str, Plan] = {}
                for name, request in requests.items():
                    try:
                        plans[name] = (await planning.plan(await planner.route(request), look)).plan
                    except HwdError as error:
                        raise same_fault(error, f"target {name}: {error}") from error
                    planning.report_refusals(plans[name])
                made = prepared_from(plans, look.observed, planner)
                self._check_covered(lease, made.ports)
                self._claim(asker, id, relies_on=relies | made.ports, changes=made.ports)
                plans = {name: planning.isolated(plan) for name, plan in plans.items()}
                for plan in plans.values():
                    await planning.note_baseline(plan, look.observed)
                lease = self._claim(asker, id, relies_on=made.ports, changes=made.ports)
                now = self._clock.wall_ns()
                prepared = PreparedSet(
                    id=id,
                    lease=body.lease,
                    lease_epoch=lease.epoch,
                    holder=lease.owner,
                    run=run_of(lease.owner),
                    rule=body.after_crash,
                    mode=body.mode,
                    ready_within_s=body.ready_within_s,
                    targets=[*made.targets],
                    ends={**made.ends},
                    ports=sorted(made.ports, key=natural_key),
                    wall_ns=now,
                    expires_wall_ns=None if body.for_s is None else now + round(body.for_s * 1e9),
                    by="" if caller is None else caller.name,
                    verified=caller is not None and caller.is_verified,
                )
                live = LiveSet(
                    prepared=prepared,
                    routed=made.routed,
                    expected=planner.expect(prepared.ends, any(made.routed.values())),
                    read_ns=dict(look.ended_ns),
                )
                first = live.target_of(live.states[BEFORE], first=next(iter(requests))) or BEFORE
                for target in live.states:
                    live.way(first, target)
                with journal_written():
                    self._journal.prepare(prepared, at=first)
        except BaseException:
            self._ledger.release(Reason.PREPARED_SET, id)
            raise
        return live, SetPrepared(
            prepared_set=id,
            lease=prepared.lease,
            holder=prepared.holder,
            targets=[*requests],
            rule=prepared.rule,
            overridden=[*dict.fromkeys(one for plan in plans.values() for one in plan.overridden)] or UNSET,
            ports=prepared.ports,
            expires_wall_ns=UNSET if prepared.expires_wall_ns is None else prepared.expires_wall_ns,
            by=prepared.by or UNSET,
            verified=prepared.verified if prepared.by else UNSET,
        )

    def _claim(
        self, asker: Asker, id: str, *, relies_on: frozenset[str], changes: frozenset[str] = frozenset()
    ) -> Claim:
        """Hold ports for a set that is being prepared; returns its lease. Raises RefusedError where one is taken."""
        now = self._clock.wall_ns()
        self._ledger.check(asker, relies_on, PortAction.RELY, now_wall_ns=now)
        self._ledger.check(asker, changes, PortAction.CHANGE, now_wall_ns=now)
        lease = self._ledger.get(Reason.LEASE, asker.lease or "")
        assert lease is not None
        self._ledger.claim(
            Claim(
                id=id,
                reason=Reason.PREPARED_SET,
                owner=lease.owner,
                ports=changes,
                run=lease.run,
                since_wall_ns=now,
                relies_on=relies_on,
                switches=asker.switches,
                what=f"prepared set {id}, which is being prepared",
            )
        )
        return lease

    def _check_covered(self, lease: Claim, ports: frozenset[str]) -> None:
        """Raises RefusedError where a set would hold ports that its lease does not cover: it would pass those who wait
        for them or have reserved them.
        """
        if not (missing := ports - lease.ports):
            return
        named, both = (" ".join(sorted(found, key=natural_key)) for found in (missing, ports | lease.ports))
        remedy = f"`hwd lease release {lease.id}`, then `hwd lease take {both}`"
        if lease.run is not None:
            remedy = f"it belongs to run {lease.run}; take one of your own: `hwd lease take {both}`"
        now = self._clock.wall_ns()
        asker = Asker(run=lease.run, until_wall_ns=lease.expires_wall_ns)
        taken = [str(one) for one in self._ledger.refusals(asker, missing, PortAction.LEASE, now_wall_ns=now)]
        raise RefusedError(
            f"prepare: its targets change or pass ports that lease {lease.id} does not cover: {named}. "
            f"A set holds only ports of its lease: {remedy}" + (f". Not free now: {'; '.join(taken)}" if taken else "")
        )
