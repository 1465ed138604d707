"""Requests for leases that are not granted yet: they wait for their turn in the queue, or for their time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hwd.ports.claim import Claim, run_of
from hwd.ports.ledger import Asker, Ledger, Refusal
from hwd.ports.rules import PortAction, Reason
from hwd_drivers.core.values import natural_key

PATIENCE_S: Final = 3600.0
"""Who has waited for so long is overtaken by nobody any more, whatever their priority."""
NAMED: Final = 5
"""The most reasons that a waiter is shown; the rest is a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """A request for a lease. `number` is the order of arrival. `at_wall_ns`: when it begins; None: it waits in the
    queue. `heartbeat_s`: its lease ends where its holder is not heard for so long; None: it is not asked to be heard.
    """

    id: str
    number: int
    holder: str
    ports: frozenset[str]
    for_s: float
    arrived_wall_ns: int
    at_wall_ns: int | None = None
    priority: int = 0
    heartbeat_s: float | None = None

    @property
    def ends_wall_ns(self) -> int | None:
        """The end of a reservation; None for a waiter, whose time begins with its grant."""
        return None if self.at_wall_ns is None else self.at_wall_ns + round(self.for_s * 1e9)

    @property
    def claim(self) -> Claim:
        """The claim of the request, for the ledger."""
        return Claim(
            id=self.id,
            reason=Reason.WAIT if self.at_wall_ns is None else Reason.RESERVATION,
            owner=self.holder,
            ports=self.ports,
            run=run_of(self.holder),
            since_wall_ns=self.arrived_wall_ns if self.at_wall_ns is None else self.at_wall_ns,
            expires_wall_ns=self.ends_wall_ns,
        )

    def until_wall_ns(self, now_wall_ns: int) -> int:
        """When its lease ends, if it is granted now."""
        return now_wall_ns + round(self.for_s * 1e9) if self.ends_wall_ns is None else self.ends_wall_ns


def in_turn(waiters: Iterable[LeaseRequest], now_wall_ns: int) -> list[LeaseRequest]:
    """Waiters in the order of their turns: first those that have waited `PATIENCE_S`, by arrival; then the others, by
    priority and then by arrival.
    """

    def turn(one: LeaseRequest) -> tuple[int, int, int]:
        is_new = now_wall_ns - one.arrived_wall_ns < PATIENCE_S * 1e9
        return (1, -one.priority, one.number) if is_new else (0, 0, one.number)

    return sorted(waiters, key=turn)


def waits(
    waiters: Iterable[LeaseRequest], ledger: Ledger, now_wall_ns: int
) -> Iterator[tuple[LeaseRequest, tuple[str, ...]]]:
    """Each waiter in turn, with what it waits for; nothing where it can be granted now.

    It is granted when the ledger refuses none of its ports for its time, and nobody before it waits for one of them. So
    a later one passes on other ports only.
    """
    before: list[LeaseRequest] = []
    for one in in_turn(waiters, now_wall_ns):
        found = [str(refusal) for refusal in obstacles(one, ledger, now_wall_ns)]
        found += [
            f"{', '.join(sorted(shared, key=natural_key))}: {other.holder} ({other.id}) is before it in the queue"
            for other in before
            if (shared := other.ports & one.ports)
        ]
        yield one, first_of(found)
        before.append(one)


def obstacles(one: LeaseRequest, ledger: Ledger, now_wall_ns: int) -> list[Refusal]:
    """Who has the ports of a request, so that it cannot be granted now; without those who wait in the queue."""
    asker = Asker(request=one.id, run=run_of(one.holder), until_wall_ns=one.until_wall_ns(now_wall_ns))
    refusals = ledger.refusals(asker, one.ports, PortAction.LEASE, now_wall_ns=now_wall_ns)
    return [refusal for refusal in refusals if refusal.claim is None or refusal.claim.reason is not Reason.WAIT]


def first_of(found: Sequence[str]) -> tuple[str, ...]:
    """The first `NAMED` of some reasons, and how many more there are."""
    more = [f"{len(found) - NAMED} more"] if len(found) > NAMED else []
    return (*found[:NAMED], *more)
