"""Recovery of a reliable connection over a link: a figure beside the stages, never part of `ready`."""

from enum import StrEnum
from typing import Self

import msgspec
from msgspec.structs import replace

from hwd.model.host import HostEvent
from hwd.model.instant import Instant, Knowledge, Origin
from hwd_agents.wire.events import RcRecoveryData

_NS_IN_S = 1e9


class RcOutcome(StrEnum):
    """The outcome of the send that was posted on an RC queue pair while the link was dark; the best first."""

    COMPLETED = "completed"
    """The send got through."""
    RE_MADE = "re-made"
    """Its retries were used up; a new queue pair was made after that."""
    FAILED = "failed"
    """Its retries were used up, and no new queue pair was made in time."""


class RcRecovery(msgspec.Struct, frozen=True, kw_only=True):
    """One end's, between two times on the daemon's clock, and most likely at `best_ns`.

    `after_s`: since the send was posted. `after_carrier_s`, `error_s`: since the carrier of that end came, and the
    error bound of that time; None where the recovery failed, or the carrier was not seen. `ack_timeout_s`, `retries`:
    settings of the queue pair, on which the time depends.
    """

    outcome: RcOutcome
    earliest_ns: int
    latest_ns: int
    best_ns: int
    after_s: float
    ack_timeout_s: float
    retries: int
    origin: Origin
    why: str = ""
    after_carrier_s: float | None = None
    error_s: float | None = None

    @classmethod
    def of(cls, event: HostEvent, data: RcRecoveryData) -> Self:
        """`data` is that of the event."""
        return cls(
            outcome=RcOutcome(data.outcome),
            earliest_ns=event.earliest_ns,
            latest_ns=event.latest_ns,
            best_ns=event.best_ns,
            after_s=data.after_s,
            ack_timeout_s=data.ack_timeout_s,
            retries=data.retries,
            origin=Origin(event.origin),
            why=data.why or "",
        )

    def better(self, other: Self | None) -> Self:
        """Choose one of two recoveries of one end; the reason of a failure is added to what came after it."""
        if other is None:
            return self
        order = list(RcOutcome)
        best, rest = sorted((self, other), key=lambda one: (order.index(one.outcome), one.latest_ns))
        return replace(best, why=best.why or rest.why) if best.outcome is RcOutcome.RE_MADE else best

    def with_carrier(self, carrier: Instant) -> Self:
        """Add the time since the carrier came."""
        if self.outcome is RcOutcome.FAILED or carrier.knowledge is not Knowledge.SEEN:
            return self
        error_ns = max(self.best_ns - self.earliest_ns, self.latest_ns - self.best_ns) + carrier.error_ns
        return replace(self, after_carrier_s=(self.best_ns - carrier.at_ns) / _NS_IN_S, error_s=error_ns / _NS_IN_S)
