"""How prepared sets ended, for who uses one that is over, and for those who did not end theirs themselves."""

from collections.abc import Iterator
from typing import ClassVar, Final

from msgspec import UNSET

from hwd.model.lease import LeaseReleased
from hwd.model.prepared_set import EndedSet, SetReleased
from hwd.records.records import Records
from hwd_drivers.core.documents import Document

REMEMBERED: Final = 1000
SHOWN_S: Final = 24 * 3600.0
"""So long `hwd status` shows a set that ended by itself: its holder may look on the next day."""
RELEASED: Final = "released"


class SetEnds:
    """A sink: the last `REMEMBERED` ends, also those that earlier processes of the daemon recorded."""

    TAKES: ClassVar = (SetReleased,)

    def __init__(self) -> None:
        self._ends: dict[str, EndedSet] = {}

    async def load(self, records: Records) -> None:
        """Take the newest ends of the records. Those that came since the start stay the newest."""
        since, self._ends = self._ends, {}
        for stored in reversed(await records.newest([SetReleased.KIND], limit=REMEMBERED)):
            self(stored.document)
        self._ends.update(since)

    def __call__(self, document: Document) -> None:
        match document.fact:
            case SetReleased(prepared_set=id, at=at, why=why, lease=lease, holder=holder):
                self._ends[id] = EndedSet(
                    prepared_set=id,
                    lease=lease,
                    holder=holder,
                    at=at,
                    why=why,
                    ended_wall_ns=document.wall_ns,
                )
                while len(self._ends) > REMEMBERED:
                    del self._ends[next(iter(self._ends))]

    def get(self, id: str) -> EndedSet | None:
        return self._ends.get(id)

    def unasked(self, now_wall_ns: int) -> Iterator[EndedSet]:
        """The ends of the last `SHOWN_S` that nobody released, oldest first."""
        for one in self._ends.values():
            if one.why != RELEASED and now_wall_ns - one.ended_wall_ns < SHOWN_S * 1e9:
                yield one


def end_of_lease(fact: LeaseReleased) -> str:
    """Why the sets of a lease end with it, in words: `its lease k3 has ended (kicked by ben: "the night run")`."""
    by = "" if fact.by is UNSET else f" by {fact.by}"
    reason = "" if fact.reason is UNSET else f': "{fact.reason}"'
    return f"its lease {fact.lease} has ended ({fact.why}{by}{reason})"
