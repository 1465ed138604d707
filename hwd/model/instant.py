"""Instants: stamped events with their error bounds, and how much is known of each."""

from enum import StrEnum
from typing import Any, Final, Self

import msgspec
from msgspec import UNSET

from hwd_drivers.core.errors import BugError


class InstantName(StrEnum):
    """An instant of a reconfiguration, in the order that must hold (acknowledged has no order with dark and light;
    carrier and rdma have none between them).
    """

    COMMANDED = "commanded"
    """First byte of the first command was sent to the switch."""
    ACKNOWLEDGED = "acknowledged"
    """The switch answered the last command."""
    DARK = "dark"
    """Some lane fell below LOS-assert."""
    LIGHT = "light"
    """All lanes are above LOS-deassert."""
    FIRMWARE = "firmware"
    """The NIC's own PHY is up."""
    CARRIER = "carrier"
    """The kernel says that the interface has carrier."""
    RDMA = "rdma"
    """The RDMA port is active and its GID is there."""
    READY = "ready"
    """The first end-to-end transfer succeeded, both ways."""


class Knowledge(StrEnum):
    """How much is known of an instant."""

    SEEN = "seen"
    """The instant lies between `earliest_ns` and `latest_ns`."""
    UNKNOWN = "unknown"
    """There is no source, or the source missed it: `why` says which."""
    NEVER_LEFT = "never-left"
    """The state was never lost: a kept link, or a switch so fast that nothing fell."""


class Origin(StrEnum):
    """Where a figure comes from, the best first."""

    MEASURED = "measured"
    """On hardware."""
    KERNEL = "kernel"
    """A real kernel event on a twin."""
    TWIN = "twin"
    """Drawn from a model."""
    FITTED = "fitted"
    """Drawn from a model that was fitted to the very figure that it is compared with: never called reproduced."""

    def weakest(self, other: "Origin") -> "Origin":
        order = list(Origin)
        return max(self, other, key=order.index)


_NOT_SEEN: Final[Any] = UNSET
"""A field that only an instant that was seen has: it is not in the JSON, and no figure can be made from it."""


class Instant(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One instant of one subject, on the daemon's monotonic clock (ns): make it by `seen`, `unknown` or `never_left`.

    `best_ns` is the most likely time within the bounds, where the source knows a better one than the middle: a notice
    follows soon after its event. What was not seen has a name, its knowledge and the reason alone.
    """

    name: InstantName
    knowledge: Knowledge
    earliest_ns: int = _NOT_SEEN
    latest_ns: int = _NOT_SEEN
    best_ns: int | None = _NOT_SEEN
    source: str = _NOT_SEEN
    origin: Origin = _NOT_SEEN
    sampling_ns: int = _NOT_SEEN
    why: str = ""

    def __post_init__(self) -> None:
        of_seen = (self.earliest_ns, self.latest_ns, self.best_ns, self.source, self.origin, self.sampling_ns)
        if self.knowledge is Knowledge.SEEN and _NOT_SEEN in of_seen:
            raise ValueError(f"{self.name}: it was seen, and lacks its times, its source or its origin")

    @classmethod
    def seen(
        cls,
        name: InstantName,
        *,
        earliest_ns: int,
        latest_ns: int,
        best_ns: int | None = None,
        source: str = "",
        origin: Origin = Origin.MEASURED,
        sampling_ns: int = 0,
        why: str = "",
    ) -> Self:
        """Raises BugError where the times are in the wrong order."""
        if earliest_ns > latest_ns:
            raise BugError(f"{name}: earliest {earliest_ns} ns is after latest {latest_ns} ns")
        if best_ns is not None and not earliest_ns <= best_ns <= latest_ns:
            raise BugError(f"{name}: {best_ns} ns is outside its bounds {earliest_ns} to {latest_ns} ns")
        return cls(
            name=name,
            knowledge=Knowledge.SEEN,
            earliest_ns=earliest_ns,
            latest_ns=latest_ns,
            best_ns=best_ns,
            source=source,
            origin=origin,
            sampling_ns=sampling_ns,
            why=why,
        )

    @classmethod
    def unknown(cls, name: InstantName, why: str) -> Self:
        return cls(name=name, knowledge=Knowledge.UNKNOWN, why=why)

    @classmethod
    def never_left(cls, name: InstantName, why: str) -> Self:
        return cls(name=name, knowledge=Knowledge.NEVER_LEFT, why=why)

    @property
    def at_ns(self) -> int:
        """The best estimate: `best_ns`, else the middle of the bounds."""
        return (self.earliest_ns + self.latest_ns) // 2 if self.best_ns is None else self.best_ns

    @property
    def error_ns(self) -> int:
        """How far the true time can be from `at_ns`, either way."""
        return max(self.at_ns - self.earliest_ns, self.latest_ns - self.at_ns)
