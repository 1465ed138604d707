"""Transfers of hosts: documents, and what callers see."""

from typing import ClassVar

from typing_extensions import override

from hwd.model.api_value import ApiValue
from hwd_drivers.core.documents import Fact


class TransferFact(Fact, frozen=True, kw_only=True):
    """A fact of one transfer: the process of a host that sends over `ports` in one phase of its work."""

    transfer: str
    host: str
    process: str
    phase: str
    ports: list[str]


class TransferClaimed(TransferFact, frozen=True, kw_only=True):
    """A transfer may go, for `within_s` at the longest. Not in the records: they come by the hundred."""

    KIND: ClassVar = "transfer.claimed"
    within_s: float


class TransferRefused(TransferFact, frozen=True, kw_only=True):
    """A transfer may not go, for `why`. Not in the records."""

    KIND: ClassVar = "transfer.refused"
    why: str


class TransferEnded(TransferFact, frozen=True, kw_only=True):
    """A transfer has ended after `seconds`. `why`: `ended` by its process, or in other words. Not in the records."""

    KIND: ClassVar = "transfer.ended"
    why: str
    seconds: float


class TransferCut(TransferFact, frozen=True, kw_only=True):
    """The reconfiguration took its light in spite of it, after a wait of `waited_s` for its end.

    `transfer` empty: the host had not said yet whether it was sending, so whether something was cut is not known.
    """

    KIND: ClassVar = "transfer.cut"
    reconfiguration: str
    what: str
    waited_s: float


class TransferStatus(ApiValue, frozen=True, kw_only=True):
    """A transfer that a process of a host says it is sending now, since `since_s`, for another `left_s` at most.

    `drained_by`: the reconfiguration that waits for its end. `transfer` empty: the host has not said since the start of
    the daemon whether it is sending; until it does, or `left_s` is over, its ports count as in use.
    """

    transfer: str
    host: str
    process: str
    phase: str
    ports: list[str]
    since_s: float
    left_s: float
    drained_by: str | None = None

    @override
    def __str__(self) -> str:
        ports = ", ".join(self.ports)
        if not self.transfer:
            return f"{self.host} has not said yet whether it sends over {ports}; at rest in {self.left_s:.0f} s at most"
        waits = f"; reconfiguration {self.drained_by} waits for its end" if self.drained_by else ""
        return (
            f"transfer {self.transfer} of {self.process} on {ports}, phase {self.phase}: since {self.since_s:.1f} s, "
            f"for another {self.left_s:.1f} s at most{waits}"
        )
