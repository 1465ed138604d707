"""Requests for leases: the queue of those who wait, and the calendar of reservations. Grants each when it can.

request = await requests.enqueue(holder="ada", ports=["ocs1.3"], for_s=600, priority=1)
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from hwd.model.lease import LeaseDelayed, LeaseQueued, LeaseReserved, LeaseWithdrawn
from hwd.ports.claim import Claim, lease, run_of, utc
from hwd.ports.lease_record import LeaseRecord
from hwd.ports.lease_request import LeaseRequest, first_of, in_turn, obstacles, waits
from hwd.ports.ledger import Asker
from hwd.ports.rules import PortAction, Reason
from hwd.reconfigure.leases.leases import WRITE_AGAIN_S, Leases, check_terms
from hwd.records.lease_table import LeaseTable
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import ConfigError, HwdError, RefusedError

log = logging.getLogger(__name__)

WAITER_SILENT_S = 30.0
"""A client that waits asks every second; one that was not heard for so long is dead, and leaves the queue. A lease that
was granted to it ends as soon.
"""
CLAIM_WITHIN_S = 300.0
"""A lease that was reserved ends when nobody claims it for so long after it began: by a heartbeat, a renewal, or an act
under it.
"""
WAITERS_MAX = 100
RESERVATIONS_MAX = 1000
LOOK_S = 30.0
"""The longest sleep: the clock on the wall may be set meanwhile, and who waits long enough moves forward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a waiter stands: 1 is next among those that wait for its ports. `waits_for`: why it is not granted yet."""

    number: int
    waits_for: tuple[str, ...]


class LeaseRequests:
    """Owns the leases that are not granted yet."""

    def __init__(self, leases: Leases, *, store: LeaseTable, clock: Clock, sink: Sink) -> None:
        self._leases = leases
        self._ledger = leases.ledger
        self._store = store
        self._clock = clock
        self._emit = Emitter(clock, sink)
        self._requests: dict[str, LeaseRequest] = {}
        self._last_sign_ns: dict[str, int] = {}
        self._number = 0
        self._says = True
        """Whether the next failure of the records is worth a line: only the first of several is."""
        self._granting: str | None = None
        self._withdrawn: dict[str, str] = {}
        """How the request that is being granted was withdrawn meanwhile."""
        self._delays: dict[str, frozenset[tuple[Reason, str]]] = {}
        """By reservation whose time has come: the claims in its way that were told last."""
        self._changed = asyncio.Event()
        self._ledger.on_release(self._look)

    async def load(self) -> None:
        for one in await self._store.requests():
            self._put(one)
            self._number = max(self._number, one.number)

    @property
    def waiting(self) -> tuple[LeaseRequest, ...]:
        """The requests that wait, in the order of their turns."""
        return tuple(in_turn(self._of(Reason.WAIT), self._clock.wall_ns()))

    @property
    def reserved(self) -> tuple[LeaseRequest, ...]:
        """The reservations in the order of their times."""
        return tuple(sorted(self._of(Reason.RESERVATION), key=lambda one: (one.at_wall_ns or 0, one.number)))

    def get(self, id: str) -> LeaseRequest | None:
        return self._requests.get(id)

    def places(self) -> dict[str, Place]:
        """The place of each waiter, by id."""
        found: dict[str, Place] = {}
        before: list[LeaseRequest] = []
        for one, waits_for in waits(self.waiting, self._ledger, self._clock.wall_ns()):
            number = 1 + sum(1 for other in before if other.ports & one.ports)
            found[one.id] = Place(number=number, waits_for=waits_for)
            before.append(one)
        return found

    def delay(self, one: LeaseRequest) -> tuple[str, ...] | None:
        """What a reservation whose time has come waits for; None before its time, and for who waits in the queue."""
        now = self._clock.wall_ns()
        if one.at_wall_ns is None or one.at_wall_ns > now:
            return None
        return first_of([str(refusal) for refusal in obstacles(one, self._ledger, now)])

    async def enqueue(
        self,
        *,
        holder: str,
        ports: Iterable[str],
        for_s: float,
        priority: int = 0,
        heartbeat_s: float | None = None,
    ) -> LeaseRequest:
        """Wait for a lease in the queue; see `hwd.ports.lease_request` for the order.

        It has to be heard every `WAITER_SILENT_S` at most. Raises RefusedError where nobody can ever lease a port, and
        while a reload waits for the end of those who have or want one.
        """
        wanted, now = frozenset(ports), self._clock.wall_ns()
        check_terms(wanted, for_s=for_s, heartbeat_s=heartbeat_s)
        for refusal in self._ledger.refusals(Asker(), wanted, PortAction.LEASE, now_wall_ns=now):
            if refusal.claim is not None and refusal.claim.reason in (Reason.DELEGATION, Reason.RELOAD):
                raise RefusedError(str(refusal))
        if len(self.waiting) >= WAITERS_MAX:
            raise RefusedError(f"lease: {WAITERS_MAX} wait in the queue already. See `hwd lease list`, and try later")
        request = await self._add(
            holder=holder, ports=wanted, for_s=for_s, priority=priority, heartbeat_s=heartbeat_s, arrived_wall_ns=now
        )
        place = self.places().get(request.id)
        self._emit(LeaseQueued(**_fields(request), priority=priority, place=1 if place is None else place.number))
        return request

    async def reserve(
        self, *, holder: str, ports: Iterable[str], for_s: float, at_wall_ns: int, heartbeat_s: float | None = None
    ) -> LeaseRequest:
        """Reserve a lease from a time on. Raises RefusedError where a lease, a reservation or a due run has a port
        then.
        """
        wanted, now = frozenset(ports), self._clock.wall_ns()
        check_terms(wanted, for_s=for_s, heartbeat_s=heartbeat_s)
        if at_wall_ns <= now:
            raise ConfigError(f"lease: {utc(at_wall_ns)} is over; it is {utc(now)}. Take it now, without a time")
        until_ns = at_wall_ns + round(for_s * 1e9)
        asker = Asker(run=run_of(holder), from_wall_ns=at_wall_ns, until_wall_ns=until_ns)
        self._ledger.check(asker, wanted, PortAction.RESERVE, now_wall_ns=now)
        if len(self.reserved) >= RESERVATIONS_MAX:
            raise RefusedError(f"lease: there are {RESERVATIONS_MAX} reservations already. See `hwd lease list`")
        request = await self._add(
            holder=holder,
            ports=wanted,
            for_s=for_s,
            at_wall_ns=at_wall_ns,
            heartbeat_s=heartbeat_s,
            arrived_wall_ns=now,
        )
        self._emit(LeaseReserved(**_fields(request), at_wall_ns=at_wall_ns, until_wall_ns=until_ns))
        return request

    def heartbeat(self, id: str) -> None:
        """A sign of who waits."""
        if id in self._requests:
            self._last_sign_ns[id] = self._clock.monotonic_ns()

    async def withdraw(self, id: str, *, why: str = "released", by: str = "", reason: str = "") -> LeaseRequest | None:
        """Remove a request; None where there is none. `by` and `reason`: who kicks it, and why."""
        if (request := self._requests.pop(id, None)) is None:
            return None
        self._last_sign_ns.pop(id, None)
        if id == self._granting:  # its ports stay claimed until the grant is done, and its lease ends at once
            self._withdrawn = {"why": why, "by": by, "reason": reason}
        else:
            self._ledger.release(request.claim.reason, id)
        waits_for = self.delay(request) if why == "missed" else None
        self._emit(
            LeaseWithdrawn(
                **_fields(request),
                why=why,
                by=by or UNSET,
                reason=reason or UNSET,
                waits_for=[*waits_for] if waits_for else UNSET,
            )
        )
        await self._leases.delete(id)
        return request

    async def run(self) -> None:
        """Grant requests as they can be, and remove those whose clients are dead or whose time is over."""
        while True:
            self._changed.clear()
            waits_s: list[float] = []
            for id in tuple(self._requests):
                one = self._requests.get(id)  # it may have left while another was withdrawn
                if one is not None and (why := self._over(one)):
                    await self.withdraw(id, why=why)
            if not await self._grant_all():
                waits_s.append(WRITE_AGAIN_S)
            self._tell_delays()
            now, silent_ns = self._clock.wall_ns(), self._clock.monotonic_ns() - round(WAITER_SILENT_S * 1e9)
            for one in self._requests.values():
                waits_s.append(LOOK_S)
                if one.at_wall_ns is None:
                    waits_s.append((self._last_sign_ns[one.id] - silent_ns) / 1e9)
                else:
                    times = (one.at_wall_ns, one.ends_wall_ns or 0)
                    waits_s += [(at_ns - now) / 1e9 for at_ns in times if at_ns > now]
            try:  # not wait_for, which in Python 3.11 loses a cancellation that comes with the change
                async with asyncio.timeout(max(0.001, min(waits_s)) if waits_s else None):
                    await self._changed.wait()
            except TimeoutError:
                continue

    # --- inside

    def _of(self, reason: Reason) -> list[LeaseRequest]:
        return [one for one in self._requests.values() if one.claim.reason is reason]

    def _put(self, request: LeaseRequest) -> None:
        self._requests[request.id] = request
        self._last_sign_ns[request.id] = self._clock.monotonic_ns()
        self._ledger.claim(request.claim)

    async def _add(self, **terms: Any) -> LeaseRequest:
        """Make a request durable. Its claim stands meanwhile, so that nobody reserves the same time."""
        self._number += 1
        request = LeaseRequest(id=self._leases.new_id(), number=self._number, **terms)
        self._ledger.claim(request.claim)
        try:
            await self._leases.write_ends()
            await self._store.save_request(request)
        except BaseException:  # its id was not returned, so nobody could withdraw it; it may be in the records
            self._ledger.release(request.claim.reason, request.id)
            self._leases.delete_later(request.id)
            raise
        self._put(request)
        self._changed.set()
        return request

    def _over(self, one: LeaseRequest) -> str:
        """Why a request is over, empty where it is not."""
        if one.ends_wall_ns is not None:
            return "missed" if one.ends_wall_ns <= self._clock.wall_ns() else ""
        silent_ns = self._clock.monotonic_ns() - self._last_sign_ns[one.id]
        return "silent" if silent_ns >= WAITER_SILENT_S * 1e9 else ""

    async def _grant_all(self) -> bool:
        """Grant what can be: reservations whose time has come, then waiters in turn. False: the records refuse."""
        while (request := self._next()) is not None:
            try:
                await self._grant(request)
            except HwdError as error:
                level, self._says = (logging.WARNING if self._says else logging.DEBUG), False
                log.log(level, "lease %s of %s: cannot be granted yet: %s", request.id, request.holder, error)
                return False
        return True

    def _next(self) -> LeaseRequest | None:
        now = self._clock.wall_ns()
        for one in self.reserved:
            if one.claim.since_wall_ns <= now and not obstacles(one, self._ledger, now):
                return one
        return next((one for one, waits_for in waits(self.waiting, self._ledger, now) if not waits_for), None)

    def _tell_delays(self) -> None:
        """Tell of each reservation whose time has come who has its ports; again where it is somebody else."""
        now, before = self._clock.wall_ns(), self._delays
        self._delays = {}
        for one in self.reserved:
            if one.claim.since_wall_ns > now or not (found := obstacles(one, self._ledger, now)):
                continue
            named = frozenset((each.claim.reason, each.claim.id) for each in found if each.claim is not None)
            self._delays[one.id] = named
            if before.get(one.id) != named:
                waits_for = [*first_of([*map(str, found)])]
                log.info("lease %s of %s: cannot begin at its time: %s", one.id, one.holder, "; ".join(waits_for))
                self._emit(LeaseDelayed(**_fields(one), at_wall_ns=one.claim.since_wall_ns, waits_for=waits_for))

    async def _grant(self, request: LeaseRequest) -> None:
        """Where somebody withdraws the request meanwhile its lease ends at once."""
        now, id = self._clock.wall_ns(), request.id
        claim = lease(
            id=id,
            holder=request.holder,
            ports=request.ports,
            taken_wall_ns=now,
            expires_wall_ns=request.until_wall_ns(now),
        )
        within_s = WAITER_SILENT_S if request.at_wall_ns is None else CLAIM_WITHIN_S
        self._granting = id
        try:
            await self._leases.grant(LeaseRecord(claim=claim, heartbeat_s=request.heartbeat_s, claim_within_s=within_s))
        except BaseException:
            if id in self._requests:
                self._ledger.claim(request.claim)
            raise
        finally:
            self._granting = None
        self._ledger.release(Reason.WAIT, id)
        self._last_sign_ns.pop(id, None)
        if self._requests.pop(id, None) is None:
            await self._leases.release(id, **self._withdrawn)

    def _look(self, released: Claim) -> None:
        if released.id != self._granting:
            self._changed.set()


def _fields(one: LeaseRequest) -> dict[str, Any]:
    return {"lease": one.id, "holder": one.holder, "ports": sorted(one.ports), "for_s": one.for_s}
