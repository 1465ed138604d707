"""The moves of a prepared set: its switches brought to a target, or back where that fails."""

from collections.abc import Sequence
from dataclasses import replace

from hwd.model.circuit import Observed
from hwd.model.plan import Plan
from hwd.model.prepared_set import SetState
from hwd.model.reconfiguration import WantedSwitch
from hwd.model.request import Caller
from hwd.ports.claim import Claim
from hwd.ports.ledger import Ledger
from hwd.ports.rules import Reason
from hwd.reconfigure.apply.completion import Completion
from hwd.reconfigure.apply.drive import Drive
from hwd.reconfigure.apply.reconfiguration import Reconfiguration
from hwd.reconfigure.plans.planner import Planner, changed_crossconnects, moved_ports
from hwd.reconfigure.prepared.live_set import LiveSet
from hwd.reconfigure.transfers import Transfers
from hwd_drivers.core.clock import Clock


class SetMoves:
    """Drives the switches of sets, as reconfigurations."""

    def __init__(
        self,
        planner: Planner,
        *,
        ledger: Ledger,
        transfers: Transfers,
        drive: Drive,
        completion: Completion,
        clock: Clock,
    ) -> None:
        self._planner = planner
        self._ledger = ledger
        self._transfers = transfers
        self._drive = drive
        self._completion = completion
        self._clock = clock

    def plan_from(self, live: LiveSet, state: SetState, target: str, observed: Observed) -> Plan:
        """Plan a switch of a set, which also touches the ports of what others have put onto the ends of the set, and
        those of its light.
        """
        plan = live.plan_from(state, target)
        lit = self._planner.ports_lit_by(changed_crossconnects(plan.moves), observed)
        return replace(plan, touches=plan.touches | moved_ports(plan.moves) | lit)

    def claim(self, live: LiveSet, id: str, ports: frozenset[str]) -> None:
        """Claim ports for the reconfiguration of this id. The caller has asked the ledger."""
        self._ledger.claim(
            Claim(
                id=id,
                reason=Reason.RECONFIGURATION,
                owner=live.prepared.holder,
                ports=ports,
                run=live.prepared.run,
                switches=frozenset(live.switches),
                what=f"prepared set {live.id}",
            )
        )

    async def drive(
        self,
        live: LiveSet,
        id: str,
        plan: Plan,
        wanted: Sequence[WantedSwitch],
        *,
        caller: Caller | None,
        lease_holder: str,
        origin: str | None = None,
        asked_ns: int | None = None,
        override: str = "",
        drains: bool = False,
    ) -> Reconfiguration:
        """Drive the switches of a set and read them back. Raises after the way back to what there was.

        `origin`: the target at which they are, so that nothing is read and synced before. `drains`: transfers in
        flight are waited for, and then cut.
        """
        one = Reconfiguration(
            id=id,
            plan=plan,
            run=live.prepared.run,
            started_ns=self._clock.monotonic_ns(),
            read_ns=dict(live.read_ns),
            lease_holder=lease_holder,
            caller=caller,
            override=override,
            lease_epoch=live.prepared.lease_epoch,
            wanted=wanted,
            asked_ns=asked_ns,
        )
        self._completion.under_way[id] = one
        live.switching = id
        try:
            if drains:
                one.remarks += await self._transfers.drain(plan.touches, by=id, what=plan.what)
            await (self._drive.run(one) if origin is None else self._drive.switch(one, origin=origin))
        except BaseException as error:  # also where the caller is cancelled: it goes back to what there was before
            await self._completion.go_back_from(one, error)
            raise
        return one
