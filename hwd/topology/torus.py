"""Static meshes: a torus of any number of dimensions, and the full mesh."""

import math
import re
from collections.abc import Iterator

from hwd.model.link import Link
from hwd.model.plural import plural
from hwd.topology.choice import Party, need_hosts, need_ports
from hwd.topology.kind import Given, TopologyKind
from hwd_drivers.core.errors import ConfigError


def torus(party: Party, given: Given) -> Iterator[Link]:
    """`dims=4x2`: the hosts in row-major order; dimension d is rings over NIC ports 2 d (back) and 2 d + 1 (on)."""
    sizes, hosts = _sizes(party, given), party.hosts
    need_ports(given.name, party, least=2 * len(sizes))
    for dimension, size in enumerate(sizes):
        stride = math.prod(sizes[dimension + 1 :])
        for number, host in enumerate(hosts):
            at = number // stride % size
            following = hosts[number + ((at + 1) % size - at) * stride]
            yield party.link(host, 2 * dimension + 1, following, 2 * dimension)


def full_mesh(party: Party, given: Given) -> Iterator[Link]:
    """Every two hosts joined once: the NIC ports of a host lead to the others in their order."""
    need_hosts(given.name, party, least=2)
    need_ports(given.name, party, least=len(party.hosts) - 1)
    for number, host in enumerate(party.hosts):
        for other in range(number + 1, len(party.hosts)):
            yield party.link(host, other - 1, party.hosts[other], number)


def _sizes(party: Party, given: Given) -> list[int]:
    text = given.arguments.get("dims")
    if text is None or not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", text):
        raise ConfigError(f"{given.name}: needs dims=4x2, the hosts of each dimension; {text or 'nothing'} is none")
    sizes = [int(size) for size in text.split("x")]
    if min(sizes) < 2:
        raise ConfigError(f"{given.name}: dims={text}: a dimension of one host is no ring; leave it out")
    if math.prod(sizes) != len(party.hosts):
        raise ConfigError(
            f"{given.name}: dims={text} is {plural(math.prod(sizes), 'host')}; "
            f"there are {len(party.hosts)} {party.place}"
        )
    return sizes


TORUS = TopologyKind(links=torus, arguments=("dims",))
FULL_MESH = TopologyKind(links=full_mesh)
