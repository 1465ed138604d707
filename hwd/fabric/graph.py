"""The fixed part of the optics: the paths of light between two devices, through strands and passives, whatever the
switches do.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hwd.model.testbed import Passive, PassiveKind, Strand, Switch, Testbed
from hwd_drivers.core.values import Element, FibreEnd, PortSide, Side

INPUT = "in"
"""A one-sided switch that has an end of this name is a 1xN: it joins that end with one other, never two others."""


Alike = FibreEnd | tuple[str, str]
"""Entries with the same exits share this name: an entry of a switch with elements has its own; else it is the switch
with a side, or `in` of a 1xN.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One path of light from the end where it leaves a device (`start`) to the one where it enters the next (`end`); no
    switch in between.
    """

    start: FibreEnd
    end: FibreEnd
    strands: tuple[Strand, ...]
    loss_db: float


class Graph:
    """The legs of a testbed, by their start and by their end."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed
        self._strands: dict[FibreEnd, Strand] = {end: strand for strand in testbed.strands for end in strand.ends}
        self.sources = tuple(self._sources())
        """Transmitters of NIC ports and packet switches that have a fibre."""
        starts = (*self.sources, *(end for switch in testbed.switches.values() for end in self._emitters(switch)))
        self.legs: Mapping[FibreEnd, tuple[Leg, ...]] = {
            start: legs for start in starts if (legs := tuple(self._follow(start)))
        }
        into: dict[FibreEnd, list[Leg]] = {}
        for legs in self.legs.values():
            for leg in legs:
                into.setdefault(leg.end, []).append(leg)
        self.into: Mapping[FibreEnd, tuple[Leg, ...]] = {end: tuple(legs) for end, legs in into.items()}
        self.outs: Mapping[str, tuple[FibreEnd, ...]] = {
            name: tuple(end for end in self._emitters(switch) if end in self.legs)
            for name, switch in testbed.switches.items()
        }
        """Ends of each switch from which light reaches another device."""
        fibred: dict[str, set[PortSide]] = {name: set() for name in testbed.switches}
        for end in (*self.legs, *self.into):
            if end.owner in fibred:
                fibred[end.owner].add(end.port_side)
        self.fibred: Mapping[str, frozenset[PortSide]] = {name: frozenset(ends) for name, ends in fibred.items()}
        """Ends of each switch with a fibre in either direction."""
        self.trunks: Mapping[str, tuple[FibreEnd, ...]] = {
            name: tuple(end for end in outs if any(leg.end.owner in testbed.switches for leg in self.legs[end]))
            for name, outs in self.outs.items()
        }
        """Ends of each switch from which light reaches a switch."""
        self.elements: Mapping[str, Mapping[PortSide, Element]] = {
            name: {end: element for element in switch.capabilities.elements for end in _ends(element)}
            for name, switch in testbed.switches.items()
            if switch.capabilities.elements
        }
        """The element of each end, for switches that have elements."""
        self._one_by_n = frozenset(name for name, switch in testbed.switches.items() if is_one_by_n(switch))
        self._outs_alike: dict[Alike, Mapping[FibreEnd, None]] = {}

    def outs_of(self, entry: FibreEnd) -> tuple[FibreEnd, ...]:
        """Ends with a fibre to which a crossconnect can bring light of `entry`."""
        switch = self.testbed.switches[entry.owner]
        if switch.name not in self.elements:
            return tuple(out for out in self.outs[switch.name] if joinable(switch, entry.port_side, out.port_side))
        outs = (at_switch(switch.name, out) for out in self.partners(switch.name, entry.port_side))
        return tuple(out for out in outs if out in self.legs and joinable(switch, entry.port_side, out.port_side))

    def alike(self, entry: FibreEnd) -> Alike:
        """The name of all ends of a switch with the same exits; `outs_alike` has these, and one of them may be the
        entry itself.
        """
        switch = self.testbed.switches[entry.owner]
        if switch.name in self.elements:
            return entry
        if switch.capabilities.two_sided:
            return switch.name, entry.side
        return switch.name, INPUT if switch.name in self._one_by_n and entry.port == INPUT else ""

    def outs_alike(self, alike: Alike) -> Mapping[FibreEnd, None]:
        """Ends with a fibre by which light can leave that entered at an end of this name."""
        if (found := self._outs_alike.get(alike)) is None:
            found = self._outs_alike[alike] = dict.fromkeys(self._find_outs(alike))
        return found

    def _find_outs(self, alike: Alike) -> Iterator[FibreEnd]:
        if isinstance(alike, FibreEnd):
            yield from self.outs_of(alike)
            return
        name, which = alike
        if self.testbed.switches[name].capabilities.two_sided:
            yield from (out for out in self.outs[name] if out.side != which)
        elif name in self._one_by_n:
            yield from (out for out in self.outs[name] if (out.port == INPUT) is not (which == INPUT))
        else:
            yield from self.outs[name]

    def partners(self, switch: str, end: PortSide) -> tuple[PortSide, ...]:
        """Ends that the element of this end can join with it."""
        element = self.elements[switch].get(end)
        if element is None:
            return ()
        joined = (one for state in element.states for one in state if end in one.ends)
        return tuple(dict.fromkeys(one.b if one.a == end else one.a for one in joined))

    def joinable(self, switch: str, entry: PortSide, out: PortSide) -> bool:
        """Whether a crossconnect of this switch can bring light from `entry` to `out`."""
        return joinable(self.testbed.switches[switch], entry, out) and (
            switch not in self.elements or out in self.partners(switch, entry)
        )

    def neighbours(self, end: FibreEnd) -> Iterator[FibreEnd]:
        """Ends of devices that light of this end reaches, or whose light reaches it, without a switch in between."""
        yield from (leg.end for leg in self.legs.get(end, ()))
        yield from (leg.start for leg in self.into.get(end, ()))

    def strand_at(self, end: FibreEnd) -> Strand | None:
        return self._strands.get(end)

    def _sources(self) -> Iterator[FibreEnd]:
        for port in self.testbed.ports():
            yield from (end for end in port.ends(Side.TX) if end in self._strands)
        packet = (end for end in self._strands if end.owner in self.testbed.packet_switches and end.side is Side.TX)
        yield from sorted(packet, key=FibreEnd.sort_key)

    def _emitters(self, switch: Switch) -> Iterator[FibreEnd]:
        """Ends of a switch by which light may leave."""
        for side in switch.capabilities.ends:
            if gives(switch, side):
                yield at_switch(switch.name, side)

    def _follow(self, start: FibreEnd) -> Iterator[Leg]:
        pending: list[tuple[FibreEnd, tuple[Strand, ...], float]] = [(start, (), 0.0)]
        while pending:
            end, passed, loss = pending.pop()
            strand = self._strands.get(end)
            if strand is None or strand in passed:
                continue
            far = strand.other(end)
            passed = (*passed, strand)
            loss += strand.loss_db + sum(self.testbed.passives[panel.owner].loss_db for panel in strand.via)
            if passive := self.testbed.passives.get(far.owner):
                pending += [(out, passed, loss + passive.loss_db) for out in through(passive, far)]
            elif switch := self.testbed.switches.get(far.owner):
                if takes(switch, far.port_side):
                    yield Leg(start=start, end=far, strands=passed, loss_db=loss)
            elif far.side is Side.RX:
                yield Leg(start=start, end=far, strands=passed, loss_db=loss)


@functools.lru_cache(maxsize=262_144)
def at_switch(switch: str, side: PortSide) -> FibreEnd:
    return FibreEnd(owner=switch, port=side.port, side=side.side)


def takes(switch: Switch, side: PortSide) -> bool:
    """Whether light may enter a switch here. One-sided switches carry light both ways."""
    return switch.capabilities.reciprocal or not switch.capabilities.two_sided or side.side is Side.A


def gives(switch: Switch, side: PortSide) -> bool:
    """Whether light may leave a switch here."""
    return switch.capabilities.reciprocal or not switch.capabilities.two_sided or side.side is Side.B


def _ends(element: Element) -> frozenset[PortSide]:
    return frozenset(end for one in element.crossconnects for end in one.ends)


def joinable(switch: Switch, entry: PortSide, out: PortSide) -> bool:
    """Whether a switch of this kind can bring light from `entry` to `out`, regardless of its elements."""
    if entry == out or not (takes(switch, entry) and gives(switch, out)):
        return False
    if switch.capabilities.two_sided:
        return entry.side is not out.side
    return not is_one_by_n(switch) or INPUT in (entry.port, out.port)


def is_one_by_n(switch: Switch) -> bool:
    """Whether all its crossconnects have the end `in`."""
    one_sided = not (switch.capabilities.elements or switch.capabilities.two_sided)
    return one_sided and any(end.port == INPUT for end in switch.capabilities.ends)


def through(passive: Passive, end: FibreEnd) -> tuple[FibreEnd, ...]:
    """Ends at which light leaves a passive that it enters at `end`."""
    match passive.kind, end.port:
        case PassiveKind.PANEL, _:
            other = Side.B if end.side is Side.A else Side.A
            return (FibreEnd(owner=passive.name, port=end.port, side=other),)
        case PassiveKind.SPLITTER, "in":
            return tuple(FibreEnd(owner=passive.name, port=f"out{port}") for port in range(1, passive.ports + 1))
        case PassiveKind.SPLITTER, _:
            return (FibreEnd(owner=passive.name, port="in"),)
        case ((PassiveKind.TAP | PassiveKind.ATTENUATOR), port):
            return (FibreEnd(owner=passive.name, port="out" if port == "in" else "in"),)
        case PassiveKind.CIRCULATOR, ("1" | "2") as port:
            return (FibreEnd(owner=passive.name, port=str(int(port) + 1)),)
        case _:
            return ()
