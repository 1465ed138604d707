"""Leases: takes, renews, stores and ends the claims that somebody asked for."""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

from hwd.model.documents.leases import LeaseReleased, LeaseRenewed, LeaseTaken
from hwd.ports.claim import Claim, lease, run_of
from hwd.ports.ledger import NOT_IN_FORCE, Asker, Ledger
from hwd.ports.rules import PortAction, Reason
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import ConfigError, HwdError, RefusedError
from hwd_drivers.core.ids import Ids

log = logging.getLogger(__name__)

DELETE_AGAIN_S = 5.0
"""Between attempts while the records cannot be written."""
LONGEST_S = 7 * 24 * 3600.0
"""A lease without renewal for a week was forgotten."""


class LeaseStore(Protocol):
    """The durable copy of leases: `hwd.records`."""

    async def all(self) -> tuple[Claim, ...]: ...

    async def save(self, claim: Claim) -> None: ...

    async def delete(self, id: str) -> None: ...


class Leases:
    """The leases of the ledger: their expiry, and their durable copies."""

    def __init__(self, ledger: Ledger, *, store: LeaseStore, clock: Clock, ids: Ids, sink: Sink) -> None:
        self.ledger = ledger
        self._store = store
        self._clock = clock
        self._ids = ids
        self._emit = Emitter(clock, sink)
        self._to_delete: set[str] = set()
        self._lasting: set[str] = set()
        self._changed = asyncio.Event()

    async def load(self) -> None:
        for one in await self._store.all():
            self.ledger.claim(one)
            self._lasting.add(one.id)

    def all(self) -> tuple[Claim, ...]:
        """Leases that have not expired, oldest first."""
        now = self._clock.wall_ns()
        in_force = (one for one in self.ledger.all(Reason.LEASE) if one.is_in_force(now))
        return tuple(sorted(in_force, key=lambda one: (one.since_wall_ns, one.id)))

    def get(self, id: str) -> Claim:
        """Raises RefusedError for one that is not in force."""
        found = self.ledger.get(Reason.LEASE, id)
        if found is None or not found.is_in_force(self._clock.wall_ns()):
            raise RefusedError(f"lease {id}: {NOT_IN_FORCE}")
        return found

    async def take(self, *, holder: str, ports: Iterable[str], for_s: float, lasting: bool = True) -> Claim:
        """Claim `ports` for `for_s` seconds; raises RefusedError where one of them is taken.

        A run is the holder `run k3v9`.

        `lasting` false: it ends with the daemon's process, as its run or apply does.
        """
        wanted = frozenset(ports)
        if not wanted:
            raise ConfigError("lease: no port named; name ports such as ocs1.3 or h0.eth0, or `all`")
        self._check_length(for_s)
        now = self._clock.wall_ns()
        self.ledger.check(Asker(run=run_of(holder)), wanted, PortAction.LEASE, now_wall_ns=now)
        taken = lease(
            id=self._ids.token(length=8),
            holder=holder,
            ports=wanted,
            taken_wall_ns=now,
            expires_wall_ns=now + round(for_s * 1e9),
        )
        self.ledger.claim(taken)
        if lasting:
            self._lasting.add(taken.id)
            try:
                await self._store.save(taken)
            except BaseException:  # its id was not returned, so nobody could release it
                self.ledger.release(Reason.LEASE, taken.id)
                self._lasting.remove(taken.id)
                raise
        self._changed.set()
        self._emit(LeaseTaken(**_fields(taken)))
        return taken

    async def renew(self, id: str, *, for_s: float) -> Claim:
        """Let it last `for_s` seconds from now. It stays as it was where that cannot be stored."""
        self._check_length(for_s)
        before = self.get(id)
        renewed = replace(before, expires_wall_ns=self._clock.wall_ns() + round(for_s * 1e9))
        self.ledger.claim(renewed)
        if id in self._lasting:
            try:
                await self._store.save(renewed)
            except BaseException:  # nobody was told that it lasts longer
                if self.ledger.get(Reason.LEASE, id) == renewed:
                    self.ledger.claim(before)
                raise
        self._changed.set()
        self._emit(LeaseRenewed(**_fields(renewed)))
        return renewed

    async def release(self, id: str, *, why: str = "released") -> None:
        """Release a lease; no error where it is over already."""
        released = self.ledger.release(Reason.LEASE, id)
        if released is None:
            return
        self._changed.set()
        self._emit(LeaseReleased(**_fields(released), why=why))
        if id in self._lasting:
            self._lasting.remove(id)
            self._to_delete.add(id)
            await self._delete()

    async def run(self) -> None:
        """Drop leases as they expire, until cancelled."""
        while True:
            await self._delete()
            now = self._clock.wall_ns()
            for one in self.ledger.all(Reason.LEASE):
                if not one.is_in_force(now):
                    await self.release(one.id, why="expired")
            waits_s = [max(0.001, one.left_s(now)) for one in self.ledger.all(Reason.LEASE)]
            waits_s += [DELETE_AGAIN_S] if self._to_delete else []
            self._changed.clear()
            try:  # not wait_for, which in Python 3.11 loses a cancellation that comes with the change
                async with asyncio.timeout(min(waits_s, default=None)):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _delete(self) -> None:
        """Delete from the records what is over. If that fails, a restart brings a lease back until it expires."""
        for id in sorted(self._to_delete):
            try:
                await self._store.delete(id)
            except HwdError as error:
                log.warning("lease %s is over, but the records still have it: %s", id, error)
                return
            self._to_delete.discard(id)

    def _check_length(self, for_s: float) -> None:
        if not 0 < for_s <= LONGEST_S:
            raise ConfigError(f"lease: {for_s:g} s is not between 0 and {LONGEST_S:.0f} s")


def _fields(one: Claim) -> dict[str, Any]:
    """The fields that all documents of a lease have."""
    return {
        "lease": one.id,
        "holder": one.owner,
        "ports": sorted(one.ports),
        "expires_wall_ns": one.expires_wall_ns,
    }
