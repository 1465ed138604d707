"""Rings: every host joined to the next one, the last to the first.

A host uses two NIC ports on a rail, the first two by name. The second one is joined to the first one of the next host:
`h0.eth1<->h1.eth0`, `h1.eth1<->h2.eth0`, ..., `h3.eth1<->h0.eth0`. Two hosts make a ring of two parallel links. Each
rail, and each group on it, has a ring of its own.

The giant ring is the static ring over all ranks that Opus falls back to (section 4, faults), whatever groups they are
in. A rank sends on the rail of its GPU, and no light crosses from rail to rail: so it is one ring over all hosts on
every rail, joined inside the servers.
"""

from collections.abc import Iterator

from hwd.model.link import Link
from hwd.topology.choice import Party, need_hosts, need_ports
from hwd.topology.kind import Given, TopologyKind


def ring(party: Party, given: Given) -> Iterator[Link]:
    need_hosts(given.name, party, least=2)
    need_ports(given.name, party, least=2)
    for host, following in zip(party.hosts, (*party.hosts[1:], party.hosts[0]), strict=True):
        yield party.link(host, 1, following, 0)


RING = TopologyKind(links=ring)
GIANT_RING = TopologyKind(links=ring, by_group=False)
