"""Search for the way of one circuit: fewest new crossconnects first, then least loss."""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from hwd.fabric.graph import Graph, Leg, joinable
from hwd.model.link import SwitchCrossconnect
from hwd_drivers.kit.values import Crossconnect, FibreEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """Legs from a transmitter to a receiver, and the crossconnects between them."""

    legs: tuple[Leg, ...]
    crossconnects: tuple[SwitchCrossconnect, ...]
    loss_db_typical: float
    loss_db_max: float


@dataclass(slots=True)
class Taken:
    """Switch ends in use by the circuits routed so far. A crossconnect may be used once each way, as circulators have it."""

    ends: dict[FibreEnd, SwitchCrossconnect] = field(default_factory=dict)
    ways: set[tuple[FibreEnd, FibreEnd]] = field(default_factory=set)

    def take(self, path: Path) -> None:
        for crossconnect, before, after in zip(path.crossconnects, path.legs, path.legs[1:], strict=False):
            self.ways.add((before.end, after.start))
            self.ends[before.end] = self.ends[after.start] = crossconnect

    def free(self, entry: FibreEnd, out: FibreEnd) -> bool:
        return entry not in self.ends and out not in self.ends

    def shares(self, entry: FibreEnd, out: FibreEnd) -> bool:
        """Whether the crossconnect is there already and carries light the other way only."""
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
    graph: Graph, source: FibreEnd, target: FibreEnd, *, taken: Taken, barred: Mapping[FibreEnd, str]
) -> Path | None:
    """The best way from a transmitter to a receiver, or None. `barred` are switch ends that planned paths must not use."""
    switches = graph.testbed.switches
    last: dict[str, list[FibreEnd]] = {}
    for leg in graph.into.get(target, ()):
        last.setdefault(leg.start.owner, []).append(leg.start)
    serial = count()  # decides between equals by the order of the testbed file; steps have no order
    heap = [(0, leg.loss_db, next(serial), _Step(leg, None, None)) for leg in graph.legs.get(source, ())]
    heapq.heapify(heap)
    seen: set[FibreEnd] = set()
    while heap:
        crossed, loss, _, step = heapq.heappop(heap)
        entry = step.leg.end
        if entry == target:
            return _path(graph, step, loss)
        if entry in seen or entry in barred or entry.owner not in switches:
            continue
        seen.add(entry)
        switch = switches[entry.owner]
        for out in dict.fromkeys((*last.get(switch.name, ()), *graph.trunks[switch.name])):
            shared = taken.shares(entry, out)
            if (
                out in barred
                or not (shared or taken.free(entry, out))
                or not joinable(switch, entry.port_side, out.port_side)
            ):
                continue
            if any(out in (earlier.leg.end, earlier.leg.start) for earlier in step.back()):
                continue
            crossconnect = SwitchCrossconnect(
                switch=switch.name, crossconnect=Crossconnect.of(entry.port_side, out.port_side)
            )
            for leg in graph.legs[out]:
                if leg.end == target or leg.end.owner in switches:
                    passed = loss + switch.capabilities.loss_db_max + leg.loss_db
                    heapq.heappush(heap, (crossed + (not shared), passed, next(serial), _Step(leg, crossconnect, step)))
    return None


def _path(graph: Graph, last: _Step, loss_db_max: float) -> Path:
    steps = list(last.back())[::-1]
    crossconnects = tuple(step.crossconnect for step in steps if step.crossconnect)
    fixed = sum(step.leg.loss_db for step in steps)
    crossed = sum(
        graph.testbed.switches[crossconnect.switch].capabilities.loss_db_typical for crossconnect in crossconnects
    )
    return Path(
        legs=tuple(step.leg for step in steps),
        crossconnects=crossconnects,
        loss_db_typical=fixed + crossed,
        loss_db_max=loss_db_max,
    )
