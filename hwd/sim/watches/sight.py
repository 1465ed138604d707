"""The sight of a witness, whatever the rule: its mirrors, the journal's disk, and what others have touched."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from hwd.reconfigure.journal import file as journal_file
from hwd.reconfigure.journal.entries import OpenEntry
from hwd.reconfigure.journal.sets import StoredSet
from hwd.sim.racks import Rack
from hwd.sim.rules import Violation
from hwd.sim.world import World
from hwd_drivers.core.values import Crossconnect, PortSide


@dataclass(slots=True, kw_only=True)
class SeenReconfiguration:
    """A reconfiguration: what it removes and adds by switch, and what became of it by whom."""

    id: str
    run: str | None
    at_s: float
    moves: dict[str, tuple[frozenset[Crossconnect], frozenset[Crossconnect]]]
    of_set: str | None = None
    outcomes: dict[str, str] = field(default_factory=dict)

    @property
    def ends(self) -> set[tuple[str, PortSide]]:
        """The switches' ends that it changes."""
        return {
            (switch, end) for switch, sides in self.moves.items() for one in sides[0] | sides[1] for end in one.ends
        }


class Sight:
    """Attach it to a world that has started."""

    def __init__(self, rack: Rack) -> None:
        self.violations: list[Violation] = []
        self.rack = rack
        self.seen: dict[str, SeenReconfiguration] = {}
        self.touched: dict[tuple[str, PortSide], float] = {}
        """When somebody else than we last changed what is at an end: a front panel, a power cycle, a fault."""
        self.up_s = 0.0
        """When the daemon started last."""
        self._world: World | None = None
        self._outside = False

    @property
    def world(self) -> World:
        assert self._world is not None
        return self._world

    @property
    def now_s(self) -> float:
        return 0.0 if self._world is None else self._world.clock.monotonic_ns() / 1e9

    def breach(self, rule: str, what: str) -> None:
        self.violations.append(Violation(at_s=round(self.now_s, 6), rule=rule, what=what))

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """What changes meanwhile is not changed by us."""
        self._outside = True
        try:
            yield
        finally:
            self._outside = False

    def touch(self, switch: str, ends: frozenset[PortSide] | None = None) -> None:
        """Somebody else changed what is at these ends, or at all of a switch."""
        for end in ends or self.rack.testbed.switches[switch].capabilities.ends:
            self.touched[switch, end] = self.now_s

    def was_touched(self, switch: str, crossconnects: frozenset[Crossconnect], *, since_s: float) -> bool:
        """Whether somebody else changed something at the ends of these, from then on."""
        ends = {end for one in crossconnects for end in one.ends}
        return any(self.touched.get((switch, end), -1.0) >= since_s for end in ends)

    def there(self, switch: str) -> frozenset[Crossconnect]:
        """What the mirrors of a switch carry now."""
        return frozenset(self.world.rack.switches[switch].mirror.crossconnects())

    def journaled(self) -> tuple[OpenEntry, ...]:
        """What the journal's disk holds open now, after a power cut."""
        return self.contents().open

    def journaled_sets(self) -> tuple[StoredSet, ...]:
        """The prepared sets that the journal's disk has, after a power cut."""
        return self.contents().sets

    def contents(self) -> journal_file.Contents:
        """What the journal's disk has, after a power cut."""
        return journal_file.read(self.world.journal_disk.durable(), None)
