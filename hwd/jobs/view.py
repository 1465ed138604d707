"""The view that a plane gets of the rack: the ports of its job's hosts, and the topologies that these can have."""

from types import MappingProxyType

from hwd.config.testbed.wanted_state import parse_what
from hwd.fabric.fabric import Fabric
from hwd.model.link import Link
from hwd.model.plane import Job, PortView, View
from hwd.model.testbed import NicPort, Testbed


def view_of(testbed: Testbed, job: Job) -> View:
    """All NIC ports of the hosts of a job, and the ports of switches that their fibres lead to; nobody changes it."""
    hosts, fabric = job.hosts, Fabric(testbed)
    optical = [port for port in fabric.optical_ports() if port.id.host in hosts]
    names = {port.id for port in optical}
    electrical = [port for host in hosts for port in testbed.hosts[host].ports if port.id not in names]
    ends = {f"{far.owner}.{far.port}" for id in names for far in fabric.switch_ends.get(id, ())}

    def topology(text: str) -> tuple[Link, ...]:
        words = text if " hosts=" in text else f"{text} hosts={','.join(hosts)}"
        return parse_what(words, testbed).links

    return View(
        ports=MappingProxyType({port.id: _seen(port) for port in optical}),
        electrical=MappingProxyType({port.id: _seen(port) for port in electrical}),
        ends=frozenset(ends),
        topology=topology,
    )


def _seen(port: NicPort) -> PortView:
    return PortView(rail=port.rail, numa=port.numa, gpus=port.gpus)
