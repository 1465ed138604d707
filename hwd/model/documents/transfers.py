"""What the daemon tells of transfers: what processes of hosts say that they are sending."""

from typing import ClassVar

from hwd_drivers.core.documents import Fact


class TransferFact(Fact, frozen=True, kw_only=True):
    """Of one transfer: the process of a host that sends over `ports` in one phase of its work."""

    transfer: str
    host: str
    process: str
    phase: str
    ports: list[str]


class TransferClaimed(TransferFact, frozen=True, kw_only=True):
    """It may go, for `within_s` at the longest. Not in the records: they come by the hundred."""

    KIND: ClassVar = "transfer.claimed"
    within_s: float


class TransferRefused(TransferFact, frozen=True, kw_only=True):
    """It may not go, for `why`. Not in the records."""

    KIND: ClassVar = "transfer.refused"
    why: str


class TransferEnded(TransferFact, frozen=True, kw_only=True):
    """It has ended after `seconds`. `why`: `ended` by its process, or in other words. Not in the records."""

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
