"""The devices whose light may reach a crossconnect, and those that its light may reach."""

from collections.abc import Iterable

from hwd.fabric.graph import Graph, at_switch, gives, joinable, takes
from hwd.fabric.state import State, bare
from hwd.model.link import SwitchCrossconnect
from hwd.model.testbed import Switch
from hwd_drivers.core.values import FibreEnd, PortSide


def reached(graph: Graph, crossconnects: Iterable[SwitchCrossconnect], state: State) -> frozenset[FibreEnd]:
    """Transmitters whose light may reach these crossconnects, and receivers that it may reach behind them.

    Every crossconnect of `state` counts as passing light, whatever its mirrors do. The crossconnects of a switch that
    is not in `state` are unknown: it may pass light from any end to any other.
    """
    ends = [at_switch(one.switch, end) for one in crossconnects for end in one.crossconnect.ends]
    out = [end for end in ends if end in graph.legs]
    into = [end for end in ends if end in graph.into]
    if not (out or into):
        return frozenset()
    passage = _Passage(graph, state)
    return passage.follow(out, onward=True) | passage.follow(into, onward=False)


def carries(graph: Graph, one: SwitchCrossconnect, state: State) -> bool:
    """Whether light of a transmitter may reach this crossconnect and go on to a receiver; `state` as for `reached`."""
    passage = _Passage(graph, state)
    switch, ends = graph.testbed.switches[one.switch], one.crossconnect.ends
    return any(
        takes(switch, into)
        and gives(switch, out)
        and passage.follow([at_switch(switch.name, into)], onward=False)
        and passage.follow([at_switch(switch.name, out)], onward=True)
        for into, out in (ends, ends[::-1])
    )


class _Passage:
    def __init__(self, graph: Graph, state: State) -> None:
        self._graph = graph
        self._switches = graph.testbed.switches
        self._state = state
        self._joined: dict[str, dict[PortSide, PortSide]] = {}

    def follow(self, ends: Iterable[FibreEnd], *, onward: bool) -> frozenset[FibreEnd]:
        """The devices behind these ends of switches: with the light, where it may leave (`onward`); or against it,
        where it may enter.
        """
        pending = [*ends]
        seen = set(pending)
        found: set[FibreEnd] = set()
        while pending:
            end = pending.pop()
            legs = self._graph.legs.get(end, ()) if onward else self._graph.into.get(end, ())
            for leg in legs:
                far = leg.end if onward else leg.start
                switch = self._switches.get(far.owner)
                if switch is None:
                    found.add(far)
                    continue
                new = [end for end in self._through(switch, far.port_side, onward=onward) if end not in seen]
                seen.update(new)
                pending += new
        return frozenset(found)

    def _through(self, switch: Switch, at: PortSide, *, onward: bool) -> list[FibreEnd]:
        """Ends by which light may leave, or may have entered."""
        others: Iterable[PortSide] = (
            self._graph.partners(switch.name, at) if switch.name in self._graph.elements else switch.capabilities.ends
        )
        if switch.name in self._state:
            joined = self._joined_in(switch.name)
            others = (joined[at],) if at in joined else ()
        return [
            at_switch(switch.name, other)
            for other in others
            if (joinable(switch, at, other) if onward else joinable(switch, other, at))
        ]

    def _joined_in(self, switch: str) -> dict[PortSide, PortSide]:
        if (joined := self._joined.get(switch)) is None:
            joined = self._joined[switch] = {}
            for each in self._state[switch]:
                a, b = bare(each).ends
                joined[a], joined[b] = b, a
        return joined
