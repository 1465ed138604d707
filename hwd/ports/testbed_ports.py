"""The ports of a testbed by their names, and those that links need."""

from collections.abc import Iterable, Mapping

from hwd.fabric.state import crossconnect_ports
from hwd.model.circuit import RoutedLink
from hwd.model.testbed import Testbed


def all_ports(testbed: Testbed) -> frozenset[str]:
    """Every port that can be leased: `ocs1.3`, `h0.eth0`; without those of switches that belong to hosts."""
    ours = [switch for switch in testbed.switches.values() if switch.owner is None]
    switches = {f"{switch.name}.{end.port}" for switch in ours for end in switch.capabilities.ends}
    return frozenset(switches) | {port.id for port in testbed.ports()}


def leasable(testbed: Testbed) -> Mapping[str, frozenset[str]]:
    """Names that a lease may have, each with the ports that it covers: a port covers itself; `sel.3` of a composite
    covers the element ports of its ends 3A and 3B.
    """
    everything = all_ports(testbed)
    meant = {port: frozenset([port]) for port in everything}
    for composite in testbed.composites.values():
        for end in composite.ports:
            at = testbed.port_of(composite.name, end)
            if at in everything:
                name = f"{composite.name}.{end.port}"
                meant[name] = meant.get(name, frozenset()) | {at}
    return meant


def ports_of(links: Iterable[RoutedLink]) -> frozenset[str]:
    """Ports that making these links changes."""
    routed = tuple(links)
    ends = {end for link in routed for end in link.link.ends}
    return crossconnect_ports(one for link in routed for one in link.crossconnects) | ends
