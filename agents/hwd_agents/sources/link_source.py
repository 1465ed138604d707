"""The state of a network interface as the kernel reports it, and LinkSource, which link watchers read it from."""

from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Protocol, Self

import msgspec


class Origin(StrEnum):
    """How a reading came."""

    NOTICE = "notice"
    """The kernel sent a notice of a change."""
    DUMP = "dump"
    """The answer to a question; a change since the reading before happened at any time between the two."""
    RECOVERY = "recovery"
    """A dump, requested because the kernel dropped notices: our receive buffer was full."""


class OperState(StrEnum):
    """Operational state of an interface, RFC 2863, in the kernel's order."""

    UNKNOWN = "unknown"
    """The driver does not report it."""
    NOT_PRESENT = "notpresent"
    """Some part of it is missing."""
    DOWN = "down"
    """No carrier, or switched off."""
    LOWER_LAYER_DOWN = "lowerlayerdown"
    """Stacked on an interface that is down."""
    TESTING = "testing"
    """In a test mode."""
    DORMANT = "dormant"
    """Has carrier and waits for something, such as 802.1X."""
    UP = "up"
    """Passes packets."""


class LinkState(msgspec.Struct, frozen=True, kw_only=True):
    """One network interface. Counters run since the interface was created: a new `ifindex` restarts them."""

    interface: str
    ifindex: int
    admin_up: bool
    carrier: bool
    operstate: OperState
    carrier_changes: int
    carrier_ups: int
    carrier_downs: int
    mtu: int = 1500


class LinkReading(LinkState, frozen=True, kw_only=True):
    """One interface at one time. An absent interface (`present` false) keeps its last known values.

    This state began at or after `earliest_ns` and not after `at_ns`. `earliest_ns` None: no earlier state is known,
    and it may have begun at any time.
    """

    present: bool
    origin: Origin
    at_ns: int
    earliest_ns: int | None

    def __str__(self) -> str:
        state = ("carrier" if self.carrier else "no carrier") if self.present else "gone"
        return f"{self.interface} (#{self.ifindex}) {state}, {self.carrier_changes} changes, by {self.origin}"

    def gone(self, *, origin: Origin, at_ns: int, earliest_ns: int | None) -> Self:
        """The reading of the interface once it does not exist any more."""
        return msgspec.structs.replace(
            self,
            present=False,
            admin_up=False,
            carrier=False,
            operstate=OperState.NOT_PRESENT,
            origin=origin,
            at_ns=at_ns,
            earliest_ns=earliest_ns,
        )

    def changes_since(self, before: "LinkReading") -> int:
        """How often the carrier changed between `before` and this reading, seen or not."""
        if self.ifindex != before.ifindex:
            return self.carrier_changes
        return (self.carrier_changes - before.carrier_changes) & 0xFFFFFFFF


class LinkSource(Protocol):
    """Readings of every interface of a host: first all of them, then each change."""

    async def open(self, on_reading: Callable[[LinkReading], None]) -> None:
        """Start; returns after `on_reading` was called for each interface that exists."""
        ...

    async def refresh(self, interfaces: Collection[str] | None = None) -> None:
        """Read all again, or at least these, so that changes without a notice are counted.

        Returns after the last reading.
        """
        ...

    async def close(self) -> None:
        """Stop; `on_reading` is not called after this."""
        ...
