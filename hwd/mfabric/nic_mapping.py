"""NIC mapping: which NIC ports the links between servers join (mFabric, section 5.2, step 4).

Several links between one pair of servers go to different NUMA nodes on both ends, so that what is forwarded inside a
server does not meet at one of them. Any port of a region reaches any other one over its switch, so each server deals
its own ports to its links, whatever the others do.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from hwd.mfabric.reconfigure_ocs import Links
from hwd_drivers.core.errors import ConfigError

P = TypeVar("P", bound=Hashable)


class OpticalPort(msgspec.Struct, Generic[P], frozen=True):
    """An optical NIC port of a server. `numa`: its node; None where that is not known."""

    id: P
    numa: int | None = None


def nic_links(links: Links, ports: Sequence[Sequence[OpticalPort[P]]]) -> list[tuple[P, P]]:
    """The two ports of each link, of the server with the smaller number first.

    `ports`: by server. Each port has one link at most. Raises ConfigError where a server has more links than ports.
    """
    peers: list[dict[int, int]] = [{} for _ in ports]
    for (one, other), count in links.items():
        if not 0 <= one < other < len(ports):
            raise ConfigError(f"links between servers {one} and {other}: there are ports of {len(ports)}, from 0 on")
        if count:
            peers[one][other] = peers[other][one] = count
    dealt = [_dealt(server, counts, ports[server]) for server, counts in enumerate(peers)]
    found: list[tuple[P, P]] = []
    for one, other in sorted(pair for pair, count in links.items() if count):
        found += zip(dealt[one][other], dealt[other][one], strict=True)
    return found


def _dealt(server: int, counts: Mapping[int, int], ports: Sequence[OpticalPort[P]]) -> dict[int, list[P]]:
    """The ports of one server by peer.

    First each peer with several links, the one with the most first, gets a port of as many nodes as it can, those that
    have most left; then what is left is dealt in the same way, and a peer with one link gets any. That is the greedy
    way to a matrix of zeros and ones with given sums (Ryser 1957): in no other way have fewer links, of all peers
    together, a node that an earlier link of the same peer has.
    """
    if (wanted := sum(counts.values())) > len(ports):
        raise ConfigError(f"server {server}: {wanted} links, and it has {len(ports)} optical NIC ports")
    several = sorted((peer for peer in counts if counts[peer] > 1), key=lambda peer: (-counts[peer], peer))
    found: dict[int, list[P]] = {peer: [] for peer in several}
    left: dict[int | None, list[P]] = {}
    for port in reversed(ports):
        left.setdefault(port.numa, []).append(port.id)
    taken = {peer: dict.fromkeys(left, 0) for peer in several}
    for once in (True, False):
        for peer in several:
            used, some = taken[peer], found[peer]
            while len(some) < counts[peer]:
                open_ = [node for node, ids in left.items() if ids and not (once and used[node])]
                if not open_:
                    break
                node = min(open_, key=lambda node: (used[node], -len(left[node])))
                used[node] += 1
                some.append(left[node].pop())
    rest = [port for ids in left.values() for port in reversed(ids)]
    found |= {peer: [port] for peer, port in zip((peer for peer in counts if counts[peer] == 1), rest, strict=False)}
    return found
