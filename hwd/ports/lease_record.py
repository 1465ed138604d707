"""The durable record of a lease, beyond its claim on ports."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hwd.model.link import SwitchCrossconnect
from hwd.ports.claim import Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """A lease in force. `heartbeat_s`: it ends where its holder is not heard for so long; None: it needs no heartbeat.

    `claim_within_s`: how long it waits to be claimed after a grant that nobody answered at once; None once it is.
    `baseline`: by switch port, the crossconnects there before the first change under it.
    """

    claim: Claim
    heartbeat_s: float | None = None
    claim_within_s: float | None = None
    baseline: Mapping[str, tuple[SwitchCrossconnect, ...]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.claim.id

    @property
    def silence_s(self) -> float | None:
        """How long the lease lasts without a sign of its holder; None: to its end."""
        return self.heartbeat_s if self.claim_within_s is None else self.claim_within_s
