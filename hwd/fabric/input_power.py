"""The strongest light that can enter a switch at each of its ends: of the whole fibre, all its lanes together."""

from collections.abc import Mapping
from dataclasses import dataclass

from hwd.fabric.graph import Graph
from hwd.fabric.light import LightMap
from hwd.fabric.state import State, lighting
from hwd.model.testbed import Module
from hwd_drivers.core.values import FibreEnd, PortSide, Side, sum_dbm


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPower:
    """`power_dbm`: at the greatest stated transmit power and typical losses; None where no module states it.

    `sources`: the transmitters whose light it is. Makers do not state the least loss, so the typical one counts.
    """

    power_dbm: float | None
    sources: tuple[FibreEnd, ...]


class InputPowers:
    """Traces light through one testbed. Where no fibre joins two switches, it is the same in every state."""

    def __init__(self, graph: Graph, light: LightMap) -> None:
        self._testbed = graph.testbed
        self._light = light
        self._modules: Mapping[FibreEnd, Module] = {
            end: port.module for port in graph.testbed.ports() for end in port.ends(Side.TX)
        }
        self._fixed = None if any(graph.trunks.values()) else self._traced({})

    def of(self, state: State) -> Mapping[str, Mapping[PortSide, InputPower]]:
        """By switch and the end at which light enters it, while the crossconnects are as in `state`."""
        return self._traced(state) if self._fixed is None else self._fixed

    def _traced(self, state: State) -> Mapping[str, Mapping[PortSide, InputPower]]:
        switches = self._testbed.switches
        passing = {
            one: switches[one.switch].capabilities.loss_db_typical for one in lighting(state) if one.switch in switches
        }
        found: dict[FibreEnd, list[tuple[FibreEnd, float]]] = {}
        for arrival in self._light.light(passing).arrivals:
            found.setdefault(arrival.end, []).append((arrival.source, arrival.loss_db))
        powers: dict[str, dict[PortSide, InputPower]] = {}
        for end, lights in found.items():
            powers.setdefault(end.owner, {})[end.port_side] = self._sum(lights)
        return powers

    def _sum(self, lights: list[tuple[FibreEnd, float]]) -> InputPower:
        sources = tuple(dict.fromkeys(source for source, _ in lights))
        powers_dbm: list[float] = []
        for source, loss_db in lights:
            if (module := self._modules.get(source)) is None:
                return InputPower(power_dbm=None, sources=sources)
            lanes = 1 if module.parallel else module.lanes
            powers_dbm += [module.tx_max_dbm - loss_db] * lanes
        return InputPower(power_dbm=sum_dbm(*powers_dbm), sources=sources)
