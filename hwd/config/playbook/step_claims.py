"""The ports that steps claim: a queue compares those of runs, and branches that run at once must have
none in common.
"""

from collections.abc import Iterable

from hwd.config.playbook.steps import ApplyStep, FaultStep, HostStep, JobStep, LeaseStep, Step, below
from hwd.fabric.fabric import Fabric
from hwd.fabric.state import crossconnect_ports
from hwd.model.circuit import RoutedLink
from hwd.model.fault import Fault
from hwd.model.request import WantedState
from hwd.ports.testbed_ports import all_ports, ports_of
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.switching.moves import ApplyMode


def claimed(steps: Iterable[Step], everything: frozenset[str]) -> frozenset[str]:
    """Ports that the steps lease, drive, set or inject faults into; `everything` are those of the testbed. Collisions
    with an apply may add more.
    """
    ports: set[str] = set()
    for step in steps:
        match step:
            case LeaseStep(ports=named):
                ports |= everything if named == "all" else frozenset(named)
            case ApplyStep(request=request) if request.body.mode is ApplyMode.OVERWRITE:
                ports |= everything
            case ApplyStep(ports=needed) | JobStep(ports=needed):
                ports |= needed
            case HostStep(actions=actions):
                ports |= {action.port for action in actions}
            case FaultStep(fault=fault):
                ports |= harmed(fault, everything)
            case _:
                for found in below(step):
                    ports |= claimed(found, everything)
    return frozenset(ports)


def harmed(fault: Fault, everything: frozenset[str]) -> frozenset[str]:
    """Ports of the subject of a fault; all ports where it names none."""
    if not fault.subject:
        return everything
    return frozenset(port for port in everything if port == fault.subject or port.startswith(f"{fault.subject}."))


def needed(wanted: WantedState, links: Iterable[RoutedLink], fabric: Fabric) -> frozenset[str]:
    """Ports that a topology or crossconnects need at least: those of the switches, and the NIC ports whose light they
    carry. `links`: the wanted ones with their paths.
    """
    if wanted.emptied:
        return all_ports(fabric.testbed)
    if wanted.links:
        return ports_of(links)
    crossconnects = fabric.of_elements(wanted.crossconnects)
    state: dict[str, set[Crossconnect]] = {name: set() for name in fabric.testbed.switches}
    for one in crossconnects:
        state[one.switch].add(one.crossconnect)
    lit = fabric.ports_reached(crossconnects, {name: frozenset(found) for name, found in state.items()})
    freed = {fabric.testbed.port_of(one.switch, one.end) for one in wanted.freed}
    return crossconnect_ports(crossconnects) | freed | set(lit)
