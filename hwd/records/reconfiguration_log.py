"""The log of reconfigurations: those of the records with their ends, newest first, in runs or not."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from hwd.model.daemon import DaemonRecovered, JournalGivenUp, TestbedReloaded
from hwd.model.reconfiguration import HistoryEntry, ReconfigurationEnded, ReconfigurationStarted, StartedMove
from hwd.model.switch import SwitchAdopted
from hwd.records.gaps import DocumentGroup, Gap
from hwd.records.records import Records, StoredDocument
from hwd_drivers.core.errors import FailedError, HwdError, UnknownError

KINDS: Final = (
    ReconfigurationStarted,
    ReconfigurationEnded,
    DaemonRecovered,
    JournalGivenUp,
    SwitchAdopted,
    TestbedReloaded,
)
PAGE: Final = 200
"""Documents in one query."""
GIVEN_UP: Final = "given-up"
ADOPTED: Final = "adopted"
RELOADED: Final = "reloaded"
DELETED: Final = "deleted"
"""Not an outcome: from here on only those of runs are left, and a few more that are still needed."""
UNRECORDED: Final = "unrecorded"
"""Not an outcome: what came after this may be missing, as the records do not take it now."""


class ReconfigurationLog:
    """Reads the records. `recorded()`: returns when all documents so far are in them, and raises HwdError else."""

    def __init__(self, records: Records, recorded: Callable[[], Awaitable[None]]) -> None:
        self._records = records
        self._recorded = recorded

    async def newest(
        self, *, limit: int, switch: str | None = None, port: str | None = None, before: str | None = None
    ) -> list[HistoryEntry]:
        """The newest ones, of those that moved this switch, or this port of a switch or a host (`ocs1.3`, `h0.eth0`).

        `before`: only those that began before that reconfiguration. Raises UnknownError where the records lack it.
        Where older ones were deleted, an entry in their place says so. While the records do not take the newest, the
        first entry says so, beside the `limit`.
        """
        why = await self._why_unrecorded() if before is None else ""
        found = await self._newest(limit, switch, port, before)
        if not why:
            return found
        if not found:
            raise FailedError(f"history: {why}")
        return [_notice(found[0].wall_ns, UNRECORDED, f"what came after this may be missing: {why}", why), *found]

    async def _newest(self, limit: int, switch: str | None, port: str | None, before: str | None) -> list[HistoryEntry]:
        found: list[HistoryEntry] = []
        gap: HistoryEntry | None = None
        is_reached = before is None
        async with aclosing(self._entries()) as entries:
            async for entry in entries:
                if entry.outcome == DELETED:
                    gap = entry
                if is_reached and (entry.outcome == DELETED or _concerns(entry, switch, port)):
                    found.append(entry)
                    if len(found) == limit:
                        return found
                is_reached = is_reached or entry.reconfiguration == before
        if not is_reached:
            raise _unknown(str(before), gap)
        return found

    async def since(self, id: str) -> list[HistoryEntry]:
        """A reconfiguration and all after it, oldest first. Raises UnknownError where the records lack it or some of
        those: one of a run stays when others after it are deleted.
        """
        found: list[HistoryEntry] = []
        await self._recorded()
        async with aclosing(self._entries()) as entries:
            async for entry in entries:
                if entry.outcome == DELETED:
                    raise _unknown(id, entry)
                found.append(entry)
                if entry.reconfiguration == id:
                    return found[::-1]
        raise _unknown(id, None)

    async def _why_unrecorded(self) -> str:
        try:
            await self._recorded()
        except HwdError as error:
            return str(error)
        return ""

    async def _entries(self) -> AsyncGenerator[HistoryEntry]:
        """Newest first. The end of one is newer than its start, so it is read before. The gap is read after each page:
        it has what was deleted until then.
        """
        ends: dict[str, HistoryEntry] = {}
        kinds, before = [fact.KIND for fact in KINDS], None
        is_whole = True
        while True:
            page = await self._records.newest(kinds, limit=PAGE, before=before)
            gap = (await self._records.gaps.all()).get(DocumentGroup.HISTORY)
            for stored in page:
                if is_whole and gap is not None and stored.id <= gap.upto:
                    is_whole = False
                    yield _deleted(gap)
                if (entry := _take(stored, ends)) is not None:
                    yield entry
            if not page:
                break
            before = page[-1].id
        if is_whole and gap is not None:
            yield _deleted(gap)


def _take(stored: StoredDocument, ends: dict[str, HistoryEntry]) -> HistoryEntry | None:
    """The entry that this document completes, None for an end, which is put into `ends`: the newest of each counts."""
    wall_ns = stored.document.wall_ns
    match stored.document.fact:
        case ReconfigurationStarted() as started:
            entry = HistoryEntry(
                reconfiguration=started.reconfiguration,
                wall_ns=wall_ns,
                what=started.what,
                by=started.by or "",
                verified=bool(started.verified),
                run=started.run,
                host=started.host or None,
                lease=started.lease or None,
                holder=started.holder or None,
                moves=[move for move in started.moves if move.remove or move.add],
                links=[one.link for one in started.links],
                prepared_set=started.prepared_set or None,
                target=started.target or None,
                override_of=started.override_of or "",
            )
            end = ends.pop(started.reconfiguration, None)
            if end is None:
                return entry
            return replace(
                entry, outcome=end.outcome, why=end.why, ended_wall_ns=end.ended_wall_ns, remarks=end.remarks
            )
        case ReconfigurationEnded(reconfiguration=id, outcome=outcome, why=why, remarks=remarks):
            ends.setdefault(id, _end(id, outcome, why, wall_ns, [] if remarks is UNSET else remarks))
        case DaemonRecovered(reconfiguration=id, outcome=outcome, why=why):
            ends.setdefault(id, _end(id, outcome, why, wall_ns))
        case JournalGivenUp(reconfiguration=id, why=why, by=by, reason=reason):
            said = f' ("{reason}")' if reason else ""
            ends.setdefault(id, _end(id, GIVEN_UP, f"by {by}{said}: {why}", wall_ns))
        case SwitchAdopted(switch=switch, crossconnects=crossconnects, free=free, by=by):
            what = [*crossconnects, *(f"{end}-none" for end in free)]
            moves = [StartedMove(switch=switch, remove=[], add=crossconnects)]
            return replace(_notice(wall_ns, ADOPTED, f"{switch}:{','.join(what)}", by=by), moves=moves)
        case TestbedReloaded(changes=changes, by=by, verified=verified):
            notice = _notice(wall_ns, RELOADED, f"testbed file: {'; '.join(changes)}", by=by)
            return replace(notice, verified=verified)
    return None


def _end(id: str, outcome: str, why: str, wall_ns: int, remarks: Iterable[str] = ()) -> HistoryEntry:
    return HistoryEntry(
        reconfiguration=id,
        wall_ns=wall_ns,
        ended_wall_ns=wall_ns,
        what="",
        outcome=outcome,
        why=why,
        remarks=[*remarks],
    )


def _concerns(entry: HistoryEntry, switch: str | None, port: str | None) -> bool:
    ports = {
        f"{move.switch}.{end.port}" for move in entry.moves for one in (*move.remove, *move.add) for end in one.ends
    }
    ports.update(end for link in entry.links for end in link.ends)
    return (switch is None or any(move.switch == switch for move in entry.moves)) and (port is None or port in ports)


def _deleted(gap: Gap) -> HistoryEntry:
    return _notice(gap.wall_ns, DELETED, f"up to here only those of runs are left: {gap.why}", gap.why)


def _notice(wall_ns: int, outcome: str, what: str, why: str = "", *, by: str = "the daemon") -> HistoryEntry:
    """What is no reconfiguration."""
    return HistoryEntry(
        reconfiguration=None,
        wall_ns=wall_ns,
        ended_wall_ns=wall_ns,
        what=what,
        by=by,
        verified=True,
        outcome=outcome,
        why=why,
    )


def _unknown(id: str, gap: HistoryEntry | None) -> UnknownError:
    if gap is None:
        return UnknownError(f"reconfiguration {id}: not in the records. `hwd history` lists those that are known")
    at = datetime.fromtimestamp(gap.wall_ns / 1e9, UTC)
    return UnknownError(
        f"reconfiguration {id}: not in the records since {at:%Y-%m-%d %H:%M:%S} UTC. What is outside of runs and "
        f"before that was deleted: {gap.why}. `hwd history` lists those that are known"
    )
