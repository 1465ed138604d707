"""Which ports of a host are behind its own switches: those whose light such a switch leads, and that a job waits for once it is set."""

from collections.abc import Iterator

from hwd.fabric.graph import Graph
from hwd.model.testbed import Testbed
from hwd_drivers.kit.values import FibreEnd


def ports_behind(testbed: Testbed, host: str) -> dict[str, tuple[str, ...]]:
    """{switch that the host owns: its ports, in the order of the testbed file}.

    Behind a switch are the ports that a fibre joins to it, with passives on the way; where it has none, those behind the other switches of the host that
    it is joined to: of two in a row the second one leads the same light.
    """
    graph = Graph(testbed)
    own = [name for name, switch in testbed.switches.items() if switch.owner == host]
    ports = {end: port.id.port for port in testbed.hosts[host].ports for end in _ends_of(port.id.port, host, graph)}
    near = {name: {ports[end] for end in _neighbours(name, graph) if end in ports} for name in own}
    found = {name: _behind(name, near, graph) for name in own}
    order = [port.id.port for port in testbed.hosts[host].ports]
    return {name: tuple(port for port in order if port in found[name]) for name in own}


def _behind(name: str, near: dict[str, set[str]], graph: Graph) -> set[str]:
    seen, pending, found = {name}, [name], set[str]()
    while pending:
        at = pending.pop()
        found |= near[at]
        if near[at]:
            continue
        others = dict.fromkeys(end.owner for end in _neighbours(at, graph) if end.owner in near)
        pending += [other for other in others if other not in seen]
        seen.update(others)
    return found


def _ends_of(port: str, host: str, graph: Graph) -> Iterator[FibreEnd]:
    for end in (*graph.legs, *graph.into):
        if end.owner == host and end.port == port:
            yield end


def _neighbours(switch: str, graph: Graph) -> Iterator[FibreEnd]:
    """Ends of devices that a fibre joins to this switch."""
    for start, legs in graph.legs.items():
        for leg in legs:
            if start.owner == switch:
                yield leg.end
            elif leg.end.owner == switch:
                yield start
