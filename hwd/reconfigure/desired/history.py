"""The history from documents: turnarounds of links, outcomes of reconfigurations, settings of NIC ports.

All three are sinks. Turnarounds and outcomes are read from the records too, after a restart.
"""

import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar

from msgspec import UNSET, UnsetType

from hwd.fabric.in_use import InUse
from hwd.model.daemon import DaemonRecovered, JournalGivenUp, JournalOpen
from hwd.model.plural import plural
from hwd.model.reconfiguration import ReconfigurationEnded
from hwd.model.run_facts import RunHost
from hwd.model.stage import StageName
from hwd.model.testbed import Setting
from hwd.model.timeline import Timeline
from hwd.reconfigure.apply.reconfiguration import Outcome
from hwd.records.records import Records
from hwd.timeline.host_action import HostAction
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Json

TURNAROUNDS_REMEMBERED = 200
"""Turnarounds; older ones say little about today's rack."""
READ_AT_ONCE = 16
"""Timelines that one query reads: those of a large rack are megabytes."""
READ_MOST = 256
"""The most timelines that are read at a start: without agents they hold no turnaround, and there may be many."""


class History:
    """The last turnarounds of links, in seconds."""

    TAKES: ClassVar = (Timeline,)

    def __init__(self, in_use: InUse) -> None:
        self._in_use = in_use
        self._seconds: deque[float] = deque(maxlen=TURNAROUNDS_REMEMBERED)

    @property
    def full(self) -> bool:
        """Whether the history is full: an older turnaround would be dropped at once."""
        return len(self._seconds) == TURNAROUNDS_REMEMBERED

    async def load(self, records: Records) -> None:
        """Take the newest turnarounds that earlier processes of the daemon recorded."""
        before: int | None = None
        for _ in range(READ_MOST // READ_AT_ONCE):
            if self.full:
                return
            older = await records.newest([Timeline.KIND], limit=READ_AT_ONCE, before=before)
            if not older:
                return
            for stored in older:
                self.recall(stored.document)
            before = older[-1].id

    def recall(self, document: Document) -> None:
        """Take a timeline from the records that is older than all so far."""
        for seconds in reversed(list(_turnarounds(document))):
            if not self.full:
                self._seconds.appendleft(seconds)

    def __call__(self, document: Document) -> None:
        self._seconds.extend(_turnarounds(document))

    def expect(self, switches: Iterable[str], links: bool = True) -> tuple[float, str]:
        """Expected seconds with their source: until links are ready, or without `links` until switches settle."""
        if links and self._seconds:
            return statistics.median(self._seconds), f"median of the last {plural(len(self._seconds), 'turnaround')}"
        stated = max((self._in_use.testbed.switches[name].capabilities.settle_s for name in switches), default=0.0)
        why = "no link has been timed yet" if links else "no link comes up by it"
        return stated, f"switching time that the switches state; {why}"


def _turnarounds(document: Document) -> Iterator[float]:
    if not isinstance(document.fact, Timeline):
        return  # another version of hwd recorded it
    for link in document.fact.links:
        for stage in link.stages:
            if stage.name is StageName.TURNAROUND and stage.seconds is not None:
                yield stage.seconds


OUTCOMES_REMEMBERED = 256
"""Reconfigurations; older ones are in the records."""
OPEN = "neither confirmed nor rolled back yet"
GIVEN_UP = "given up, with its switches left as they were"
WORDS = {  # of `Outcome`
    Outcome.CONFIRMED.value: "confirmed",
    Outcome.ROLLED_BACK.value: "rolled back",
    Outcome.FAILED.value: OPEN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """The end of one reconfiguration."""

    what: str
    outcome: str
    why: str
    wall_ns: int


class Outcomes:
    """The outcomes of the last `OUTCOMES_REMEMBERED` reconfigurations, for errors about those that have ended."""

    TAKES: ClassVar = (ReconfigurationEnded, DaemonRecovered, JournalOpen, JournalGivenUp)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: dict[str, _End] = {}

    async def load(self, records: Records) -> None:
        """Take the newest outcomes that earlier processes of the daemon recorded."""
        kinds = [fact.KIND for fact in self.TAKES]
        for stored in reversed(await records.newest(kinds, limit=OUTCOMES_REMEMBERED)):
            self(stored.document)

    def __call__(self, document: Document) -> None:
        what: str | UnsetType = UNSET
        match document.fact:
            case JournalOpen(reconfiguration=id, what=what, why=why):
                outcome = OPEN
            case JournalGivenUp(reconfiguration=id, what=what, why=why):
                outcome = GIVEN_UP
            case ReconfigurationEnded(reconfiguration=id, what=what, outcome=outcome, why=why):
                pass
            case DaemonRecovered(reconfiguration=id, outcome=outcome, why=why):
                pass
            case _:
                return  # another version of hwd recorded it
        end = _End(what=what or "", outcome=WORDS.get(outcome, outcome), why=why, wall_ns=document.wall_ns)
        before = self._ends.pop(id, None)
        self._ends[id] = replace(end, what=before.what) if before is not None and not end.what else end
        while len(self._ends) > OUTCOMES_REMEMBERED:
            del self._ends[next(iter(self._ends))]

    def text(self, id: str) -> str | None:
        """`k3v9 (pairs rail=0): rolled back 12 s ago (03:12:05 UTC): not confirmed within 30 s`; None if unknown."""
        if (end := self._ends.get(id)) is None:
            return None
        at = datetime.fromtimestamp(end.wall_ns / 1e9, UTC)
        ago = _ago((self._clock.wall_ns() - end.wall_ns) / 1e9)
        named = f"{id} ({end.what})" if end.what else id
        return f"{named}: {end.outcome} {ago} ({at:%H:%M:%S} UTC){f': {end.why}' if end.why else ''}"

    @property
    def last(self) -> str | None:
        """`text` of the one that ended last."""
        return self.text(next(reversed(self._ends))) if self._ends else None


def _ago(seconds: float) -> str:
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 7200 else f"{seconds / 3600:.0f} h ago"


NOTED = frozenset({Setting.MTU, Setting.AUTONEG, Setting.FEC})
"""Settings with one value for each port, on which times can depend."""
PUT_BACK = "put-back"
ACTIONS_MAX = 4096
"""Actions that are remembered: several for each port of a large rack."""


class HostSettings:
    """NIC settings that runs have in force, and the last actions on NIC ports.

    It begins empty after a restart: the settings of earlier runs are restored before their ports are free.
    """

    def __init__(self) -> None:
        self._in_force: dict[str, dict[str, Json]] = {}
        self._actions: deque[HostAction] = deque(maxlen=ACTIONS_MAX)

    def see(self, fact: RunHost, *, at_ns: int) -> None:
        """Take an action that was emitted at `at_ns`."""
        self._actions.append(HostAction.of(fact, at_ns=at_ns))
        if fact.action == PUT_BACK:
            self._in_force.get(fact.port, {}).pop(str(fact.setting), None)
        elif fact.action in NOTED and fact.value is not UNSET:
            self._in_force.setdefault(fact.port, {})[fact.action] = fact.value

    def in_force(self, ports: Iterable[str]) -> dict[str, Mapping[str, Json]]:
        """Values in force, by port; ports without any are left out."""
        return {port: dict(found) for port in sorted(ports) if (found := self._in_force.get(port))}

    @property
    def actions(self) -> tuple[HostAction, ...]:
        """The last actions, oldest first."""
        return tuple(self._actions)
