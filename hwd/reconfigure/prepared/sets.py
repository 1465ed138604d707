"""Prepared sets of one testbed: prepared, switched between their targets, settled after a restart, and released.

prepared = await sets.prepare({"day": request, "night": other}, PrepareBody(targets=targets, lease="k3v9"))
reconfiguration = await sets.switch(prepared.id, "night", id="a1b2c3d4")
await sets.release(prepared.id, why="released")
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import ClassVar

from hwd.model.bodies import PrepareBody
from hwd.model.daemon import DaemonRecovered, JournalGivenUp
from hwd.model.host import HostBirth, HostUp
from hwd.model.lease import LeaseReleased
from hwd.model.plan import Plan
from hwd.model.prepared_set import (
    PreparedSetStatus,
    SetReleased,
)
from hwd.model.reconfiguration import ReconfigurationEnded
from hwd.model.request import Caller, Request
from hwd.ports.claim import Claim
from hwd.ports.ledger import Ledger
from hwd.ports.rules import PortAction, Reason
from hwd.reconfigure.apply.agent_watch import RENEW_S, AgentWatch
from hwd.reconfigure.apply.reconfiguration import Emitter, Outcome, Reconfiguration
from hwd.reconfigure.apply.switches import Switches
from hwd.reconfigure.journal.journal import Journal
from hwd.reconfigure.journal.sets import StoredSet
from hwd.reconfigure.prepared.ends import RELEASED, SetEnds, end_of_lease
from hwd.reconfigure.prepared.live_set import LiveSet
from hwd.reconfigure.prepared.preparer import Preparer
from hwd.reconfigure.prepared.set_moves import SetMoves
from hwd.reconfigure.prepared.settling import AGAIN_S, Settling
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import FailedError, RefusedError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.devices.facts import SwitchRead, SwitchUp

log = logging.getLogger(__name__)


class PreparedSets:
    """Owns every set. Also a `Sink`: a set ends with its lease, and is settled as its switches connect.

    `ends`: how sets ended.
    """

    TAKES: ClassVar = (
        LeaseReleased,
        SetReleased,
        ReconfigurationEnded,
        DaemonRecovered,
        JournalGivenUp,
        SwitchUp,
        SwitchRead,
        HostUp,
        HostBirth,
    )

    def __init__(
        self,
        *,
        preparer: Preparer,
        journal: Journal,
        switches: Switches,
        ledger: Ledger,
        agent_watch: AgentWatch,
        moves: SetMoves,
        settling: Settling,
        clock: Clock,
        emit: Emitter,
    ) -> None:
        self._preparer = preparer
        self._journal = journal
        self._switches = switches
        self._ledger = ledger
        ledger.report_why(Reason.PREPARED_SET, self._left_of)
        self._agent_watch = agent_watch
        self._moves = moves
        self._settling = settling
        self._clock = clock
        self._emit = emit
        self.ends = SetEnds()
        left = {entry.of_set.id: entry.reconfiguration for entry in journal.open if entry.of_set is not None}
        self._sets: dict[str, LiveSet] = {
            one.prepared.id: settling.take_over(one, left_open=left.get(one.prepared.id, "")) for one in journal.sets
        }
        self._to_arm = set(self._sets)
        self._changed = asyncio.Event()

    # --- what there is

    def all(self) -> tuple[PreparedSetStatus, ...]:
        """The sets that have not ended, oldest first."""
        return tuple(map(self._status, self._sets.values()))

    def get(self, id: str) -> PreparedSetStatus:
        """Raises RefusedError where there is none."""
        return self._status(self._live(id))

    def is_settled(self, id: str) -> bool:
        """Whether the target of the switches of a set is known, after a restart too. Raises RefusedError where there is
        none.
        """
        return self._live(id).is_settled

    def lease_of(self, id: str) -> str:
        """The lease that a set is held under. Raises RefusedError where there is no such set."""
        return self._live(id).prepared.lease

    def under(self, lease: str) -> tuple[str, ...]:
        """The sets that are held under a lease, and end with it."""
        return tuple(live.id for live in self._sets.values() if live.prepared.lease == lease)

    # --- prepare

    async def prepare(
        self, requests: Mapping[str, Request], body: PrepareBody, caller: Caller | None = None
    ) -> PreparedSetStatus:
        """Route and check every target, hold the ports, journal the set, and let agents watch; then it can be switched.
        `requests`: what the targets of `body` mean.

        The switches are read once, and stay as they are. Raises what a plan raises, for each target with its name, and
        FailedError where the journal does not take the set.
        """
        try:
            live, fact = await self._preparer.prepare(requests, body, caller)
        except BaseException:
            self._changed.set()  # a journal that refused it has to be written anew
            raise
        self._sets[live.id] = live
        self._ledger.claim(live.claim)
        self._changed.set()
        self._emit(fact)
        await self._arm(live)
        return self._status(live)

    # --- switch

    async def switch(
        self,
        id: str,
        target: str,
        *,
        reconfiguration: str,
        caller: Caller | None = None,
        epoch: int | None = None,
        override: str = "",
    ) -> Reconfiguration:
        """Drive the switches to a target of a set, and read them back. The rest of the way is that of any other
        reconfiguration.

        Nothing is read, planned or synced before the first byte, but where a switch may not be at the target that the
        journal says: then they are read, and it goes from what they carry, synced as any other. Raises RefusedError
        where the set or its lease is over, where one of its ports is not free, and while a restart has not found its
        target yet; after the way back to what there was FailedError and LinkError. `override`: whose right the caller
        overrides, and why.
        """
        asked_ns = self._clock.monotonic_ns()
        live = self._live(id)
        self._check_switchable(live, target)
        new_plan, disturbed = None, live.disturbed
        if disturbed != live.looked:
            new_plan = await self._plan_after_read(live, target)
            live = self._live(id)  # it may have been released meanwhile
            self._check_switchable(live, target)
        stored = self._stored(live)
        plan, wanted = live.way(stored.at, target) if new_plan is None else (new_plan, live.wanted(new_plan))
        lease = self._claim_switch(live, reconfiguration, plan.touches, epoch=epoch)
        one = await self._moves.drive(
            live,
            reconfiguration,
            plan,
            wanted,
            caller=caller,
            lease_holder=lease.owner,
            origin=stored.at if new_plan is None else None,
            asked_ns=asked_ns,
            override=override,
        )
        if new_plan is not None:
            live.looked = disturbed
        return one

    async def _plan_after_read(self, live: LiveSet, target: str) -> Plan | None:
        """The way from what the switches of a set carry; None where that is the target that the journal says.

        The set stays disturbed until its switches are at a target.
        """
        disturbed = live.disturbed
        look = await self._switches.read_unmoved(live.switches)
        live.read_ns = dict(look.ended_ns)
        state = live.state_from(look.observed)
        at = self._stored(self._live(live.id)).at
        if live.target_of(state, first=at) != at:
            return self._moves.plan_from(live, state, target, look.observed)
        live.looked = disturbed
        return None

    def _check_switchable(self, live: LiveSet, target: str) -> None:
        stored = self._stored(live)
        if target not in live.states:
            raise RefusedError(f"prepared set {live.id}: no target {target!r}; there are {', '.join(live.states)}")
        if stored.doubt:
            raise RefusedError(f"prepared set {live.id}: {stored.doubt}. `hwd release {live.id}` ends it")
        if live.ends_because:
            raise RefusedError(f"prepared set {live.id}: is over: {live.ends_because}. Prepare it again")
        if not live.is_settled:
            why = live.why or "they are read now"
            raise RefusedError(
                f"prepared set {live.id}: it is not known yet where its switches are: {why}. "
                f"It is tried again by itself; `hwd release {live.id}` leaves them as they are"
            )

    def _claim_switch(self, live: LiveSet, reconfiguration: str, ports: frozenset[str], *, epoch: int | None) -> Claim:
        """Claim the ports of a switch of a set: between the question and the claim nothing is awaited."""
        now, asker = self._clock.wall_ns(), live.asker(reconfiguration, epoch=epoch)
        if not live.claim.is_in_force(now):
            raise RefusedError(f"prepared set {live.id}: it has expired. Prepare it again")
        self._ledger.check(asker, ports, PortAction.RELY, now_wall_ns=now)
        self._ledger.check(asker, ports, PortAction.CHANGE, now_wall_ns=now)
        self._moves.claim(live, reconfiguration, ports)
        lease = self._ledger.get(Reason.LEASE, live.prepared.lease)
        assert lease is not None
        return lease

    # --- release

    async def release(self, id: str, *, why: str = RELEASED, epoch: int | None = None) -> PreparedSetStatus:
        """End a set: its ports are free, its switches stay as they are. Raises RefusedError while it is being switched,
        and FailedError where the journal does not take it: then it stands.
        """
        live = self._live(id)
        if epoch not in (None, live.prepared.lease_epoch):
            raise RefusedError(
                f"prepared set {id}: epoch {epoch} is not that of its lease, epoch {live.prepared.lease_epoch} is"
            )
        if live.switching is not None:
            raise RefusedError(
                f"prepared set {id}: reconfiguration {live.switching} switches it now. Wait, or end that with "
                f"`hwd rollback {live.switching}`"
            )
        status = self._status(live)
        try:
            self._end(live, why)
        except OSError as error:
            self._changed.set()
            raise FailedError(
                f"prepared set {id}: cannot be released, the journal does not take it: {reason_of(error)}. "
                "It stands; make room on the disk of the data directory"
            ) from error
        await self._disarm(live)
        return status

    def _end(self, live: LiveSet, why: str) -> None:
        """End a set. On OSError it is still in force."""
        at = self._stored(live).at
        self._journal.release(live.id)
        del self._sets[live.id]
        self._ledger.release(Reason.PREPARED_SET, live.id)
        prepared = live.prepared
        self._emit(SetReleased(prepared_set=live.id, at=at, why=why, lease=prepared.lease, holder=prepared.holder))
        if why != RELEASED:
            log.info("prepared set %s of %s: is over: %s; its last target was %s", live.id, prepared.holder, why, at)

    # --- over time

    def __call__(self, document: Document) -> None:
        match document.fact:
            case LeaseReleased() as fact:
                for live in self._sets.values():
                    if live.prepared.lease == fact.lease:
                        live.ends_because = live.ends_because or end_of_lease(fact)
            case SetReleased():
                self.ends(document)
            case ReconfigurationEnded(reconfiguration=id, outcome=outcome):
                for live in self._sets.values():
                    if live.switching == id:
                        live.switching = None
                        live.disturbed += outcome != Outcome.CONFIRMED
                        if outcome == Outcome.FAILED:
                            live.is_settled, live.left_open = False, id
                            self._ledger.claim(live.claim)
                        else:
                            live.read_ns = dict.fromkeys(live.switches, self._clock.monotonic_ns())
                        self._to_arm.add(live.id)  # the watch for it has ended that of the set
            case JournalGivenUp(reconfiguration=id):
                for live in self._sets.values():
                    if live.left_open == id:
                        live.is_settled, live.ends_because = True, f"its reconfiguration {id} was given up"
            case HostUp() | HostBirth():
                self._to_arm.update(self._sets)
            case SwitchUp(switch=switch):
                for live in self._sets.values():
                    live.disturbed += switch in live.switches
            case SwitchRead() as fact:
                for live in self._sets.values():
                    live.disturbed += live.is_changed_by(fact)
                return
        self._changed.set()

    async def run(self) -> None:
        """End sets at their time, settle them after a restart, and keep agents watching, until cancelled."""
        loop = asyncio.get_running_loop()
        arm_all_s = loop.time() + RENEW_S
        while True:
            self._changed.clear()
            again = False
            for id in [*self._sets]:
                if (live := self._sets.get(id)) is None:
                    continue  # it was released while another was settled
                try:
                    again |= not await self._keep(live)
                except Exception:  # a supervisor: the set stays as it is, and the daemon goes on
                    log.exception("prepared set %s: a bug in keeping it", live.id)
                    again = True
            again |= bool(self._journal.write_again())
            if loop.time() >= arm_all_s:
                self._to_arm.update(self._sets)
                arm_all_s = loop.time() + RENEW_S
            await self._arm_again()
            now_ns = self._clock.wall_ns()
            waits_s = [arm_all_s - loop.time(), *(live.claim.left_s(now_ns) for live in self._sets.values())]
            try:
                async with asyncio.timeout(max(0.001, min([*waits_s, *([AGAIN_S] if again else [])]))):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _keep(self, live: LiveSet) -> bool:
        """Whether nothing is left to do for a set until a document comes, or its time."""
        if self._stored(live).doubt:
            return True
        if not live.is_settled and live.switching is None:
            if asyncio.get_running_loop().time() < live.settle_after_s:
                return False
            await self._settling.settle(live)
            if live.id not in self._sets:
                return True
            if not live.is_settled:
                return False
        now = self._clock.wall_ns()
        if live.switching is not None or live.id not in self._sets:
            return True
        if not live.claim.is_in_force(now):
            live.ends_because = live.ends_because or "it has expired"
        if live.lease_in_force(self._ledger, now) is None:
            live.ends_because = live.ends_because or f"its lease {live.prepared.lease} is over"
        if not live.ends_because:
            return True
        try:
            self._end(live, live.ends_because)
        except OSError as error:
            log.warning("prepared set %s: its end cannot be journaled yet: %s", live.id, reason_of(error))
            return False
        await self._disarm(live)
        return True

    async def _arm_again(self) -> None:
        """Let agents watch again that may have stopped: they are new, or a switch has taken their ports."""
        self._to_arm &= self._sets.keys()
        for id in sorted(self._to_arm):
            live = self._sets.get(id)  # it may have been released while another was armed
            if live is None or live.switching is None:
                self._to_arm.discard(id)
            if live is not None and live.switching is None:
                await self._arm(live)

    async def _arm(self, live: LiveSet) -> None:
        """Agents sample fast from then on, for a set whose switches wait for ready links: else nobody needs that."""
        if live.prepared.ready_within_s is not None:
            await self._agent_watch.arm(live.id, live.links)

    async def _disarm(self, live: LiveSet) -> None:
        if live.prepared.ready_within_s is not None:
            await self._agent_watch.disarm(live.id, {end.host for link in live.links for end in link.ends})

    # --- parts

    def _left_of(self, claim: Claim) -> str:
        """How long a set still lasts, for others who want its ports."""
        live, now = self._sets.get(claim.id), self._clock.wall_ns()
        if live is None:
            return "which is being prepared"
        lease = self._ledger.get(Reason.LEASE, live.prepared.lease)
        if lease is None:
            return (
                f"whose lease {live.prepared.lease} is over, until its switches have been brought where its rule says"
            )
        left_s = min(claim.left_s(now), lease.left_s(now))
        return f"for another {left_s:.0f} s, or longer where lease {lease.id} is renewed"

    def _live(self, id: str) -> LiveSet:
        if (live := self._sets.get(id)) is None:
            if (ended := self.ends.get(id)) is not None:
                raise RefusedError(f"{ended}. Prepare it again with `hwd prepare`")
            raise RefusedError(f"prepared set {id}: none of that id is known. See `hwd sets`")
        return live

    def _stored(self, live: LiveSet) -> StoredSet:
        stored = self._journal.set(live.id)
        assert stored is not None
        return stored

    def _status(self, live: LiveSet) -> PreparedSetStatus:
        return live.status(self._stored(live), self._switches.latest(), now_wall_ns=self._clock.wall_ns())
