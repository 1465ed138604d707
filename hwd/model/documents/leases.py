"""What the daemon tells of leases, and of switches that it delegates to their hosts."""

from typing import ClassVar, Literal

from msgspec import UNSET, UnsetType

from hwd_drivers.core.documents import Fact


class LeaseFact(Fact, frozen=True, kw_only=True):
    """Of one lease; `lease` is its id."""

    lease: str
    holder: str


class LeaseTaken(LeaseFact, frozen=True, kw_only=True):
    """A lease began. `epoch`: of this grant; each grant of the rack has a higher one than all before."""

    KIND: ClassVar = "lease.taken"
    ports: list[str]
    expires_wall_ns: int
    epoch: int | UnsetType = UNSET


class LeaseRenewed(LeaseFact, frozen=True, kw_only=True):
    """A lease lasts longer."""

    KIND: ClassVar = "lease.renewed"
    ports: list[str]
    expires_wall_ns: int
    epoch: int | UnsetType = UNSET


class LeaseReleased(LeaseFact, frozen=True, kw_only=True):
    """`why`: released, expired, kicked, silent (its holder was not heard in time), unclaimed (not heard since the
    grant). `by`: who kicked it; `reason`: why they did, in their words. Settings of a run that were kicked have no
    expiry.
    """

    KIND: ClassVar = "lease.released"
    ports: list[str]
    expires_wall_ns: int | UnsetType = UNSET
    epoch: int | UnsetType = UNSET
    why: str
    by: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class LeaseRequestFact(LeaseFact, frozen=True, kw_only=True):
    """Of a lease that is not granted yet; it keeps its id when it is."""

    ports: list[str]
    for_s: float


class LeaseQueued(LeaseRequestFact, frozen=True, kw_only=True):
    """Somebody waits for a lease, at this place of the queue."""

    KIND: ClassVar = "lease.queued"
    priority: int
    place: int


class LeaseReserved(LeaseRequestFact, frozen=True, kw_only=True):
    """A lease is reserved for a time to come."""

    KIND: ClassVar = "lease.reserved"
    at_wall_ns: int
    until_wall_ns: int


class LeaseDelayed(LeaseRequestFact, frozen=True, kw_only=True):
    """The time of a reservation has come, and its ports are not free. `waits_for`: who has which of them, until when.
    It is told again where somebody else has them.
    """

    KIND: ClassVar = "lease.delayed"
    at_wall_ns: int
    waits_for: list[str]


class LeaseWithdrawn(LeaseRequestFact, frozen=True, kw_only=True):
    """A request left the queue or the calendar without a grant. `why`: released, kicked, silent, missed (its time is
    over, and its ports were not free: `waits_for`, who had them at last). `by` and `reason`: as in `lease.released`.
    """

    KIND: ClassVar = "lease.withdrawn"
    why: str
    by: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    waits_for: list[str] | UnsetType = UNSET


class LeaseBaseline(LeaseFact, frozen=True, kw_only=True):
    """What became of the baseline of a lease that ended. `reconfiguration`: the one that restored it; `why`: why it is
    not restored.
    """

    KIND: ClassVar = "lease.baseline"
    ports: list[str]
    outcome: Literal["restored", "not-restored"]
    reconfiguration: str | None
    why: str


class LeaseDelegated(LeaseFact, frozen=True, kw_only=True):
    """The host alone sets the switch, under this epoch."""

    KIND: ClassVar = "lease.delegated"
    kind: Literal["delegated"] = "delegated"
    switch: str
    host: str
    epoch: int
    boot: str
    why: str = ""


class LeaseTakenBack(LeaseFact, frozen=True, kw_only=True):
    """The host may not set the switch any more. `by`: who revoked it."""

    KIND: ClassVar = "lease.taken-back"
    kind: Literal["delegated"] = "delegated"
    switch: str
    host: str
    epoch: int
    boot: str
    why: str
    by: str
