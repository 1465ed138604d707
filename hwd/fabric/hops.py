"""The next steps of light that enters a switch or a composite; the inside of a composite is not looked at."""

from collections.abc import Iterable, Iterator, Mapping

from hwd.fabric.composite import CompositeSwitch
from hwd.fabric.graph import Graph, at_switch
from hwd.model.link import SwitchCrossconnect
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.values import Crossconnect, FibreEnd, PortSide

Hop = tuple[FibreEnd, SwitchCrossconnect, float]
"""The end where light leaves, the crossconnect, and the greatest loss up to there, in dB."""


class Hops:
    """Made once for a testbed. A station is a switch, or a composite in place of its elements."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        testbed: Testbed = graph.testbed
        self.composites: Mapping[str, CompositeSwitch] = {
            name: CompositeSwitch(graph, composite) for name, composite in testbed.composites.items()
        }
        self._ports: Mapping[FibreEnd, tuple[str, PortSide]] = {
            end: (name, port) for name, composite in testbed.composites.items() for port, end in composite.ports.items()
        }
        self._inner = frozenset(
            end for composite in self.composites.values() for end in composite.inside.ends if end not in self._ports
        )
        self._trunks = {
            name: tuple(
                end
                for end in composite.ports.values()
                if any(leg.end.owner in testbed.switches for leg in graph.legs.get(end, ()))
            )
            for name, composite in testbed.composites.items()
        }
        self._fits: dict[tuple[str, frozenset[Crossconnect]], bool] = {}

    def station(self, end: FibreEnd) -> str:
        """The station of this end."""
        return self._ports[end][0] if end in self._ports else end.owner

    def port(self, end: FibreEnd) -> PortSide:
        """The end under the name that its station uses."""
        return self._ports[end][1] if end in self._ports else end.port_side

    def joinable(self, entry: FibreEnd, out: FibreEnd) -> bool:
        """Whether their station can bring light from one to the other, if all else were free."""
        station = self.station(entry)
        if station != self.station(out):
            return False
        if (composite := self.composites.get(station)) is not None:
            return composite.joinable(self.port(entry), self.port(out))
        return self.graph.joinable(station, entry.port_side, out.port_side)

    def onward(self, entry: FibreEnd, lasts: Iterable[FibreEnd]) -> Iterator[Hop]:
        """Steps to `lasts`, ends of the same station that lead to the receiver, and to other switches."""
        station = self.station(entry)
        if (composite := self.composites.get(station)) is not None:
            losses = composite.least_losses(self.port(entry))
            for out in dict.fromkeys((*lasts, *self._trunks[station])):
                if composite.joinable(self.port(entry), port := self.port(out)) and port in losses:
                    yield out, self._crossconnect(station, entry, out), losses[port]
            return
        loss_db_max = self.graph.testbed.switches[station].capabilities.loss_db_max
        outs: Iterable[FibreEnd] = (*lasts, *self.graph.trunks[station])
        if station in self.graph.elements:
            outs = (at_switch(station, one) for one in self.graph.partners(station, entry.port_side))
        for out in dict.fromkeys(outs):
            if out not in self._inner and self.graph.joinable(station, entry.port_side, out.port_side):
                yield out, self._crossconnect(station, entry, out), loss_db_max

    def together(self, one: SwitchCrossconnect, others: Iterable[SwitchCrossconnect], *, careful: bool) -> bool:
        """Whether a station can have `one` together with its `others`, which share no end with it; composites are only
        asked where `careful`.
        """
        if one.switch in self.composites:
            return not careful or self._fit(one.switch, frozenset(other.crossconnect for other in (one, *others)))
        elements = self.graph.elements.get(one.switch)
        if elements is None:
            return True
        element = elements[one.crossconnect.a]
        wanted = {one.crossconnect, *(other.crossconnect for other in others)} & element.crossconnects
        return any(wanted <= set(state) for state in element.states)

    def _fit(self, composite: str, demands: frozenset[Crossconnect]) -> bool:
        known = self._fits.get((composite, demands))
        if known is None:
            try:
                self.composites[composite].check(demands)
                known = True
            except RefusedError:
                known = False
            if len(self._fits) >= FITS_KEPT:
                self._fits.clear()
            self._fits[composite, demands] = known
        return known

    def _crossconnect(self, station: str, entry: FibreEnd, out: FibreEnd) -> SwitchCrossconnect:
        return SwitchCrossconnect(switch=station, crossconnect=Crossconnect.of(self.port(entry), self.port(out)))


FITS_KEPT = 10_000
"""Cached answers of composites; routing asks the same again and again."""
