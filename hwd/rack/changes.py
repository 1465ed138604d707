"""The last change of each switch and who made it, from documents."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from msgspec import UNSET
from msgspec.structs import replace

from hwd.fabric.fabric import Fabric
from hwd.model.daemon import DaemonRecovered, JournalGivenUp
from hwd.model.reconfiguration import ReconfigurationCommanded, ReconfigurationEnded, ReconfigurationStarted
from hwd.model.switch import NOT_ENDED, SwitchChange
from hwd_drivers.core.documents import Document
from hwd_drivers.devices.facts import SwitchRead, SwitchRestarted

OPEN_KEPT = 1024
"""Reconfigurations without an end whose switches are remembered; the oldest are forgotten."""
GIVEN_UP = "given up"
ROLLED_BACK, FAILED = "rolled-back", "failed"
LOCAL = "local"


@dataclass(slots=True, kw_only=True)
class _Open:
    """A reconfiguration that has not ended, and the switches that it has commanded."""

    started: ReconfigurationStarted
    commanded: dict[str, None] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether a host made it, on its own switches."""
        return self.started.source == LOCAL

    @property
    def moving(self) -> list[str]:
        return [move.switch for move in self.started.moves if move.add or move.remove]

    def change(self, switch: str, wall_ns: int, outcome: str = NOT_ENDED) -> SwitchChange:
        started = self.started
        move = next((move for move in started.moves if move.switch == switch), None)
        return SwitchChange(
            wall_ns=wall_ns,
            origin="host" if self.is_local else "reconfiguration",
            added=[] if move is None else move.add,
            removed=[] if move is None else move.remove,
            reconfiguration=started.reconfiguration,
            what=started.what,
            outcome=outcome,
            run=started.run,
            host=None if started.host is UNSET else started.host,
            lease=started.lease,
            holder=None if started.holder is UNSET else started.holder,
        )


class Changes:
    """A `Sink`.

    A change of ours counts from its command, a roll-back from its end. What neither our commands nor a restart of the
    switch explain is not ours. A change of a host's own switch is that of its selection, where its agent reported one.
    """

    TAKES: ClassVar = (
        ReconfigurationStarted,
        ReconfigurationCommanded,
        ReconfigurationEnded,
        DaemonRecovered,
        JournalGivenUp,
        SwitchRead,
        SwitchRestarted,
    )

    def __init__(self, switches: Iterable[str]) -> None:
        self._switches = frozenset(switches)
        self._changes: dict[str, SwitchChange] = {}
        self._open: dict[str, _Open] = {}

    def use_testbed(self, fabric: Fabric) -> None:
        """Go on with the testbed of this fabric."""
        self._switches = frozenset(fabric.testbed.switches)
        self._changes = {name: one for name, one in self._changes.items() if name in self._switches}

    def last(self, switch: str) -> SwitchChange | None:
        """The last change of a switch; None where none is known."""
        return self._changes.get(switch)

    def __call__(self, document: Document) -> None:
        match document.fact:
            case ReconfigurationStarted() as started:
                self._start(started, document.wall_ns)
            case ReconfigurationCommanded(reconfiguration=id, switch=switch, commanded_ns=commanded_ns):
                at_ns = document.at_ns if commanded_ns is None else commanded_ns
                self._command(id, switch, document.wall_ns - (document.at_ns - at_ns))
            case ReconfigurationEnded(reconfiguration=id, outcome=outcome):
                self._end(id, outcome, document.wall_ns)
            case DaemonRecovered(reconfiguration=id, outcome=outcome):
                self._end(id, outcome, document.wall_ns, cut_off=True)
            case JournalGivenUp(reconfiguration=id):
                self._end(id, GIVEN_UP, document.wall_ns)
            case SwitchRestarted(switch=switch, lost=lost) if lost:
                self._put(switch, SwitchChange(wall_ns=document.wall_ns, origin="restart", added=[], removed=lost))
            case SwitchRead(switch=switch, ours=False, added=added, removed=removed) if added or removed:
                self._put(switch, SwitchChange(wall_ns=document.wall_ns, origin="other", added=added, removed=removed))

    def _start(self, started: ReconfigurationStarted, wall_ns: int) -> None:
        one = self._open[started.reconfiguration] = _Open(started=started)
        while len(self._open) > OPEN_KEPT:
            del self._open[next(iter(self._open))]
        if one.is_local:  # of one whose agent was killed meanwhile no command follows
            for switch in one.moving:
                self._command(started.reconfiguration, switch, wall_ns)

    def _command(self, id: str, switch: str, wall_ns: int) -> None:
        if (one := self._open.get(id)) is not None:  # else its start is older than what was read of the records
            one.commanded[switch] = None
            self._put(switch, one.change(switch, wall_ns))

    def _end(self, id: str, outcome: str, wall_ns: int, *, cut_off: bool = False) -> None:
        """A roll-back is a change of its own time. `cut_off`: its commands may be missing in the records."""
        if (one := self._open.get(id)) is None:
            return
        if outcome != FAILED or one.is_local:  # the journal has a failed one open, and ends it another time
            del self._open[id]
        for switch in one.commanded or (one.moving if cut_off else ()):
            last = self._changes.get(switch)
            if last is not None and last.reconfiguration == id and outcome != ROLLED_BACK:
                self._changes[switch] = replace(last, outcome=outcome)
            elif outcome == ROLLED_BACK or not one.commanded:
                self._put(switch, one.change(switch, wall_ns, outcome))

    def _put(self, switch: str, change: SwitchChange) -> None:
        if switch in self._switches:
            self._changes[switch] = change
