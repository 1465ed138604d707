"""The NIC ports of a host whose light passes the host's own switches: a job waits for them once such a
switch is set.
"""

from collections.abc import Iterator

from hwd.fabric.graph import Graph, at_switch
from hwd.model.testbed import Testbed
from hwd_drivers.core.values import FibreEnd, Side


def ports_behind(testbed: Testbed, host: str, graph: Graph | None = None) -> dict[str, tuple[str, ...]]:
    """{switch that the host owns: its ports, in the order of the testbed file}. For many hosts, pass the `graph` of the
    testbed.

    These are the ports that a fibre joins to the switch, with passives on the way. Where it has none, they are those of
    the host's other switches that it is joined to: two switches in a row carry the same light.
    """
    own = [name for name, switch in testbed.switches.items() if switch.owner == host]
    if not own:
        return {}
    graph = graph or Graph(testbed)
    ports = {
        end: port.id.port
        for port in testbed.hosts[host].ports
        for side in (Side.TX, Side.RX)
        for end in port.ends(side)
    }
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


def _neighbours(switch: str, graph: Graph) -> Iterator[FibreEnd]:
    return (near for side in graph.fibred[switch] for near in graph.neighbours(at_switch(switch, side)))
