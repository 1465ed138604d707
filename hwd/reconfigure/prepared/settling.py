"""The settling of prepared sets after a restart, and after a switch that failed: where their switches are is found, and
what is at no target goes where the rule of its set says.
"""

import asyncio
import logging
import re
from dataclasses import replace
from typing import Final

from hwd.model.plan import Plan
from hwd.model.prepared_set import FINISH, SetSettled, moves_between, wanted_at
from hwd.model.request import Caller
from hwd.model.switch import SwitchAdopted
from hwd.ports.ledger import Ledger
from hwd.ports.rules import PortAction
from hwd.reconfigure.apply.completion import Completion
from hwd.reconfigure.apply.switches import Switches
from hwd.reconfigure.journal.journal import Journal
from hwd.reconfigure.journal.sets import StoredSet
from hwd.reconfigure.plans.planner import Planner
from hwd.reconfigure.prepared.live_set import LiveSet
from hwd.reconfigure.prepared.set_moves import SetMoves
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import HwdError, RefusedError
from hwd_drivers.core.ids import Ids
from hwd_drivers.core.reason import reason_of

AGAIN_S: Final = 5.0
"""The pause after a set could not be settled, or its end not be journaled."""

_NUMBERS: Final = re.compile(r"\d+")

log = logging.getLogger(__name__)


class Settling:
    """Finds where the switches of a set are, or brings them somewhere; the journal says which sets have not ended."""

    def __init__(
        self,
        planner: Planner,
        *,
        journal: Journal,
        switches: Switches,
        ledger: Ledger,
        moves: SetMoves,
        completion: Completion,
        clock: Clock,
        ids: Ids,
        emit: Emitter,
    ) -> None:
        self._planner = planner
        self._journal = journal
        self._switches = switches
        self._ledger = ledger
        self._moves = moves
        self._completion = completion
        self._clock = clock
        self._ids = ids
        self._emit = emit

    def take_over(self, stored: StoredSet, *, left_open: str) -> LiveSet:
        """Hold the ports of a set of an earlier process. Where its switches are is for `settle` to find."""
        prepared = stored.prepared
        routed, lost, there = {}, list[str](), self._planner.testbed.switches
        for one in prepared.targets:
            state = {name: found for name, found in prepared.state(one.name).items() if name in there}
            made = {link.link: link for link in self._planner.routed_of(state)}
            routed[one.name] = tuple(made[link.link] for link in one.links if link.link in made)
            lost += [f"{link.link} of {one.name}" for link in one.links if link.link not in made]
        live = LiveSet(
            prepared=prepared,
            routed=routed,
            expected=self._planner.expect([name for name in prepared.ends if name in there], any(routed.values())),
            is_settled=False,
            left_open=left_open,
            is_cut_off=bool(left_open),
        )
        if lost:
            live.ends_because = f"the testbed file has changed: {', '.join(lost)} is not made by its crossconnects"
        self._ledger.claim(live.claim)
        return live

    async def settle(self, live: LiveSet) -> None:
        """Read where the switches of a set are. What equals no target goes where its rule says, as a reconfiguration.

        A switch that a crash cut off comes first, by the recovery of the journal.
        """
        if any(one.reconfiguration == live.left_open for one in self._journal.open):
            live.why = f"reconfiguration {live.left_open} of it is open in the journal"
            return
        live.left_open = ""
        if lost := [name for name in live.switches if name not in self._switches.names]:
            why = f"the testbed file has changed: {', '.join(lost)} is no switch of it that the daemon drives"
            live.is_settled, live.ends_because = True, live.ends_because or why  # nobody can say where they are
            return
        if (stored := self._journal.set(live.id)) is None:
            return
        by_rule = stored.at if live.prepared.rule == FINISH else live.prepared.rule
        try:
            if away := self._switches.away(live.switches):
                live.why = "; ".join(away)
                return
            async with self._switches.turns.take(live.switches):
                disturbed = live.disturbed
                look = await self._switches.read(live.switches)
                if self._journal.set(live.id) is None:
                    return  # it was released meanwhile
                live.read_ns, live.looked = dict(look.ended_ns), disturbed
                state = live.state_from(look.observed)
                found = live.target_of(state, first=stored.at)
                goal = by_rule if live.is_cut_off else found or by_rule
                if found == goal or live.states[goal] == state:
                    self._found(live, stored, goal)
                else:
                    await self._bring(live, self._moves.plan_from(live, state, goal, look.observed))
        except HwdError as error:
            self._say_unsettled(live, str(error))
            return
        except OSError as error:
            self._say_unsettled(live, f"journal: {reason_of(error)}")
            return
        live.is_settled, live.is_cut_off, live.why = True, False, ""
        if self._journal.set(live.id) is not None:
            self._ledger.claim(live.claim)

    def _say_unsettled(self, live: LiveSet, why: str) -> None:
        if _NUMBERS.sub("", live.why) != _NUMBERS.sub("", why):  # the time that a lease has left is no news
            log.warning("prepared set %s: it is not at a target yet, and that is tried again: %s", live.id, why)
        live.why = why
        live.settle_after_s = asyncio.get_running_loop().time() + AGAIN_S

    def _found(self, live: LiveSet, stored: StoredSet, at: str) -> None:
        """The switches are at this target. On OSError nothing is told."""
        why = "the switches are where the journal says"
        if at != stored.at:
            why = f"the journal says {stored.at}, and the switches have this: a power cut took what had come between"
            self._journal.stand(live.id, at=at)
            target = live.prepared.target(at)
            assert target is not None
            for one in wanted_at(target, moves_between(live.states[stored.at], live.states[at])):
                by = f"prepared set {live.id}, found at {at}"
                self._emit(SwitchAdopted(switch=one.switch, crossconnects=one.crossconnects, free=one.free, by=by))
            log.warning("prepared set %s: at %s: %s", live.id, at, why)
        self._emit(SetSettled(prepared_set=live.id, target=at, why=why))

    async def _bring(self, live: LiveSet, plan: Plan) -> None:
        """Bring the switches of a set to a target by its rule: journaled, driven and read back as all else."""
        assert plan.of_set is not None
        id = self._ids.token(length=8)
        caller = Caller(name=f"rule of prepared set {live.id}", is_verified=True)
        self._check_others(live, id, plan.touches - live.ports)
        self._moves.claim(live, id, plan.touches)
        one = await self._moves.drive(
            live, id, plan, live.wanted(plan), caller=caller, lease_holder=live.prepared.holder, drains=True
        )
        await self._completion.confirm(one)
        target = plan.of_set.target
        self._emit(SetSettled(prepared_set=live.id, target=target, why=f"by its rule {live.prepared.rule}, as {id}"))

    def _check_others(self, live: LiveSet, id: str, ports: frozenset[str]) -> None:
        """Raises RefusedError where somebody else has ports that others have joined with the ends of a set.

        Transfers on them are waited for, and a lease that has ended keeps no set from going by its rule.
        """
        now, asker = self._clock.wall_ns(), replace(live.asker(id), cuts=True, is_way_back=True)
        if live.lease_in_force(self._ledger, now) is None:
            asker = replace(asker, lease=None, epoch=None)
        refusals = self._ledger.refusals(asker, ports, PortAction.CHANGE, now_wall_ns=now)
        if taken := [one.text for one in refusals if one.claim is not None]:
            raise RefusedError("; ".join(taken))
