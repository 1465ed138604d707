"""LeaseCalls: leases of ports and of switches, and requests for them."""

from typing import Final

from msgspec import UNSET
from msgspec.structs import asdict, replace

from hwd.config.yaml.file_problem import nearest
from hwd.fabric.in_use import InUse
from hwd.hosts.delegations import Delegations
from hwd.hosts.run_settings import HostSettings
from hwd.model.bodies import ByBody, EpochBody, KickBody, LeaseBody, RenewBody
from hwd.model.lease import RESERVED, WAITING, HeldLease, HeldSettings
from hwd.model.request import Caller
from hwd.ports.claim import Claim
from hwd.ports.delegation import Delegation
from hwd.ports.lease_request import LeaseRequest
from hwd.ports.testbed_ports import all_ports, leasable
from hwd.reconfigure.leases.leases import Leases
from hwd.reconfigure.leases.requests import CLAIM_WITHIN_S, WAITER_SILENT_S, LeaseRequests, Place
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.web.calls.call import HELD, Call, Calls, name_of
from hwd.web.rack_status import delegated
from hwd.web.rights import Rights
from hwd_agents.wire.access import ANYONE, OPERATOR
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.values import natural_key


class LeaseCalls:
    """The calls about leases: what is claimed, waits or is reserved; the settings of ended runs among it."""

    def __init__(
        self,
        *,
        in_use: InUse,
        leases: Leases,
        requests: LeaseRequests,
        delegations: Delegations,
        settings: HostSettings,
        reconfigurer: Reconfigurer,
        rights: Rights,
        clock: Clock,
    ) -> None:
        self._in_use = in_use
        self._leases = leases
        self._requests = requests
        self._delegations = delegations
        self._settings = settings
        self._reconfigurer = reconfigurer
        self._rights = rights
        self._clock = clock

    def leases(self) -> list[HeldLease]:
        """Leases in force."""
        delegated = [self._delegation(one) for one in self._delegations.all()]
        return [*(self._lease(lease) for lease in self._leases.all()), *delegated]

    def requests(self) -> list[HeldLease]:
        """Leases that are not granted yet: the queue in the order of turns, then reservations by their times."""
        places = self._requests.places()
        waiting = [self._waiting(one, places[one.id]) for one in self._requests.waiting]
        return [*waiting, *(self._reserved(one) for one in self._requests.reserved)]

    def held_settings(self) -> list[HeldSettings]:
        """Settings of ended runs that are still in force."""
        now = self._clock.wall_ns()
        return [
            HeldSettings(hold=one.id, run=str(one.run), ports=sorted(one.ports, key=natural_key), why=one.text(now))
            for one in self._settings.claims_of_ended_runs
        ]

    async def take(self, body: LeaseBody) -> HeldLease:
        """Claim ports (`ocs1.3`, `h0.eth0`, or `all`) for some seconds, wait for them in the queue, or reserve them.

        `kind` says which: `claim`, `waiting` or `reserved`. All three keep the id that they get here.
        """
        self._rights.check_name(body.holder)
        wanted = self._ports(body.ports)
        if body.at_wall_ns is not None:
            if body.queue:
                raise ConfigError("at_wall_ns, queue: name one of them; a reservation does not wait in the queue")
            reserved = await self._requests.reserve(
                holder=body.holder,
                ports=wanted,
                for_s=body.for_s,
                at_wall_ns=body.at_wall_ns,
                heartbeat_s=body.heartbeat_s,
            )
            return self._reserved(reserved)
        if body.priority and not body.queue:
            raise ConfigError("priority: is that of the queue; ask for the queue too")
        try:
            taken = await self._leases.take(
                holder=body.holder, ports=wanted, for_s=body.for_s, heartbeat_s=body.heartbeat_s
            )
        except RefusedError:
            if not body.queue:
                raise
            waiting = await self._requests.enqueue(
                holder=body.holder,
                ports=wanted,
                for_s=body.for_s,
                priority=body.priority,
                heartbeat_s=body.heartbeat_s,
            )
            return self._request(waiting)
        return self._lease(taken)

    async def heartbeat(self, id: str, body: EpochBody) -> HeldLease:
        """A sign of a holder, who claims a lease by it, or of a client that waits: it answers what became of it."""
        if (request := self._requests.get(id)) is not None:
            self._requests.heartbeat(id)
            return self._request(request)
        self._rights.check(LEASES.access("heartbeat"), id)
        return self._lease(await self._leases.heartbeat(id, epoch=body.epoch))

    async def renew(self, id: str, body: RenewBody) -> HeldLease:
        """Renew a lease: it expires `for_s` seconds from now."""
        self._rights.check(LEASES.access("renew"), id)
        return self._lease(await self._leases.renew(id, for_s=body.for_s, epoch=body.epoch))

    async def release(self, id: str, body: EpochBody) -> HeldLease:
        """Release a lease, leave the queue, or withdraw a reservation."""
        self._rights.check(LEASES.access("release"), id)
        if (delegation := self._delegations.get(id)) is not None:
            raise RefusedError(f"lease {id}: it is host {delegation.host}'s; take it back with `hwd lease kick {id}`")
        return await self._end(id, epoch=body.epoch, why="released")

    async def kick(self, id: str, body: KickBody, caller: Caller | None = None) -> HeldLease:
        """Take a lease from its holder, who reads at the next act by whom and why.

        A delegated switch, by its name: its host may not set it until the next grant.
        """
        by = name_of(caller, body.by)
        if (claim := self._settings.kick(id)) is not None:
            ports = sorted(claim.ports, key=natural_key)
            return HeldLease(lease=id, holder=f"settings of run {claim.run}", ports=ports, expires_in_s=0.0)
        if self._delegations.get(id) is not None and (kicked := await self._delegations.kick(id, by=by)) is not None:
            return replace(self._delegation(kicked.delegation), told=not kicked.why, why=kicked.why)
        return await self._end(id, why="kicked", by=by, reason=body.why)

    async def grant(self, id: str, body: ByBody, caller: Caller | None = None) -> HeldLease:
        """Give a switch whose delegated lease was taken back to its host again, under the next epoch."""
        switches = self._in_use.testbed.switches
        if id not in switches:
            raise ConfigError(f"{id!r} is no switch of testbed {self._in_use.testbed.name}; {nearest(id, switches)}")
        granted = await self._delegations.grant(id, by=name_of(caller, body.by))
        return replace(self._delegation(granted), told=self._delegations.has(granted))

    async def _end(self, id: str, *, epoch: int | None = None, **end: str) -> HeldLease:
        """Withdraw a request, or end a lease."""
        if (request := self._requests.get(id)) is not None:
            withdrawn = self._request(request)
            await self._requests.withdraw(id, **end)
            return withdrawn
        lease, sets = self._leases.get(id, epoch=epoch), self._reconfigurer.sets.under(id)
        await self._leases.release(id, **end)
        return replace(self._lease(lease), ended_sets=[*sets] or UNSET)

    def _lease(self, lease: Claim) -> HeldLease:
        return HeldLease(
            lease=lease.id,
            kind="claim",
            holder=lease.owner,
            ports=sorted(lease.ports, key=natural_key),
            expires_in_s=lease.left_s(self._clock.wall_ns()),
            epoch=UNSET if lease.epoch is None else lease.epoch,
            heard_within_s=UNSET if (within_s := self._leases.silence_left_s(lease.id)) is None else within_s,
        )

    def _request(self, request: LeaseRequest) -> HeldLease:
        if request.at_wall_ns is not None:
            return self._reserved(request)
        return self._waiting(request, self._requests.places()[request.id])

    def _waiting(self, request: LeaseRequest, place: Place) -> HeldLease:
        return HeldLease(
            lease=request.id,
            kind=WAITING,
            holder=request.holder,
            ports=sorted(request.ports, key=natural_key),
            expires_in_s=None,
            heard_within_s=WAITER_SILENT_S,
            for_s=request.for_s,
            priority=request.priority,
            place=place.number,
            waits_for=[*place.waits_for],
        )

    def _reserved(self, request: LeaseRequest) -> HeldLease:
        return HeldLease(
            lease=request.id,
            kind=RESERVED,
            holder=request.holder,
            ports=sorted(request.ports, key=natural_key),
            expires_in_s=request.claim.left_s(self._clock.wall_ns()),
            heard_within_s=CLAIM_WITHIN_S,
            for_s=request.for_s,
            at_wall_ns=UNSET if request.at_wall_ns is None else request.at_wall_ns,
            until_wall_ns=UNSET if request.ends_wall_ns is None else request.ends_wall_ns,
            waits_for=UNSET if (waits_for := self._requests.delay(request)) is None else [*waits_for],
        )

    def _ports(self, names: list[str]) -> frozenset[str]:
        """The ports that a lease of these names covers. Raises ConfigError for names that are none."""
        known = leasable(self._in_use.testbed)
        named = all_ports(self._in_use.testbed) if names == ["all"] else frozenset(names)
        if unknown := sorted(named - known.keys(), key=natural_key):
            raise ConfigError(
                f"lease: no such port: {', '.join(unknown)}. Ports are written ocs1.3 or h0.eth0; `all` takes every one"
            )
        return frozenset(port for name in named for port in known[name])

    def _delegation(self, lease: Delegation) -> HeldLease:
        ends = self._in_use.testbed.ends_of(lease.switch)
        return HeldLease(
            lease=lease.switch,
            kind="delegated",
            holder=f"host {lease.host}",
            ports=[*dict.fromkeys(f"{lease.switch}.{end.port}" for end in ends)],
            expires_in_s=None,
            **asdict(delegated(lease)),
        )


LEASES: Final = Calls(
    part="leases",
    tag="leases",
    rows=(
        Call(method="GET", path="/leases", handler=LeaseCalls.leases, access=ANYONE),
        Call(method="GET", path="/leases/requests", handler=LeaseCalls.requests, access=ANYONE),
        Call(method="POST", path="/leases", handler=LeaseCalls.take, access=OPERATOR, status=201),
        Call(
            method="POST",
            path="/leases/{id}/heartbeat",
            handler=LeaseCalls.heartbeat,
            access=HELD,
            needs_body=False,
        ),
        Call(method="POST", path="/leases/{id}/renew", handler=LeaseCalls.renew, access=HELD),
        Call(method="POST", path="/leases/{id}/release", handler=LeaseCalls.release, access=HELD, needs_body=False),
        Call(method="POST", path="/leases/{id}/kick", handler=LeaseCalls.kick, access=OPERATOR, needs_body=False),
        Call(method="POST", path="/leases/{id}/grant", handler=LeaseCalls.grant, access=OPERATOR),
    ),
)
