"""Matching: hosts joined two by two, so that those that send each other most are joined.

It is the matching of least weight among those that join most hosts, where the weight of two hosts is their demand,
negated.
"""

import itertools
from collections.abc import Iterator

from hwd.model.link import Link
from hwd.topology.choice import Party, need_hosts, need_ports
from hwd.topology.kind import Given, TopologyKind


def matching(party: Party, given: Given) -> Iterator[Link]:
    """Join each host with at most one other: on each rail the n-th NIC port of the one with the n-th of the other, as
    many as both have.
    """
    import networkx

    need_hosts(given.name, party, least=2)
    need_ports(given.name, party, least=1)
    hosts = party.hosts
    graph: networkx.Graph[int] = networkx.Graph()
    for one, other in itertools.combinations(range(len(hosts)), 2):
        graph.add_edge(one, other, weight=-given.between(hosts[one], hosts[other]))
    for one, other in sorted(map(sorted, networkx.min_weight_matching(graph))):
        ports = zip(party.ports[hosts[one]], party.ports[hosts[other]], strict=False)
        yield from (Link.of(mine.id, theirs.id) for mine, theirs in ports)


MATCHING = TopologyKind(links=matching, arguments=("demand",))
