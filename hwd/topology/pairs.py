"""Pairs: neighbours joined two by two.

The first host is joined with the second, the third with the fourth, and so on. On each rail the n-th NIC port of the
one is joined with the n-th of the other, as many as both have.
"""

from collections.abc import Iterator

from hwd.model.link import Link
from hwd.topology.choice import Party, need_ports
from hwd.topology.kind import Given, TopologyKind
from hwd_drivers.core.errors import ConfigError


def pairs(party: Party, given: Given) -> Iterator[Link]:
    if len(party.hosts) % 2:
        raise ConfigError(
            f"pairs: needs an even number of hosts; "
            f"there are {len(party.hosts)} ({', '.join(party.hosts)}) {party.place}. "
            "Name an even number with hosts=..."
        )
    need_ports(given.name, party, least=1)
    for one, other in zip(party.hosts[::2], party.hosts[1::2], strict=True):
        for mine, theirs in zip(party.ports[one], party.ports[other], strict=False):
            yield Link.of(mine.id, theirs.id)


PAIRS = TopologyKind(links=pairs)
