"""Leases: takes, renews, stores and ends the claims that somebody asked for.

lease = await leases.take(holder="ada", ports=["ocs1.3"], for_s=600)
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from msgspec import UNSET

from hwd.model.lease import LeaseReleased, LeaseRenewed, LeaseTaken
from hwd.model.link import SwitchCrossconnect
from hwd.ports.claim import Claim, lease, run_of
from hwd.ports.lease_record import LeaseRecord
from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import PortAction, Reason
from hwd.records.lease_table import LeaseTable
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import ConfigError, HwdError, RefusedError
from hwd_drivers.core.ids import Ids

log = logging.getLogger(__name__)

WRITE_AGAIN_S = 5.0
"""Between attempts while the records cannot be written."""
LONGEST_S = 7 * 24 * 3600.0
"""A lease without renewal for a week was forgotten."""
BASELINE: Final = "baseline of lease "
"""How the holder begins under which a baseline comes back."""
RESTORE_WITHIN_S = 600.0
"""The longest that a baseline is tried to be restored; then its ports are free as they are."""
HEARTBEAT_LEAST_S = 1.0
"""A holder on a busy machine may be late by some tenths of a second."""


class Leases:
    """The leases of the ledger: their epochs, their ends, and their durable copies.

    A lease ends at its expiry, by a release or a kick, and, where it has a heartbeat, when its holder was not heard in
    time. Silence is counted by the monotonic clock, from the start of the daemon on.
    """

    def __init__(self, ledger: Ledger, *, store: LeaseTable, clock: Clock, ids: Ids, sink: Sink) -> None:
        self.ledger = ledger
        self._store = store
        self._clock = clock
        self._ids = ids
        self._emit = Emitter(clock, sink)
        self._records: dict[str, LeaseRecord] = {}
        self._last_sign_ns: dict[str, int] = {}
        self._epoch = 0
        self._to_delete: set[str] = set()
        self._says = True
        """Whether the next failure of the records is worth a line: only the first of several is."""
        self._lasting: set[str] = set()
        self._changed = asyncio.Event()

    async def load(self) -> None:
        self._epoch = await self._store.epoch()
        for one in await self._store.all():
            self._lasting.add(one.id)
            self._put(one)

    def all(self) -> tuple[Claim, ...]:
        """Leases that have not expired, oldest first."""
        now = self._clock.wall_ns()
        in_force = (one for one in self.ledger.all(Reason.LEASE) if one.is_in_force(now))
        return tuple(sorted(in_force, key=lambda one: (one.since_wall_ns, one.id)))

    def get(self, id: str, *, epoch: int | None = None) -> Claim:
        """Raises RefusedError for one that is not in force, and where `epoch` is not that in force."""
        now = self._clock.wall_ns()
        self.ledger.check(Asker(lease=id, epoch=epoch), (), PortAction.LEASE, now_wall_ns=now)
        found = self.ledger.get(Reason.LEASE, id)
        assert found is not None
        return found

    def record(self, id: str) -> LeaseRecord | None:
        """What is durable of a lease; None where there is none."""
        return self._records.get(id)

    def silence_left_s(self, id: str) -> float | None:
        """How long the holder of a lease may be silent from now on; None: until it expires."""
        if (record := self._records.get(id)) is None or record.silence_s is None:
            return None
        return max(0.0, record.silence_s - (self._clock.monotonic_ns() - self._last_sign_ns[id]) / 1e9)

    def new_id(self) -> str:
        return self._ids.token(length=8)

    async def take(
        self,
        *,
        holder: str,
        ports: Iterable[str],
        for_s: float,
        heartbeat_s: float | None = None,
        lasting: bool = True,
    ) -> Claim:
        """Claim `ports` for `for_s` seconds; raises RefusedError where one of them is taken.

        A run is the holder `run k3v9`.

        `heartbeat_s`: it ends where `heartbeat` is not called for so long. `lasting` false: it ends with the daemon's
        process, as its run or apply does.
        """
        wanted, now = frozenset(ports), self._clock.wall_ns()
        check_terms(wanted, for_s=for_s, heartbeat_s=heartbeat_s)
        expires_ns = now + round(for_s * 1e9)
        asker = Asker(run=run_of(holder), until_wall_ns=expires_ns)
        self.ledger.check(asker, wanted, PortAction.LEASE, now_wall_ns=now)
        claim = lease(id=self.new_id(), holder=holder, ports=wanted, taken_wall_ns=now, expires_wall_ns=expires_ns)
        try:
            return await self.grant(LeaseRecord(claim=claim, heartbeat_s=heartbeat_s), lasting=lasting)
        except BaseException:  # its id was not returned, so nobody could release it; it may be in the records
            if lasting:
                self.delete_later(claim.id)
            raise

    async def grant(self, record: LeaseRecord, *, lasting: bool = True) -> Claim:
        """Give a lease the next epoch, make both durable, then put it in force. The caller has asked the ledger.

        Until it is in force a reservation in the ledger keeps its ports from everybody.
        """
        self._epoch += 1
        claim = replace(record.claim, epoch=self._epoch)
        record = replace(record, claim=claim)
        self.ledger.claim(replace(claim, reason=Reason.RESERVATION))
        try:
            await self.write_ends()
            await (self._store.save(record) if lasting else self._store.raise_epoch(self._epoch))
        finally:
            self.ledger.release(Reason.RESERVATION, claim.id)
        if lasting:
            self._lasting.add(claim.id)
        self._put(record)
        self._changed.set()
        self._emit(LeaseTaken(**_fields(claim)))
        return claim

    async def renew(self, id: str, *, for_s: float, epoch: int | None = None) -> Claim:
        """Let it last `for_s` seconds from now. Raises RefusedError where somebody has reserved its ports for then, and
        while a reload waits for its end.
        """
        before, now = self.get(id, epoch=epoch), self._clock.wall_ns()
        check_terms(before.ports, for_s=for_s)
        renewed = replace(before, expires_wall_ns=now + round(for_s * 1e9))
        asker = Asker(lease=id, run=before.run, until_wall_ns=renewed.expires_wall_ns)
        for refusal in self.ledger.refusals(asker, before.ports, PortAction.LEASE, now_wall_ns=now):
            if refusal.claim is not None and refusal.claim.reason in (Reason.RESERVATION, Reason.RELOAD):
                raise RefusedError(f"lease {id}: cannot last until then: {refusal}")
        await self._change(replace(self._records[id], claim=renewed, claim_within_s=None))
        self._changed.set()
        self._emit(LeaseRenewed(**_fields(renewed)))
        return renewed

    async def heartbeat(self, id: str, *, epoch: int | None = None) -> Claim:
        """A sign of its holder: a heartbeat, or an act under it. Raises RefusedError where it is not in force."""
        claim = self.get(id, epoch=epoch)
        self._last_sign_ns[id] = self._clock.monotonic_ns()
        if (record := self._records[id]).claim_within_s is not None:
            await self._change(replace(record, claim_within_s=None))
            self._changed.set()
        return claim

    def note_act(self, id: str) -> None:
        """A sign of a holder, where nothing may wait for the records: an act under a lease in force."""
        if id in self._last_sign_ns:
            self._last_sign_ns[id] = self._clock.monotonic_ns()

    async def release(self, id: str, *, why: str = "released", by: str = "", reason: str = "") -> None:
        """Release a lease; no error where it is over already. `by` and `reason`: who kicks it, and why."""
        released = self.ledger.release(Reason.LEASE, id)
        if released is None:
            return
        record = self._records.pop(id)
        self._last_sign_ns.pop(id, None)
        self._changed.set()
        self._emit(LeaseReleased(**_fields(released), why=why, by=by or UNSET, reason=reason or UNSET))
        lasted = id in self._lasting
        self._lasting.discard(id)
        if record.baseline and baseline_of(released) is None:
            await self._follow(record)
        elif lasted:
            await self.delete(id)

    async def note_baseline(self, id: str, before: Mapping[str, tuple[SwitchCrossconnect, ...]]) -> None:
        """Make durable what ports of a lease had before the first change under it."""
        record = self._records[id]
        await self._change(replace(record, baseline={**before, **record.baseline}))

    async def delete(self, id: str) -> None:
        """Delete from the records what is over: a lease, or a request for one.

        Where they refuse, it is tried again and again, and a restart before that brings it back, until it expires or
        its holder is silent. No lease is granted meanwhile.
        """
        self._to_delete.add(id)
        if not await self._have_ends():
            self._changed.set()

    def delete_later(self, id: str) -> None:
        """Delete a lease as `delete` does, without waiting for the records."""
        self._to_delete.add(id)
        self._changed.set()

    async def write_ends(self) -> None:
        """Delete what is over, before anything else is granted: a crash would bring back both."""
        for id in sorted(self._to_delete):
            await self._store.delete(id)
            self._to_delete.discard(id)
        self._says = True

    async def run(self) -> None:
        """End leases as they expire, and those whose holders are silent, until cancelled."""
        while True:
            self._changed.clear()
            waits_s = [] if await self._have_ends() else [WRITE_AGAIN_S]
            for id in [one.id for one in self.ledger.all(Reason.LEASE)]:
                if (one := self.ledger.get(Reason.LEASE, id)) is None:
                    continue  # it has ended while another was released
                left_s, why = self._left(one)
                if left_s <= 0:
                    await self.release(one.id, why=why)
                else:
                    waits_s.append(max(0.001, left_s))
            try:  # not wait_for, which in Python 3.11 loses a cancellation that comes with the change
                async with asyncio.timeout(min(waits_s, default=None)):
                    await self._changed.wait()
            except TimeoutError:
                continue

    # --- inside

    async def _follow(self, ended: LeaseRecord) -> None:
        """Keep the ports of a lease that ended until its baseline is restored: under another lease, without a gap."""
        self._epoch += 1
        now = self._clock.wall_ns()
        claim = lease(
            id=self.new_id(),
            holder=f"{BASELINE}{ended.id}",
            ports=ended.claim.ports,
            taken_wall_ns=now,
            expires_wall_ns=now + round(RESTORE_WITHIN_S * 1e9),
            epoch=self._epoch,
        )
        record = LeaseRecord(claim=claim, baseline=ended.baseline)
        self._put(record)
        self._lasting.add(claim.id)
        try:
            await self._store.save(record, follows=ended.id)
        except HwdError as error:
            log.warning(
                "lease %s is over, and the records do not know that its baseline comes back: %s", ended.id, error
            )
            await self.delete(ended.id)
        self._changed.set()
        self._emit(LeaseTaken(**_fields(claim)))

    async def _have_ends(self) -> bool:
        """Whether the records have the ends of all that is over."""
        try:
            await self.write_ends()
        except HwdError as error:
            level, self._says = (logging.WARNING if self._says else logging.DEBUG), False
            log.log(level, "over, but the records still have it: lease %s: %s", ", ".join(self._to_delete), error)
            return False
        return True

    def _left(self, one: Claim) -> tuple[float, str]:
        """The seconds that a lease has left, and why it ends then."""
        expires = one.left_s(self._clock.wall_ns()), "expired"
        record = self._records[one.id]
        if record.silence_s is None:
            return expires
        left_s = record.silence_s - (self._clock.monotonic_ns() - self._last_sign_ns[one.id]) / 1e9
        return min(expires, (left_s, "silent" if record.claim_within_s is None else "unclaimed"))

    def _put(self, record: LeaseRecord) -> None:
        self._records[record.id] = record
        self._last_sign_ns[record.id] = self._clock.monotonic_ns()
        self.ledger.claim(record.claim)

    async def _change(self, record: LeaseRecord) -> None:
        """Change a lease in force; where the records do not take it, it stays as it was.

        Raises RefusedError where it has ended meanwhile.
        """
        id, before = record.id, self._records[record.id]
        self._put(record)
        if id not in self._lasting:
            return
        try:
            await self._store.save(record)
        except BaseException:
            if self._records.get(id) is record:
                self._put(before)
            raise
        if id not in self._records:
            raise RefusedError(self.ledger.why_not_in_force(id))


def check_terms(ports: frozenset[str], *, for_s: float, heartbeat_s: float | None = None) -> None:
    """Raises ConfigError where nobody can want these ports for so long."""
    if not ports:
        raise ConfigError("lease: no port named; name ports such as ocs1.3 or h0.eth0, or `all`")
    if not 0 < for_s <= LONGEST_S:
        raise ConfigError(f"lease: {for_s:g} s is not between 0 and {LONGEST_S:.0f} s")
    if heartbeat_s is not None and not HEARTBEAT_LEAST_S <= heartbeat_s <= LONGEST_S:
        limits = f"{HEARTBEAT_LEAST_S:g} and {LONGEST_S:.0f} s"
        raise ConfigError(f"lease: a heartbeat every {heartbeat_s:g} s is not between {limits}")


def baseline_of(claim: Claim) -> str | None:
    """The lease whose baseline comes back under this one; None for any other lease."""
    return claim.owner.removeprefix(BASELINE) if claim.owner.startswith(BASELINE) else None


def _fields(one: Claim) -> dict[str, Any]:
    return {
        "lease": one.id,
        "holder": one.owner,
        "ports": sorted(one.ports),
        "expires_wall_ns": one.expires_wall_ns,
        "epoch": one.epoch,
    }
