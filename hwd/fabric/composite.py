"""A composite switch: many elements of few states each that act as one. Demands become states of elements, with the
fewest moves.

sel = CompositeSwitch(graph, testbed.composites["sel"])
compiled = sel.compile([Crossconnect.parse("1A-7B")], present=state)
print(compiled.moves, compiled.ways)

A move is an element that changes its state, or a crossconnect that a switch without elements makes. The answer is exact
(`hwd.fabric.search`). Where minimality cannot be proved within `EFFORT`, the answer is valid and not marked as
`proven`. Where not even the existence of a solution can be decided within `EFFORT`, that is an error.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from hwd.fabric.composite_parts import CompositeParts
from hwd.fabric.conflict import ConflictError, conflict_of
from hwd.fabric.graph import Graph
from hwd.fabric.partial_paths import Effort, ExhaustedError, PathProblem, Way, Ways
from hwd.fabric.search import Search
from hwd.fabric.state import DARK, State, bare
from hwd.model.link import SwitchCrossconnect
from hwd.model.plural import plural
from hwd.model.testbed import Composite
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.values import (
    Crossconnect,
    CrossconnectReading,
    CrossconnectState,
    Element,
    FibreEnd,
    PortSide,
    Side,
)

EFFORT = 2_000_000
"""Steps for each of: a path for all demands, the fewest moves, the smallest conflict. About a second each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """The path of one demand inside the composite: crossconnects of elements, and the ends where light enters and
    leaves parts, in the demand's own order.
    """

    crossconnects: tuple[SwitchCrossconnect, ...]
    hops: tuple[tuple[FibreEnd, FibreEnd], ...]

    def from_end(self, entry: FibreEnd) -> "Passage":
        """Turn the passage into the direction of light that enters at `entry`."""
        if self.hops[0][0] == entry:
            return self
        back = tuple((out, into) for into, out in reversed(self.hops))
        return Passage(crossconnects=self.crossconnects[::-1], hops=back)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledDemands:
    """Demands as crossconnects of elements. `moves`: the elements that change; where not `proven`, the minimum is at
    least `moves_at_least`.
    """

    composite: str
    passages: Mapping[Crossconnect, Passage]
    moves: int
    moves_at_least: int

    @property
    def proven(self) -> bool:
        return self.moves == self.moves_at_least

    @property
    def crossconnects(self) -> frozenset[SwitchCrossconnect]:
        return frozenset(one for passage in self.passages.values() for one in passage.crossconnects)


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentDemand:
    """A demand that the elements' present states make, and the state that the switches report for it."""

    demand: Crossconnect
    state: CrossconnectState
    way: Way
    passage: Passage

    @property
    def reading(self) -> CrossconnectReading:
        return CrossconnectReading(crossconnect=self.demand, state=self.state)


class CompositeSwitch:
    """One composite of one testbed; immutable."""

    def __init__(self, graph: Graph, composite: Composite) -> None:
        self.name = composite.name
        self.inside = CompositeParts(graph, composite)
        self._ports = self.inside.ports
        self._port_at: Mapping[int, PortSide] = {number: port for port, number in self._ports.items()}
        self._losses: dict[PortSide, Mapping[PortSide, float]] = {}
        self._graph = graph
        self._reciprocal = all(
            capabilities.reciprocal or not capabilities.two_sided
            for capabilities in (graph.testbed.switches[switch].capabilities for switch in self.inside.switches)
        )

    def joinable(self, entry: PortSide, out: PortSide) -> bool:
        """Whether light that enters at `entry` could leave at `out`, if all else were free."""
        if entry.side is out.side and entry.side is not Side.NONE:
            return False
        return self._leads(entry, out) and (entry.side is not Side.B or self._reciprocal)

    def near(self, ports: Iterable[PortSide]) -> Callable[[Crossconnect], bool]:
        """Whether a demand can depend on these ends: fibres join its first element with theirs, in any
        number of steps.
        """
        island, part_of = self.inside.island, self.inside.part_of
        islands = {island[part_of[self._ports[port]]] for port in ports if port in self._ports}
        return lambda demand: island[part_of[self._ports[demand.a]]] in islands

    def element_of(self, one: SwitchCrossconnect) -> Element | None:
        """Its element that makes this crossconnect; None for a switch without elements."""
        end = one.crossconnect.a
        number = self.inside.number[FibreEnd(owner=one.switch, port=end.port, side=end.side)]
        return self.inside.parts[self.inside.part_of[number]].element

    def least_losses(self, entry: PortSide) -> Mapping[PortSide, float]:
        """The greatest loss of light from `entry` to each end that it can leave by, on the path of least loss."""
        if (known := self._losses.get(entry)) is None:
            least: dict[PortSide, float] = {}
            for port, loss_db in self._lost(entry):
                least[port] = min(loss_db, least.get(port, loss_db))
            known = self._losses[entry] = least
        return known

    def present_demands(self, state: State) -> tuple[PresentDemand, ...]:
        """The demands that the present states of the elements make, in the order of the ports. Switches that are not in
        `state` join nothing.
        """
        partner, worst = self._joined(state)
        found = []
        for port, start in self._ports.items():
            way: list[tuple[int, int]] = []
            entry: int | None = start
            seen = set()
            while entry is not None and (out := partner.get(entry)) is not None and entry not in seen:
                seen.add(entry)
                way.append((entry, out))
                entry = self.inside.wires.get(out)
            far = self._port_at.get(way[-1][1]) if way else None
            if far is None or not self._begins(port, far):
                continue
            states = {worst[entry, out] for entry, out in way}
            said = next((one for one in _WORST_FIRST if one in states), CrossconnectState.TUNED)
            demand = Crossconnect.of(port, far)
            found.append(PresentDemand(demand=demand, state=said, way=tuple(way), passage=self._passage(way)))
        return tuple(found)

    def compile(
        self,
        demands: Iterable[Crossconnect],
        present: State,
        *,
        stay: Iterable[PresentDemand] = (),
        needed: Iterable[SwitchCrossconnect] = (),
        effort: int = EFFORT,
        explain: bool = True,
    ) -> CompiledDemands:
        """Paths for all demands at once, with the fewest moves from `present`. Demands in `stay` keep their path;
        crossconnects in `needed` must exist too.

        Raises ConflictError with the smallest set of demands that cannot be met at once, those of `stay` included;
        RefusedError where `effort` is not enough. Without `explain` a conflict names all demands, since finding the
        smallest set takes time.
        """
        standing = {one.demand: one.way for one in stay}
        wanted = tuple(dict.fromkeys([*demands, *standing]))
        self._check_ends(wanted)
        self._check_leads(wanted)
        given = self._given(wanted, standing, present, tuple(needed))
        search = Search(given, spent := Effort(effort))
        ways = self._feasible(search, given, wanted, effort, explain=explain)
        at_least, moves = search.at_least, search.moves_found
        if moves > at_least:
            spent.left = effort
            try:
                better = search.fewest(moves)
                at_least = moves
                if better is not None:
                    ways = better
                    at_least = moves = self.moves_of(ways, given)
            except ExhaustedError:
                pass  # the answer itself says that it is not proven
        return CompiledDemands(
            composite=self.name,
            passages={demand: self._passage(ways[place], demand) for place, demand in enumerate(wanted)},
            moves=moves,
            moves_at_least=at_least,
        )

    def check(self, demands: Iterable[Crossconnect], *, effort: int = EFFORT) -> None:
        """Raises as `compile` does where the demands cannot be met at once, whatever the elements' states."""
        wanted = tuple(dict.fromkeys(demands))
        self._check_ends(wanted)
        self._check_leads(wanted)
        given = self._given(wanted, {}, {}, ())
        self._feasible(Search(given, Effort(effort)), given, wanted, effort)

    def moves_of(self, ways: Ways, given: PathProblem) -> int:
        """Elements that these paths move, and crossconnects that they make in parts without states."""
        used: dict[int, int] = {}
        made = 0
        for way in ways.values():
            for entry, out in way:
                part = self.inside.part_of[entry]
                if self.inside.parts[part].element is None:
                    made += (entry, out) not in given.joined
                    continue
                states = next(states for other, states in self.inside.crossings[entry] if other == out)
                used[part] = used.get(part, -1) & states
        for part, states in given.needed.items():
            used[part] = used.get(part, -1) & states
        numbers = ((given.present[part], states) for part, states in used.items())
        return made + sum(number is None or not states >> number & 1 for number, states in numbers)

    # --- private

    def _feasible(
        self, search: Search, given: PathProblem, wanted: tuple[Crossconnect, ...], effort: int, *, explain: bool = True
    ) -> Ways:
        try:
            ways = search.feasible()
        except ExhaustedError:
            raise RefusedError(
                f"{self.name}: cannot decide whether its {plural(len(wanted), 'demand')} can be met at once: "
                f"{effort:,} steps of the search were not enough. "
                "Ask for fewer at once, or name crossconnects of the elements themselves"
            ) from None
        if ways is None and not explain:
            raise ConflictError(f"{self.name}: its {plural(len(wanted), 'demand')} cannot be met at once", wanted)
        if ways is None:
            raise conflict_of(given, wanted, Effort(effort))
        return ways

    def _lost(self, entry: PortSide) -> Iterator[tuple[PortSide, float]]:
        switches, inside = self._graph.testbed.switches, self.inside
        heap = [(0.0, self._ports[entry])] if entry in self._ports else []
        seen: set[int] = set()
        while heap:
            loss, at = heapq.heappop(heap)
            if at in seen:
                continue
            seen.add(at)
            passed = loss + switches[inside.ends[at].owner].capabilities.loss_db_max
            for out, _ in inside.crossings[at]:
                if (port := self._port_at.get(out)) is not None:
                    yield port, passed
                elif (onward := inside.wires.get(out)) is not None:
                    leg = self._graph.legs[inside.ends[out]][0]
                    heapq.heappush(heap, (passed + leg.loss_db, onward))

    def _given(
        self,
        wanted: tuple[Crossconnect, ...],
        standing: Mapping[Crossconnect, Way],
        present: State,
        needed: tuple[SwitchCrossconnect, ...],
    ) -> PathProblem:
        inside = self.inside
        there = {switch: frozenset(map(bare, found)) for switch, found in present.items()}
        partner, _ = self._joined(present)
        needs: dict[int, int] = {}
        for one in needed:
            for end in one.crossconnect.ends:
                number = inside.number.get(FibreEnd(owner=one.switch, port=end.port, side=end.side))
                if number is None:
                    continue
                part = inside.part_of[number]
                if (element := inside.parts[part].element) is not None:
                    having = sum(1 << place for place, state in enumerate(element.states) if one.crossconnect in state)
                    needs[part] = needs.get(part, (1 << len(element.states)) - 1) & having
        return PathProblem(
            inside=inside,
            demands=tuple(self._oriented(demand) for demand in wanted),
            present=[
                inside.state_at(place, there[part.switch]) if part.switch in there else None
                for place, part in enumerate(inside.parts)
            ],
            joined=frozenset(partner.items()),
            fixed={wanted.index(demand): way for demand, way in standing.items()},
            needed=needs,
        )

    def _oriented(self, demand: Crossconnect) -> tuple[int, int]:
        """Where light enters and leaves: on one-way parts only one of the two directions has a path."""
        a, b = demand.ends
        return (self._ports[a], self._ports[b]) if self._leads(a, b) else (self._ports[b], self._ports[a])

    def _leads(self, a: PortSide, b: PortSide) -> bool:
        entry, out = self._ports.get(a), self._ports.get(b)
        return entry is not None and out is not None and bool(self.inside.reach[entry] >> out & 1)

    def _begins(self, port: PortSide, far: PortSide) -> bool:
        """Whether a demand that light follows from `port` to `far` is written in this order: each is found from both
        its ends.
        """
        if (port.side is far.side and port.side is not Side.NONE) or port == far:
            return False
        return Crossconnect.of(port, far).a == port

    def _joined(self, state: State) -> tuple[dict[int, int], dict[tuple[int, int], CrossconnectState]]:
        """Which end each end is joined with, and the reported state of each such pair."""
        partner: dict[int, int] = {}
        said: dict[tuple[int, int], CrossconnectState] = {}
        for switch in self.inside.switches:
            for each in state.get(switch, ()):
                one = bare(each)
                numbers = [
                    self.inside.number.get(FibreEnd(owner=switch, port=end.port, side=end.side)) for end in one.ends
                ]
                if numbers[0] is None or numbers[1] is None:
                    continue
                for entry, out in ((numbers[0], numbers[1]), (numbers[1], numbers[0])):
                    if any(out == other for other, _ in self.inside.crossings[entry]):
                        partner[entry] = out
                        said[entry, out] = CrossconnectState.TUNED if isinstance(each, Crossconnect) else each.state
        return partner, said

    def _passage(self, way: Iterable[tuple[int, int]], demand: Crossconnect | None = None) -> Passage:
        hops = tuple((self.inside.ends[entry], self.inside.ends[out]) for entry, out in way)
        crossconnects = tuple(self.inside.crossconnect(entry, out) for entry, out in way)
        passage = Passage(crossconnects=crossconnects, hops=hops)
        return passage if demand is None else passage.from_end(self.inside.ends[self._ports[demand.a]])

    def _check_ends(self, wanted: Iterable[Crossconnect]) -> None:
        used: dict[PortSide, Crossconnect] = {}
        for demand in wanted:
            for end in demand.ends:
                if (other := used.setdefault(end, demand)) is not demand:
                    raise ConflictError(
                        f"{self.name}: {other} and {demand} both need {end}; an end is in one demand at a time. "
                        "Ask for one of them",
                        (other, demand),
                    )

    def _check_leads(self, wanted: Iterable[Crossconnect]) -> None:
        for demand in wanted:
            if not (self._leads(demand.a, demand.b) or self._leads(demand.b, demand.a)):
                raise ConflictError(
                    f"{self.name}: cannot make {demand}: no path leads inside from {demand.a} to {demand.b}, "
                    "whatever its elements do. Use other ends",
                    (demand,),
                )


_WORST_FIRST = (*sorted(DARK), CrossconnectState.TUNING, CrossconnectState.UNSTATED)
