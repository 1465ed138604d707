"""Rings: every host joined to the next one, the last to the first.

A host uses two NIC ports on a rail, the first two by name. The second one is joined to the first one of the next host:
`h0.eth1<->h1.eth0`, `h1.eth1<->h2.eth0`, ..., `h3.eth1<->h0.eth0`. Two hosts make a ring of two parallel links. Each
rail, and each group on it, has a ring of its own.
"""

from collections.abc import Iterator, Mapping

from hwd.model.link import Link, Topology
from hwd.model.testbed import Testbed
from hwd.topology.choice import Party, need_ports, parties, topology_of
from hwd_drivers.core.errors import ConfigError


def ring(testbed: Testbed, arguments: Mapping[str, str]) -> Topology:
    """A ring on each rail over the hosts of each group."""
    chosen = parties(testbed, arguments)
    return topology_of("ring", arguments, (link for party in chosen for link in _links("ring", party)))


def giant_ring(testbed: Testbed, arguments: Mapping[str, str]) -> Topology:
    """The static ring over all ranks that Opus falls back to (section 4, faults), whatever groups they are in.

    A rank sends on the rail of its GPU, and no light crosses from rail to rail: so it is one ring over all hosts on
    every rail, joined inside the servers.
    """
    chosen = parties(testbed, arguments)
    return topology_of("giant-ring", arguments, (link for party in chosen for link in _links("giant-ring", party)))


def _links(what: str, party: Party) -> Iterator[Link]:
    if len(party.hosts) < 2:
        raise ConfigError(f"{what}: needs two hosts at least; {', '.join(party.hosts)} is alone {party.place}")
    need_ports(what, party, least=2)
    for host, following in zip(party.hosts, (*party.hosts[1:], party.hosts[0]), strict=True):
        yield Link.of(party.ports[host][1].id, party.ports[following][0].id)
