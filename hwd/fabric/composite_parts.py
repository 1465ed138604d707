"""The inside of a composite: its parts, what each can join, the fibres between them, and which ends light can reach.

Ends are numbered: searches use integers and bits only.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hwd.fabric.graph import Graph, at_switch, joinable
from hwd.model.link import SwitchCrossconnect
from hwd.model.testbed import Composite
from hwd_drivers.core.values import Crossconnect, Element, FibreEnd, PortSide


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An element of a switch, or a whole switch without elements (`element` None), which joins any
    ends that are free.
    """

    switch: str
    element: Element | None

    def __str__(self) -> str:
        return f"{self.switch} {self.element.name}" if self.element else self.switch


class CompositeParts:
    """Made once from the fibres.

    `crossings`: from an end where light enters a part to (end where it leaves, states that do so as bits). `entries`:
    the same in reverse. `wires`: from an end where light leaves a part to the end of the next part that it enters;
    `sources`: the same in reverse. `reach`: the ends, as bits, where light that enters at an end could leave some part,
    whatever the states. `ports`: the ends of the composite itself. `leaks`: ends of parts whose fibre leads out of the
    composite, though they are no port of it, and where to. `comes_back`: whether light that has left an element can
    come back to it.
    """

    def __init__(self, graph: Graph, composite: Composite) -> None:
        self.composite = composite
        self._graph = graph
        self._element_names = {
            (switch, end): element for switch, elements in graph.elements.items() for end, element in elements.items()
        }
        others = frozenset(
            end
            for other in graph.testbed.composites.values()
            if other.name != composite.name
            for end in other.ports.values()
        )
        self.parts, self.leaks = self._found(others)
        self.ends = tuple(end for part in self.parts for end in self._ends_of(part))
        self.number: Mapping[FibreEnd, int] = {end: number for number, end in enumerate(self.ends)}
        part_numbers = {part: number for number, part in enumerate(self.parts)}
        self.part_of = tuple(part_numbers[part] for part in self.parts for _ in self._ends_of(part))
        self.ports: Mapping[PortSide, int] = {
            port: self.number[end] for port, end in composite.ports.items() if end in self.number
        }
        self.crossings = tuple(tuple(self._crossings(end)) for end in self.ends)
        entries: list[list[tuple[int, int]]] = [[] for _ in self.ends]
        for entry, crossings in enumerate(self.crossings):
            for out, states in crossings:
                entries[out].append((entry, states))
        self.entries = tuple(map(tuple, entries))
        self.wires = self._wires()
        self.sources = {entry: out for out, entry in self.wires.items()}
        self.reach = self._reach()
        self.comes_back = self._comes_back()
        self.island = self._islands()

    @property
    def switches(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.switch for part in self.parts))

    def switches_of(self, ports: Iterable[PortSide]) -> tuple[str, ...]:
        """The switches that matter for demands at these ends: those of parts that fibres join with theirs, in any
        number of steps.
        """
        islands = {self.island[self.part_of[self.ports[port]]] for port in ports if port in self.ports}
        return tuple(
            dict.fromkeys(
                part.switch for part, island in zip(self.parts, self.island, strict=True) if island in islands
            )
        )

    def crossconnect(self, entry: int, out: int) -> SwitchCrossconnect:
        one, other = self.ends[entry], self.ends[out]
        return SwitchCrossconnect(switch=one.owner, crossconnect=Crossconnect.of(one.port_side, other.port_side))

    def state_at(self, part: int, crossconnects: frozenset[Crossconnect]) -> int | None:
        """The state of a part with exactly these of its crossconnects; None where none has, or the
        part has no states.
        """
        element = self.parts[part].element
        if element is None:
            return None
        mine = crossconnects & element.crossconnects
        return next((number for number, state in enumerate(element.states) if frozenset(state) == mine), None)

    # --- parts

    def _part_at(self, end: FibreEnd) -> Part | None:
        if end.owner not in self._graph.testbed.switches:
            return None
        if end.owner not in self._graph.elements:
            return Part(switch=end.owner, element=None)
        element = self._element_names.get((end.owner, end.port_side))
        return None if element is None else Part(switch=end.owner, element=element)

    def _ends_of(self, part: Part) -> Iterator[FibreEnd]:
        if part.element is None:
            ends: Iterable[PortSide] = self._graph.testbed.switches[part.switch].capabilities.ends
        else:
            ends = dict.fromkeys(end for state in part.element.states for one in state for end in one.ends)
        return (at_switch(part.switch, end) for end in ends)

    def _found(self, others: frozenset[FibreEnd]) -> tuple[tuple[Part, ...], tuple[tuple[FibreEnd, FibreEnd], ...]]:
        """Parts with a port, and those that only fibres from other parts lead to."""
        graph, mine = self._graph, frozenset(self.composite.ports.values())
        seeds = dict.fromkeys(part for end in self.composite.ports.values() if (part := self._part_at(end)) is not None)
        near: dict[Part, list[tuple[FibreEnd, FibreEnd]]] = {}
        pending = deque(seeds)
        while pending:
            part = pending.popleft()
            if part in near:
                continue
            near[part] = [
                (end, far)
                for end in self._ends_of(part)
                if end not in mine
                for far in dict.fromkeys(graph.neighbours(end))
            ]
            pending += [next_part for _, far in near[part] if (next_part := self._part_at(far)) is not None]
        kept = set(near)
        while True:
            gone = {
                part
                for part in kept - seeds.keys()
                if any(end in others for end in self._ends_of(part))
                or any(far in mine or self._part_at(far) not in kept for _, far in near[part])
            }
            if not gone:
                break
            kept -= gone
        leaks = [
            (end, far)
            for part in seeds
            for end, far in near[part]
            if end not in others and (far in mine or self._part_at(far) not in kept)
        ]
        return tuple(part for part in near if part in kept), tuple(dict.fromkeys(leaks))

    # --- where light can go in it

    def _crossings(self, end: FibreEnd) -> Iterator[tuple[int, int]]:
        element = self.parts[self.part_of[self.number[end]]].element
        switch = self._graph.testbed.switches[end.owner]
        if element is None:
            for out in self._ends_of(self.parts[self.part_of[self.number[end]]]):
                if joinable(switch, end.port_side, out.port_side):
                    yield self.number[out], 1
            return
        for out_side in self._graph.partners(end.owner, end.port_side):
            if joinable(switch, end.port_side, out_side):
                one = Crossconnect.of(end.port_side, out_side)
                states = sum(1 << number for number, state in enumerate(element.states) if one in state)
                yield self.number[at_switch(end.owner, out_side)], states

    def _wires(self) -> dict[int, int]:
        """Fibres that a splitter divides are left out: they would carry light to unwanted places."""
        ports = frozenset(self.ports.values())
        found = {}
        for out, end in enumerate(self.ends):
            legs = self._graph.legs.get(end, ())
            if out in ports or len(legs) != 1 or len(self._graph.into[legs[0].end]) != 1:
                continue
            entry = self.number.get(legs[0].end)
            if entry is not None and entry not in ports:
                found[out] = entry
        return found

    def _reach(self) -> list[int]:
        reach = [0] * len(self.ends)
        changed = True
        order = range(len(self.ends) - 1, -1, -1)
        while changed:
            changed = False
            for entry in order:
                found = reach[entry]
                for out, _ in self.crossings[entry]:
                    found |= 1 << out
                    if (after := self.wires.get(out)) is not None:
                        found |= reach[after]
                if found != reach[entry]:
                    reach[entry] = found
                    changed = True
        return reach

    def _comes_back(self) -> bool:
        own = [0] * len(self.parts)
        for end, part in enumerate(self.part_of):
            own[part] |= 1 << end
        return any(
            self.parts[part].element is not None
            and any(self.reach[self.wires[out]] & own[part] for out, _ in crossings if out in self.wires)
            for part, crossings in zip(self.part_of, self.crossings, strict=True)
        )

    def _islands(self) -> tuple[int, ...]:
        leader = list(range(len(self.parts)))

        def top(part: int) -> int:
            while leader[part] != part:
                leader[part] = part = leader[leader[part]]
            return part

        for out, entry in self.wires.items():
            leader[top(self.part_of[out])] = top(self.part_of[entry])
        return tuple(map(top, range(len(self.parts))))
