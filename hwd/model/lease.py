"""Leases of ports: documents, and what callers see."""

import math
from typing import ClassVar, Final, Literal

from msgspec import UNSET, UnsetType, field
from typing_extensions import override

from hwd.model.api_value import ApiValue
from hwd.model.plural import plural
from hwd_drivers.core.documents import Fact


class LeaseFact(Fact, frozen=True, kw_only=True):
    """A fact of one lease; `lease` is its id."""

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
    """The lease has ended. `why`: released, expired, kicked, silent (its holder was not heard in time), unclaimed (not
    heard since the grant). `by`: who kicked it; `reason`: why they did, in their words. Settings of a run that were
    kicked have no expiry.
    """

    KIND: ClassVar = "lease.released"
    ports: list[str]
    expires_wall_ns: int | UnsetType = UNSET
    epoch: int | UnsetType = UNSET
    why: str
    by: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class LeaseRequestFact(LeaseFact, frozen=True, kw_only=True):
    """A fact of a lease that is not granted yet; it keeps its id when it is."""

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
    """The baseline of a lease that ended was restored, or was not. `reconfiguration`: the one that restored it; `why`:
    why it is not restored.
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


WAITING: Final = "waiting"
RESERVED: Final = "reserved"


class SwitchLease(ApiValue, frozen=True, kw_only=True):
    """The lease under which a host drives its switch. `epoch`: counts the grants; an agent refuses commands of an older
    one. `why`: why it is not granted, or empty.
    """

    host: str
    epoch: int
    state: str
    why: str = ""


class HeldLease(ApiValue, frozen=True, kw_only=True):
    """A lease of ports (`kind` claim), of a switch that is delegated to its host (`kind` delegated), or one that is not
    granted yet (`kind` waiting: in the queue; `kind` reserved: from a time on).

    `expires_in_s` is `left_s` in the JSON, None for a delegated switch, whose lease lasts until it is revoked, and for
    one that waits. `epoch` counts the grants. `host`, `state` and `why` are those of a delegated switch. `told`:
    whether its agent knows of the change.

    `heard_within_s`: it ends where no heartbeat comes for so long. `for_s`, `priority`, `place` and `waits_for` are
    those of one that waits; place 1 is next among those that wait for its ports. `at_wall_ns` and `until_wall_ns`: the
    time that is reserved; from `at_wall_ns` on `waits_for` says who has its ports, so that it has not begun.
    `ended_sets`: the prepared sets that ended with it.
    """

    lease: str
    kind: str | UnsetType = UNSET
    holder: str
    ports: list[str]
    expires_in_s: float | None = field(name="left_s")
    host: str | UnsetType = UNSET
    epoch: int | UnsetType = UNSET
    state: str | UnsetType = UNSET
    why: str | UnsetType = UNSET
    told: bool | UnsetType = UNSET
    heard_within_s: float | UnsetType = UNSET
    for_s: float | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    place: int | UnsetType = UNSET
    waits_for: list[str] | UnsetType = UNSET
    at_wall_ns: int | UnsetType = UNSET
    until_wall_ns: int | UnsetType = UNSET
    ended_sets: list[str] | UnsetType = UNSET

    @property
    def is_in_force(self) -> bool:
        """Whether the lease is granted."""
        return self.kind not in (WAITING, RESERVED)

    @property
    def id(self) -> str:
        return self.lease

    @property
    def left_s(self) -> float:
        """Seconds until it expires. Infinite for the lease of a switch that belongs to a host: that one lasts until it
        is revoked.
        """
        return math.inf if self.expires_in_s is None else self.expires_in_s

    @override
    def __str__(self) -> str:
        if self.kind == "delegated":
            return f"lease {self.id} of {self.holder}, epoch {self.epoch}, {self.state}"
        if self.kind == WAITING:
            return f"lease {self.id} of {self.holder} on {plural(len(self.ports), 'port')}, waits, place {self.place}"
        if self.kind == RESERVED:
            return f"lease {self.id} of {self.holder} on {plural(len(self.ports), 'port')}, reserved"
        return f"lease {self.id} of {self.holder} on {plural(len(self.ports), 'port')}, {self.left_s:.0f} s left"


class HeldSettings(ApiValue, frozen=True, kw_only=True):
    """Settings of an ended run that are still in force; a kick of the hold frees the ports."""

    hold: str
    run: str
    ports: list[str]
    why: str
