"""How leases ended, in words, for who acts under one that is over: its holder learns at the next act that it was
kicked, by whom, and why.
"""

from typing import ClassVar

from msgspec import UNSET, UnsetType

from hwd.model.lease import LeaseReleased, LeaseWithdrawn
from hwd.ports.claim import utc
from hwd.ports.ledger import AGAIN, ENDS_REMEMBERED, Ledger
from hwd.reconfigure.leases.requests import CLAIM_WITHIN_S
from hwd.records.records import Records
from hwd_drivers.core.documents import Document

WORDS = {
    "expired": "it expired",
    "silent": "its holder was not heard in time, and it ended",
    "unclaimed": f"nobody claimed it within its bound ({CLAIM_WITHIN_S:.0f} s for a reservation), and it ended",
    "missed": "its time was over before its ports were free, and it ended",
    "kicked": "it was kicked",
}


class LeaseEnds:
    """A sink: notes in the ledger how each lease and each request ended."""

    TAKES: ClassVar = (LeaseReleased, LeaseWithdrawn)

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def load(self, records: Records) -> None:
        """Take the newest ends that earlier processes of the daemon recorded."""
        kinds = [fact.KIND for fact in self.TAKES]
        for stored in reversed(await records.newest(kinds, limit=ENDS_REMEMBERED)):
            self(stored.document)

    def __call__(self, document: Document) -> None:
        match document.fact:
            case (
                LeaseReleased(lease=id, why=why, by=by, reason=reason)
                | LeaseWithdrawn(lease=id, why=why, by=by, reason=reason)
            ):
                self._ledger.note_end(id, _text(why, by, reason, document.wall_ns))
            case _:
                return  # another version of hwd recorded it


def _text(why: str, by: str | UnsetType, reason: str | UnsetType, wall_ns: int) -> str:
    ended = WORDS.get(why, "it was released")
    who = "" if by is UNSET else f" by {by}"
    words = "" if reason is UNSET else f': "{reason}"'
    return f"not in force; {ended}{who} at {utc(wall_ns)}{words}. {AGAIN}"
