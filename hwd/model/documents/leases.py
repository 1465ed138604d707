"""What the daemon tells of leases, and of switches that it delegates to their hosts."""

from typing import ClassVar, Literal

from msgspec import UNSET, UnsetType

from hwd_drivers.core.documents import Fact


class LeaseFact(Fact, frozen=True, kw_only=True):
    """Of one lease; `lease` is its id."""

    lease: str
    holder: str


class LeaseTaken(LeaseFact, frozen=True, kw_only=True):
    """A lease began."""

    KIND: ClassVar = "lease.taken"
    ports: list[str]
    expires_wall_ns: int


class LeaseRenewed(LeaseFact, frozen=True, kw_only=True):
    """A lease lasts longer."""

    KIND: ClassVar = "lease.renewed"
    ports: list[str]
    expires_wall_ns: int


class LeaseReleased(LeaseFact, frozen=True, kw_only=True):
    """`why`: released, expired, kicked. Settings of a run that were kicked have no expiry."""

    KIND: ClassVar = "lease.released"
    ports: list[str]
    expires_wall_ns: int | UnsetType = UNSET
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
