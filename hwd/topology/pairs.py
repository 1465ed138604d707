"""Pairs: neighbours joined two by two.

The first host is joined with the second, the third with the fourth, and so on. On each rail the n-th NIC port of the
one is joined with the n-th of the other, as many as both have.
"""

from collections.abc import Iterator, Mapping

from hwd.model.link import Link, Topology
from hwd.model.testbed import Testbed
from hwd.topology.choice import Party, need_ports, parties, topology_of
from hwd_drivers.core.errors import ConfigError


def pairs(testbed: Testbed, arguments: Mapping[str, str]) -> Topology:
    """Pairs on each rail among the hosts of each group."""
    chosen = parties(testbed, arguments)
    return topology_of("pairs", arguments, (link for party in chosen for link in _links(party)))


def _links(party: Party) -> Iterator[Link]:
    if len(party.hosts) % 2:
        raise ConfigError(
            f"pairs: needs an even number of hosts; "
            f"there are {len(party.hosts)} ({', '.join(party.hosts)}) {party.place}. "
            "Name an even number with hosts=..."
        )
    need_ports("pairs", party, least=1)
    for one, other in zip(party.hosts[::2], party.hosts[1::2], strict=True):
        for mine, theirs in zip(party.ports[one], party.ports[other], strict=False):
            yield Link.of(mine.id, theirs.id)
