"""Search for the path of one circuit: fewest new crossconnects first, then least loss."""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from hwd.fabric.graph import Leg
from hwd.fabric.hops import Hops
from hwd.model.link import SwitchCrossconnect
from hwd_drivers.core.values import FibreEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """Legs from a transmitter to a receiver, and the crossconnects between them; those of composites under the
    composite's name.
    """

    legs: tuple[Leg, ...]
    crossconnects: tuple[SwitchCrossconnect, ...]


@dataclass(slots=True)
class EndsInUse:
    """Switch ends in use by the circuits routed so far. A crossconnect may be used once each way, as with circulators.

    `careful`: composites are asked at each step whether they can meet all demands; else at the end.
    """

    careful: bool = False
    ends: dict[FibreEnd, SwitchCrossconnect] = field(default_factory=dict)
    ways: set[tuple[FibreEnd, FibreEnd]] = field(default_factory=set)
    of_station: dict[str, set[SwitchCrossconnect]] = field(default_factory=dict)

    def take(self, path: Path) -> None:
        for crossconnect, before, after in zip(path.crossconnects, path.legs, path.legs[1:], strict=False):
            self.ways.add((before.end, after.start))
            self.ends[before.end] = self.ends[after.start] = crossconnect
            self.of_station.setdefault(crossconnect.switch, set()).add(crossconnect)

    def free(self, entry: FibreEnd, out: FibreEnd) -> bool:
        return entry not in self.ends and out not in self.ends

    def shares(self, entry: FibreEnd, out: FibreEnd) -> bool:
        """Whether the crossconnect exists already and carries light in the other direction only."""
        return (out, entry) in self.ways and (entry, out) not in self.ways


@dataclass(frozen=True, slots=True)
class _Step:
    leg: Leg
    crossconnect: SwitchCrossconnect | None
    before: "_Step | None"

    def back(self) -> "Iterator[_Step]":
        step: _Step | None = self
        while step:
            yield step
            step = step.before


def find_path(
    hops: Hops, source: FibreEnd, target: FibreEnd, *, taken: EndsInUse, barred: Mapping[FibreEnd, str]
) -> Path | None:
    """The best path from a transmitter to a receiver, or None. `barred` are switch ends that planned paths
    must not use.
    """
    graph = hops.graph
    switches = graph.testbed.switches
    last: dict[str, list[FibreEnd]] = {}
    for leg in graph.into.get(target, ()):
        last.setdefault(hops.station(leg.start), []).append(leg.start)
    serial = count()  # equal paths are ordered by the testbed file; steps have no order
    heap = [(0, leg.loss_db, next(serial), _Step(leg, None, None)) for leg in graph.legs.get(source, ())]
    heapq.heapify(heap)
    seen: set[FibreEnd] = set()
    while heap:
        crossed, loss, _, step = heapq.heappop(heap)
        entry = step.leg.end
        if entry == target:
            return _path(step)
        if entry in seen or entry in barred or entry.owner not in switches:
            continue
        seen.add(entry)
        for out, crossconnect, crossing_db in hops.onward(entry, last.get(hops.station(entry), ())):
            shared = taken.shares(entry, out)
            if out in barred or not (shared or taken.free(entry, out)):
                continue
            if any(out in (earlier.leg.end, earlier.leg.start) for earlier in step.back()):
                continue
            if not (shared or hops.together(crossconnect, _beside(crossconnect, taken, step), careful=taken.careful)):
                continue
            for leg in graph.legs.get(out, ()):
                if leg.end == target or leg.end.owner in switches:
                    passed = loss + crossing_db + leg.loss_db
                    heapq.heappush(heap, (crossed + (not shared), passed, next(serial), _Step(leg, crossconnect, step)))
    return None


def _beside(one: SwitchCrossconnect, taken: EndsInUse, step: _Step) -> Iterator[SwitchCrossconnect]:
    """The other crossconnects that the same station has to carry."""
    yield from taken.of_station.get(one.switch, ())
    for earlier in step.back():
        if earlier.crossconnect is not None and earlier.crossconnect.switch == one.switch:
            yield earlier.crossconnect


def _path(last: _Step) -> Path:
    steps = list(last.back())[::-1]
    return Path(
        legs=tuple(step.leg for step in steps),
        crossconnects=tuple(step.crossconnect for step in steps if step.crossconnect),
    )
