"""The daemon's reports of itself: its process, its limits, its journal, its broker."""

from html import escape
from typing import ClassVar, Final

from msgspec import UNSET, UnsetType
from typing_extensions import override

from hwd_drivers.core.documents import Fact


class DaemonStarted(Fact, frozen=True, kw_only=True):
    """The daemon began. `died_wall_ns`: when the process before it was last heard, where that one did not end in order:
    it was killed, or its machine went down. Left out where it ended in order, and of the first one.
    """

    KIND: ClassVar = "daemon.started"
    version: str
    pid: int
    testbed: str
    data_dir: str
    died_wall_ns: int | UnsetType = UNSET


class DaemonStopped(Fact, frozen=True, kw_only=True):
    """The daemon ended in order; a crash emits none."""

    KIND: ClassVar = "daemon.stopped"
    reason: str


class TestbedReloaded(Fact, frozen=True, kw_only=True):
    """A changed testbed file was taken while the daemon ran.

    `hash`: of its text. `changes`: each difference in words. `former_switches`: those that are gone or are another
    device now. `by`: who asked for it, empty where nobody said; `verified`: by a token of that name.
    """

    __test__: ClassVar = False

    KIND: ClassVar = "testbed.reloaded"
    testbed: str
    hash: str
    changes: list[str]
    former_switches: list[str]
    by: str
    verified: bool


class DaemonLag(Fact, frozen=True, kw_only=True):
    """The longest delay of a timer in the event loop since the previous document."""

    KIND: ClassVar = "daemon.lag"
    seconds: float


DISK_EACH_S = 60.0
"""Between two documents of the disk where nothing much changes: few documents in a day."""
DISK_READ_EACH_S = 5.0
"""Between two reads of the disk: what fills it does so within seconds."""
DISK_MOVED = 0.1
"""A change of the free space by this part of it is told at once."""


class DaemonDisk(Fact, frozen=True, kw_only=True):
    """The file system of the data folder, with records and journal: what this user may still write, and its size.

    Both are None where it could not be read, and `why` says why.
    """

    KIND: ClassVar = "daemon.disk"
    path: str
    free_bytes: int | None
    total_bytes: int | None
    why: str


class RecordsDropped(Fact, frozen=True, kw_only=True):
    """Documents outside of runs were deleted, as they were older than the `retention` of the testbed.

    `documents`, `history`: how many of each group, since the previous document. `documents_days`, `history_days`: the
    retention of each group at that time, in days; None: for ever.
    """

    KIND: ClassVar = "records.dropped"
    documents: int
    history: int
    documents_days: int | None
    history_days: int | None


class RecordsRefused(Fact, frozen=True, kw_only=True):
    """The records cannot be written; what is to be written waits in memory. `records.written` ends that."""

    KIND: ClassVar = "records.refused"
    records: str
    why: str


class RecordsWritten(Fact, frozen=True, kw_only=True):
    """The records can be written again, and what waited is written."""

    KIND: ClassVar = "records.written"
    records: str


class LimitReached(Fact, frozen=True, kw_only=True):
    """A limit of `hwd.model.limit` was reached. `count`: since the previous document. `detail`: of the latest time."""

    KIND: ClassVar = "limit.reached"
    limit: str
    count: int
    detail: str


class JournalOpen(Fact, frozen=True, kw_only=True):
    """A reconfiguration was interrupted and cannot be undone yet.

    `daemon.recovered` or `journal.given-up` ends that. `held`: an operator decides.
    """

    KIND: ClassVar = "journal.open"
    reconfiguration: str
    run: str | None
    what: str
    why: str
    held: bool = False


class JournalGivenUp(Fact, frozen=True, kw_only=True):
    """An operator leaves a reconfiguration as it is.

    `why`: what kept it open. `by`: who gave it up, `reason`: why, in their words. `left`: the last reports of its
    switches. `from_journal`: see `reconfiguration.ended`.
    """

    KIND: ClassVar = "journal.given-up"
    reconfiguration: str
    run: str | None
    what: str
    why: str
    by: str
    reason: str | UnsetType = UNSET
    left: list[str]
    from_journal: bool | UnsetType = UNSET

    @property
    def id(self) -> str:
        return self.reconfiguration

    @override
    def __str__(self) -> str:
        return f"{self.id} ({self.what}) given up: {'; '.join(self.left)}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(str(self))}</p>"


class JournalRefused(Fact, frozen=True, kw_only=True):
    """A reconfiguration has ended so, and the journal could not be written; `journal.written` ends that."""

    KIND: ClassVar = "journal.refused"
    reconfiguration: str
    outcome: str
    why: str


class JournalWritten(Fact, frozen=True, kw_only=True):
    """The end of a reconfiguration is in the journal now."""

    KIND: ClassVar = "journal.written"
    reconfiguration: str
    outcome: str


class JournalDamaged(Fact, frozen=True, kw_only=True):
    """The journal could not be read to its end.

    `aside`: the file to which the damaged one was moved. `held`: changes that stay until an operator gives them up.
    """

    KIND: ClassVar = "journal.damaged"
    why: str
    aside: str
    held: list[str]


CRASHED: Final = "crashed"
"""The outcome of a reconfiguration that ended with its daemon and of which nothing was to be brought back."""


class DaemonRecovered(Fact, frozen=True, kw_only=True):
    """The daemon finished or rolled back what the journal left open, or what an earlier process left without an end.

    `outcome`: confirmed, rolled-back; crashed where it just ended with that process: nothing was brought anywhere.
    `from_journal`: see `reconfiguration.ended`.
    """

    KIND: ClassVar = "daemon.recovered"
    reconfiguration: str
    run: str | None
    outcome: str
    why: str
    from_journal: bool | UnsetType = UNSET


class BusUp(Fact, frozen=True, kw_only=True):
    """The broker is connected."""

    KIND: ClassVar = "bus.up"
    address: str


class BusDown(Fact, frozen=True, kw_only=True):
    """The broker is not connected any more."""

    KIND: ClassVar = "bus.down"
    address: str
    cause: str
