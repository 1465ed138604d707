"""Leases and claims: who may change which ports, and until when."""

import asyncio
import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from hwd.ports.claims import conflicts
from hwd.ports.hold import HeldFor, Hold
from hwd.ports.lease import Lease
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Sink
from hwd_drivers.core.errors import ConfigError, HwdError, RefusedError
from hwd_drivers.core.ids import Ids

log = logging.getLogger(__name__)

DELETE_AGAIN_S = 5.0
"""Between attempts while the records cannot be written."""
LONGEST_S = 7 * 24 * 3600.0
"""A lease without renewal for a week was forgotten."""


class LeaseStore(Protocol):
    """The durable copy of leases: `hwd.records`."""

    async def all(self) -> tuple[Lease, ...]: ...

    async def save(self, lease: Lease) -> None: ...

    async def delete(self, id: str) -> None: ...


class Leases:
    """All leases in force. A port is leased to one holder or to nobody."""

    def __init__(self, *, store: LeaseStore, clock: Clock, ids: Ids, sink: Sink) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._sink = sink
        self._leases: dict[str, Lease] = {}
        self._to_delete: set[str] = set()
        self._holds: dict[str, Hold] = {}
        self._lasting: set[str] = set()
        self._changed = asyncio.Event()

    async def load(self) -> None:
        self._leases = {lease.id: lease for lease in await self._store.all()}
        self._lasting = set(self._leases)

    def all(self) -> tuple[Lease, ...]:
        """Leases that have not expired, oldest first."""
        now = self._clock.wall_ns()
        return tuple(
            sorted(
                (lease for lease in self._leases.values() if lease.expires_wall_ns > now),
                key=lambda lease: (lease.taken_wall_ns, lease.id),
            )
        )

    def get(self, id: str) -> Lease:
        """Raises RefusedError for one that is not in force."""
        for lease in self.all():
            if lease.id == id:
                return lease
        raise RefusedError(
            f"lease {id}: not in force; it expired or was released. "
            "See those in force with `hwd lease list`, or take a new one with `hwd lease take`"
        )

    def hold(self, hold: Hold) -> None:
        """Bar its ports from new leases until `let_go`; a hold of the same id is replaced."""
        self._holds[hold.id] = hold

    def hold_reconfiguration(self, id: str, ports: Iterable[str], *, run: str | None) -> None:
        """Hold the ports that a reconfiguration touches until it has ended."""
        ends = f"reconfiguration {id} has not ended yet. See `hwd status`"
        self.hold(
            Hold(
                id=id,
                held_for=HeldFor.RECONFIGURATION,
                ports=frozenset(ports),
                run=run,
                words=lambda ports: f"{', '.join(ports)}: {ends}",
            )
        )

    def held(self, id: str) -> frozenset[str]:
        """The ports of a hold."""
        return self._holds[id].ports if id in self._holds else frozenset()

    def let_go(self, id: str) -> None:
        self._holds.pop(id, None)

    def check(self, ports: Iterable[str], *, lease: str | None, run: str | None = None) -> None:
        """Raises RefusedError naming every port of `ports` that someone else leases, or that a hold covers.

        A hold for the settings of a run does not bar that run, nor a lease that covers the ports already.
        """
        wanted = frozenset(ports)
        covered = self.get(lease).ports if lease is not None else frozenset[str]()
        self.check_leased(wanted, lease=lease)
        for hold in self._holds.values():
            if hold.held_for is HeldFor.SETTINGS:
                taken = [] if hold.run == run else sorted((wanted & hold.ports) - covered)
            else:
                taken = sorted(wanted & hold.ports)
            if taken:
                raise RefusedError(hold.words(taken))

    def check_leased(self, ports: Iterable[str], *, lease: str | None) -> None:
        """Raises RefusedError naming every port of `ports` that someone else leases."""
        wanted = frozenset(ports)
        if lease is not None:
            self.get(lease)
        for other in self.all():
            if other.id != lease and (taken := sorted(wanted & other.ports)):
                left_s = (other.expires_wall_ns - self._clock.wall_ns()) / 1e9
                raise RefusedError(
                    f"{', '.join(taken)}: leased to {other.holder} ({other.id}) for another {left_s:.0f} s. Wait, "
                    f"ask {other.holder} to release it, or act under it with --lease {other.id} if it is yours"
                )

    def why_not(
        self, ports: Iterable[str], *, run: str, held_for: Collection[HeldFor] = frozenset(HeldFor)
    ) -> str | None:
        """Who else has one of the ports, by a lease or by a hold of the kinds in `held_for`; None where nobody has."""
        wanted = frozenset(ports)
        for conflict in conflicts(self.all(), wanted, holder=f"run {run}", now_wall_ns=self._clock.wall_ns()):
            return f"{conflict}. Wait, or ask {conflict.lease.holder} to release it"
        for hold in self._holds.values():
            if hold.run != run and hold.held_for in held_for and (taken := sorted(wanted & hold.ports)):
                return hold.words(taken)
        return None

    async def take(self, *, holder: str, ports: Iterable[str], for_s: float, lasting: bool = True) -> Lease:
        """Claim `ports` for `for_s` seconds; raises RefusedError where one of them is taken.

        A run is the holder `run k3v9`.

        `lasting` false: it ends with the daemon's process, as its run or apply does.
        """
        wanted = frozenset(ports)
        if not wanted:
            raise ConfigError("lease: no port named; name ports such as ocs1.3 or h0.eth0, or `all`")
        self._check_length(for_s)
        self.check(wanted, lease=None, run=holder.removeprefix("run "))
        now = self._clock.wall_ns()
        lease = Lease(
            id=self._ids.token(length=8),
            holder=holder,
            ports=wanted,
            taken_wall_ns=now,
            expires_wall_ns=now + round(for_s * 1e9),
        )
        self._leases[lease.id] = lease
        if lasting:
            self._lasting.add(lease.id)
            try:
                await self._store.save(lease)
            except BaseException:  # its id was not returned, so nobody could release it
                del self._leases[lease.id]
                self._lasting.remove(lease.id)
                raise
        self._tell("lease.taken", lease)
        return lease

    async def renew(self, id: str, *, for_s: float) -> Lease:
        """Let it last `for_s` seconds from now."""
        self._check_length(for_s)
        old = self.get(id)
        lease = Lease(
            id=old.id,
            holder=old.holder,
            ports=old.ports,
            taken_wall_ns=old.taken_wall_ns,
            expires_wall_ns=self._clock.wall_ns() + round(for_s * 1e9),
        )
        self._leases[id] = lease
        if id in self._lasting:
            await self._store.save(lease)
        self._tell("lease.renewed", lease)
        return lease

    async def release(self, id: str, *, why: str = "released") -> None:
        """Release a lease; no error where it is over already."""
        lease = self._leases.pop(id, None)
        if lease is None:
            return
        self._tell("lease.released", lease, why=why)
        if id in self._lasting:
            self._lasting.remove(id)
            self._to_delete.add(id)
            await self._delete()

    async def run(self) -> None:
        """Drop leases as they expire, until cancelled."""
        while True:
            await self._delete()
            now = self._clock.wall_ns()
            for lease in [lease for lease in self._leases.values() if lease.expires_wall_ns <= now]:
                await self.release(lease.id, why="expired")
            due_ns = min((lease.expires_wall_ns for lease in self._leases.values()), default=None)
            waits_s = [] if due_ns is None else [max(0.001, (due_ns - now) / 1e9)]
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

    def _tell(self, kind: str, lease: Lease, **more: str) -> None:
        self._changed.set()
        self._sink(
            Document(
                kind=kind,
                at_ns=self._clock.monotonic_ns(),
                wall_ns=self._clock.wall_ns(),
                data={
                    "lease": lease.id,
                    "holder": lease.holder,
                    "ports": sorted(lease.ports),
                    "expires_wall_ns": lease.expires_wall_ns,
                    **more,
                },
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    """`whole`: it covers all ports of its switches."""

    switches: frozenset[str]
    ports: frozenset[str]
    whole: bool


class Turns:
    """The claims of all reconfigurations in progress: those on different ports run at once."""

    def __init__(self) -> None:
        self._claims: dict[str, _Claim] = {}

    def claim(self, id: str, *, switches: Iterable[str], ports: Iterable[str], whole: bool) -> None:
        """Claim ports for a reconfiguration, or widen its claim.

        Raises RefusedError where another one has one of the ports, or a whole switch; the old claim then stays.
        """
        claim = _Claim(switches=frozenset(switches), ports=frozenset(ports), whole=whole)
        self._check(claim, id)
        self._claims[id] = claim

    def check(self, switch: str, ports: Iterable[str]) -> None:
        """Raises RefusedError where a reconfiguration in progress has one of these ports, or the whole switch."""
        self._check(_Claim(switches=frozenset((switch,)), ports=frozenset(ports), whole=False), None)

    def _check(self, claim: _Claim, id: str | None) -> None:
        for other, theirs in self._claims.items():
            if other == id:
                continue
            both = sorted(claim.switches & theirs.switches) if claim.whole or theirs.whole else []
            if taken := both or sorted(claim.ports & theirs.ports):
                raise RefusedError(
                    f"{', '.join(taken)}: reconfiguration {other} is under way on it. "
                    f"`hwd confirm {other}` or `hwd rollback {other}` ends it"
                )

    def release(self, id: str) -> None:
        self._claims.pop(id, None)

    def ports_of_others(self, id: str) -> frozenset[str]:
        """Ports that other reconfigurations have claimed."""
        return frozenset(port for other, claim in self._claims.items() if other != id for port in claim.ports)
