"""The fabric of one testbed: paths of links with their loss, and the links that a state of the switches lights.

fabric = Fabric(testbed)
routed = fabric.routes([Link.parse("h0.eth0<->h1.eth0")])
wanted = desired(routed)
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, partial

from hwd.fabric.composite import CompiledDemands, CompositeSwitch
from hwd.fabric.followed_light import FollowedLight, Ways, in_order
from hwd.fabric.graph import Graph, Leg, at_switch
from hwd.fabric.hops import Hops
from hwd.fabric.input_power import InputPower, InputPowers
from hwd.fabric.light import LightMap
from hwd.fabric.link_router import LinkRouter, LinkWays
from hwd.fabric.loss_budget import fits
from hwd.fabric.path import Path
from hwd.fabric.reach import carries, reached
from hwd.fabric.state import State
from hwd.model.circuit import Circuit, RoutedLink
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import NicPort, PortNote, PortState, Testbed
from hwd_drivers.core.values import Crossconnect, FibreEnd, PortSide, Side


class Fabric:
    """The optics of one testbed. What it says of a state does not depend on what it was asked before; see `for_thread`.

    It is quick where the state differs at few switches from the one that it was asked about last.
    """

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed
        self._graph = Graph(testbed)
        hops = Hops(self._graph)
        self.composites: Mapping[str, CompositeSwitch] = hops.composites
        self._light = LightMap(testbed, self._graph)
        self._ports = {port.id: port for port in testbed.ports()}
        self._owners = {
            end: port.id for port in self._ports.values() for side in (Side.TX, Side.RX) for end in port.ends(side)
        }
        self.set_aside: Mapping[FibreEnd, PortNote] = _set_aside(testbed)
        """Ends of switches that are spare, reserved, in maintenance or failed."""
        self.router = LinkRouter(testbed, hops, {end: str(note) for end, note in self.set_aside.items()})
        self._input_powers = InputPowers(testbed)
        loss_db = {name: one.capabilities.loss_db_typical for name, one in testbed.switches.items()}
        self._new_light = partial(
            FollowedLight, self._light, loss_db=loss_db, owners=self._owners, is_whole=self._is_whole
        )
        self._followed: FollowedLight | None = None
        """The light of the state that was asked about last; None before the first question."""

    def for_thread(self) -> "Fabric":
        """Copy the fabric for another thread, with a light of its own."""
        other = copy.copy(self)
        other._followed = None
        return other

    @cached_property
    def switch_ends(self) -> Mapping[NicPortId, tuple[FibreEnd, ...]]:
        """The ends of switches that the fibres of each NIC port lead to."""
        found: dict[NicPortId, tuple[FibreEnd, ...]] = {}
        for strand in self.testbed.strands:
            for near, far in (strand.ends, strand.ends[::-1]):
                if near.owner in self.testbed.hosts and far.owner in self.testbed.switches:
                    port = NicPortId(host=near.owner, port=near.port)
                    found[port] = (*found.get(port, ()), far)
        return found

    def optical_ports(self) -> tuple[NicPort, ...]:
        """NIC ports whose fibres all lead to optical switches, in the order of the file; those on packet switches are
        not among them.
        """
        return tuple(port for port in self._ports.values() if self._is_optical(port))

    def routes(self, links: Iterable[Link]) -> tuple[RoutedLink, ...]:
        """Paths of links that exist at once, in their order; no fibre end is used twice, each element is in one state.
        Raises as `LinkRouter.ways` does.
        """
        ways = self.router.ways(links)
        demands = self.router.demands(ways)
        compiled = {name: self.composites[name].compile(wanted, {}) for name, wanted in demands.items()}
        return self.routed(ways, compiled)

    def routed(self, ways: Iterable[LinkWays], compiled: Mapping[str, CompiledDemands]) -> tuple[RoutedLink, ...]:
        """Route the same links with the elements that composites use for them, whatever they lose."""
        return tuple(
            RoutedLink(
                link=one.link,
                circuits=tuple(
                    self._circuit(whole.legs, whole.crossconnects)
                    for whole in (self._whole(path, compiled) for path in one.paths)
                ),
            )
            for one in ways
        )

    def links_of(self, state: State) -> tuple[Link, ...]:
        """The links that these crossconnects make, both ways and on every lane."""
        return self._about(state).in_order

    def lost(self, now: State, changed: State) -> frozenset[Link]:
        """The links that are made now, and no more once these switches carry something else."""
        return self._about(now).change(changed).went

    def routed_of(self, state: State) -> tuple[RoutedLink, ...]:
        """The links that these crossconnects make, with their circuits."""
        light = self._about(state)
        return tuple(self._routed_by(link, light) for link in light.in_order)

    def follow(self, state: State, *, switches_at_once: int) -> Iterator[None]:
        """Go over to this state a part at a time, so that `routed_of` it is quick."""
        light = self._followed = self._followed or self._new_light()
        parts = light.follow_in_parts(state, switches_at_once)
        while True:
            try:
                next(parts)
            except StopIteration:
                break
            except BaseException:
                self._followed = None
                raise
            yield
        for number, link in enumerate(light.in_order, 1):
            if link in light.links:  # else somebody asked of another state
                self._routed_by(link, light)
            if number % switches_at_once == 0:
                yield

    def routed_through(self, crossconnects: Iterable[SwitchCrossconnect], state: State) -> tuple[RoutedLink, ...]:
        """The links of `routed_of` whose light passes one of these crossconnects."""
        light = self._about(state)
        return tuple(self._routed_by(link, light) for link in in_order(light.links_through(frozenset(crossconnects))))

    def circuits(self, state: State) -> Mapping[tuple[NicPortId, NicPortId], frozenset[SwitchCrossconnect]]:
        """Light from NIC port to NIC port, one way, with the crossconnects that it passes on all lanes."""
        return {
            pair: frozenset(one for trace in lanes.values() for one in trace.crossconnects)
            for pair, lanes in self._about(state).ways.items()
        }

    def ports_reached(self, crossconnects: Iterable[SwitchCrossconnect], state: State) -> frozenset[NicPortId]:
        """NIC ports whose light these crossconnects may carry while all else is as in `state`; a switch that is not in
        it may pass light anywhere.
        """
        ends = reached(self._graph, crossconnects, state)
        return frozenset(self._owners[end] for end in ends if end in self._owners)

    def input_powers(
        self, crossconnects: Mapping[str, Iterable[Crossconnect]], state: State
    ) -> Mapping[str, Mapping[PortSide, InputPower]]:
        """The strongest light that can enter each switch at the ends of these crossconnects, where some can; `state` as
        for `lit`.
        """
        light = self._about(state)
        return {
            switch: {
                end: self._input_powers.of(traces)
                for one in found
                for end in one.ends
                if (traces := light.entering(at_switch(switch, end)))
            }
            for switch, found in crossconnects.items()
        }

    def of_elements(self, crossconnects: Iterable[SwitchCrossconnect]) -> frozenset[SwitchCrossconnect]:
        """Replace crossconnects of composites by elements that could make them, whatever they make now. Raises
        RefusedError where they cannot.
        """
        found = set[SwitchCrossconnect]()
        demands: dict[str, list[Crossconnect]] = {}
        for one in crossconnects:
            if one.switch in self.composites:
                demands.setdefault(one.switch, []).append(one.crossconnect)
            else:
                found.add(one)
        for name, wanted in demands.items():
            found |= self.composites[name].compile(wanted, {}).crossconnects
        return frozenset(found)

    def carries(self, one: SwitchCrossconnect, state: State) -> bool:
        """Whether light of some transmitter may reach some receiver by this crossconnect, while all else is
        as in `state`.
        """
        return carries(self._graph, one, state)

    def _whole(self, path: Path, compiled: Mapping[str, CompiledDemands]) -> Path:
        """Put the elements of composites into a path."""
        legs, crossconnects = [path.legs[0]], list[SwitchCrossconnect]()
        for one, after in zip(path.crossconnects, path.legs[1:], strict=True):
            if one.switch not in self.composites:
                crossconnects.append(one)
                legs.append(after)
                continue
            passage = compiled[one.switch].passages[one.crossconnect].from_end(legs[-1].end)
            crossconnects += passage.crossconnects
            legs += [self._graph.legs[out][0] for _, out in passage.hops[:-1]]
            legs.append(after)
        return Path(legs=tuple(legs), crossconnects=tuple(crossconnects))

    def _circuit(self, legs: tuple[Leg, ...], crossconnects: tuple[SwitchCrossconnect, ...]) -> Circuit:
        """Makers do not state the least loss: overload is computed at typical loss."""
        source, target = legs[0].start, legs[-1].end
        sender, receiver = (self._ports[self._owners[end]].module for end in (source, target))
        fixed = sum(leg.loss_db for leg in legs)
        switches = [self.testbed.switches[crossconnect.switch].capabilities for crossconnect in crossconnects]
        typical = fixed + sum(switch.loss_db_typical for switch in switches)
        largest = fixed + sum(switch.loss_db_max for switch in switches)
        return Circuit(
            source=source,
            target=target,
            strands=tuple(strand for leg in legs for strand in leg.strands),
            crossconnects=crossconnects,
            loss_db_typical=typical,
            loss_db_max=largest,
            margin_db=sender.tx_min_dbm - largest - receiver.rx_min_dbm,
            overload_db=sender.tx_max_dbm - typical - receiver.rx_max_dbm,
        )

    def _about(self, state: State) -> FollowedLight:
        light = self._followed = self._followed or self._new_light()
        try:
            light.follow(state)
        except BaseException:
            self._followed = None  # what was followed so far is of no state
            raise
        return light

    def _routed_by(self, link: Link, light: FollowedLight) -> RoutedLink:
        if (routed := light.routed.get(link)) is None:
            ways = light.ways
            circuits = [
                self._circuit(trace.legs, trace.crossconnects)
                for source in link.ends
                for trace in sorted(ways[source, link.other(source)].values(), key=lambda trace: trace.source.lane)
            ]
            routed = light.routed[link] = RoutedLink(link=link, circuits=tuple(circuits))
        return routed

    def _is_whole(self, link: Link, ways: Ways) -> bool:
        a, b = (self._ports[end] for end in link.ends)
        return fits(a.module, b.module) and all(
            len(ways.get((source, link.other(source)), {})) == len(a.module.fibre_lanes) for source in link.ends
        )

    def _is_optical(self, port: NicPort) -> bool:
        switches = self.testbed.switches
        sends = all(
            any(leg.end.owner in switches for leg in self._graph.legs.get(end, ())) for end in port.ends(Side.TX)
        )
        gets = all(
            any(leg.start.owner in switches for leg in self._graph.into.get(end, ())) for end in port.ends(Side.RX)
        )
        return sends and gets


def _set_aside(testbed: Testbed) -> dict[FibreEnd, PortNote]:
    found = {}
    for note in testbed.port_notes:
        if note.state is PortState.NORMAL:
            continue
        composite = testbed.composites.get(note.switch)
        for end in testbed.ends_of(note.switch):
            if end.port == note.port:
                found[composite.ports[end] if composite else at_switch(note.switch, end)] = note
    return found
