"""NIC mapping: which NIC ports the links between servers join (mFabric, section 5.2, step 4).

Several links between one pair of servers go to different NUMA nodes on both ends, so that what is forwarded inside a
server does not meet at one of them. Any port of a region reaches any other one over its switch, so each server deals
its own ports to its links, whatever the others do.
"""

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from typing import Generic, TypeVar

import msgspec

from hwd.mfabric.reconfigure_ocs import Links
from hwd.model.plural import plural
from hwd_drivers.core.errors import ConfigError

P = TypeVar("P", bound=Hashable)


class OpticalPort(msgspec.Struct, Generic[P], frozen=True):
    """An optical NIC port of a server. `numa`: its node; None where that is not known."""

    id: P
    numa: int | None = None


def nic_links(
    links: Links, ports: Sequence[Sequence[OpticalPort[P]]], *, lit: Sequence[tuple[P, P]] = ()
) -> list[tuple[P, P]]:
    """The two ports of each link, of the server with the smaller number first.

    `ports`: by server. Each port has one link at most. `lit`: the links that there are. Those of pairs that go on to
    have them stay, which then need not be activated again, where no more links share a node with another one of their
    pair for it. Raises ConfigError where a server has more links than ports.
    """
    for one, other in links:
        if not 0 <= one < other < len(ports):
            raise ConfigError(f"links between servers {one} and {other}: there are ports of {len(ports)}, from 0 on")
    found, shared = _dealt(links, ports, (), sharing=False)
    if lit:
        for sharing in (True, False):  # all of them; else those that share no node
            kept, shared_then = _dealt(links, ports, lit, sharing=sharing)
            if shared_then <= shared:
                return kept
    return found


def _dealt(
    links: Links, ports: Sequence[Sequence[OpticalPort[P]]], lit: Iterable[tuple[P, P]], *, sharing: bool
) -> tuple[list[tuple[P, P]], int]:
    """Deal the links of servers to their ports, and count how many links, at all servers together, share a node with an
    earlier one of their pair. `sharing`: those of `lit` stay that do so, too.
    """
    dealers = [_Dealer(server, some) for server, some in enumerate(ports)]
    for (one, other), count in links.items():
        if count:
            dealers[one].wanted[other] = dealers[other].wanted[one] = count
    at = {port.id: server for server, some in enumerate(ports) for port in some}
    for link in lit:
        if all(end in at for end in link):
            near, far = sorted(link, key=lambda end: at[end])
            here, there = dealers[at[near]], dealers[at[far]]
            if here.may_keep(near, there.server, sharing) and there.may_keep(far, here.server, sharing):
                here.keep(near, there.server)
                there.keep(far, here.server)
    for dealer in dealers:
        dealer.deal()
    found = [
        link
        for one, other in sorted(pair for pair, count in links.items() if count)
        for link in zip(dealers[one].dealt[other], dealers[other].dealt[one], strict=True)
    ]
    return found, sum(dealer.shared for dealer in dealers)


class _Dealer(Generic[P]):
    """The ports of one server, by node, and what its peers got of them. `wanted`: links by peer."""

    def __init__(self, server: int, ports: Sequence[OpticalPort[P]]) -> None:
        self.server = server
        self.wanted: dict[int, int] = {}
        self.dealt: dict[int, list[P]] = {}
        self._ports = ports
        self._left: dict[int | None, list[P]] = {}
        for port in reversed(ports):
            self._left.setdefault(port.numa, []).append(port.id)
        self._used: dict[int, dict[int | None, int]] = {}
        """By peer of several links: how many of them each node has."""

    @cached_property
    def _nodes(self) -> dict[P, int | None]:
        return {port.id: port.numa for port in self._ports}

    def may_keep(self, port: P, peer: int, sharing: bool) -> bool:
        """Whether a port that has a link to a peer may stay there."""
        has_room = len(self.dealt.get(peer, ())) < self.wanted.get(peer, 0)
        return has_room and (sharing or not self._used.get(peer, {}).get(self._nodes[port]))

    def keep(self, port: P, peer: int) -> None:
        self._left[self._nodes[port]].remove(port)
        self._give(port, peer, self._nodes[port])

    def deal(self) -> None:
        """First each peer with several links, the one with the most first, gets a port of as many nodes as it can,
        those that have most left; then what is left is dealt in the same way, and a peer with one link gets any. That
        is the greedy way to a matrix of zeros and ones with given sums (Ryser 1957): in no other way have fewer links,
        of all peers together, a node that an earlier link of the same peer has. What was kept comes before.
        """
        wanted = self.wanted
        if (links := sum(wanted.values())) > len(self._ports):
            raise ConfigError(
                f"server {self.server}: {plural(links, 'link')}, and it has {len(self._ports)} optical NIC ports"
            )
        several = sorted((peer for peer in wanted if wanted[peer] > 1), key=lambda peer: (-wanted[peer], peer))
        for once in (True, False):
            for peer in several:
                used = self._used.get(peer, {})
                while len(self.dealt.get(peer, ())) < wanted[peer]:
                    nodes = [node for node, ids in self._left.items() if ids and not (once and used.get(node))]
                    if not nodes:
                        break
                    node = min(nodes, key=lambda node: (used.get(node, 0), -len(self._left[node])))
                    self._give(self._left[node].pop(), peer, node)
                    used = self._used[peer]
        rest = (port for ids in self._left.values() for port in reversed(ids))
        for peer in sorted(wanted):
            if peer not in self.dealt:
                self.dealt[peer] = [next(rest)]

    @property
    def shared(self) -> int:
        """Links that share a node with an earlier one of the same peer."""
        return sum(count - 1 for used in self._used.values() for count in used.values())

    def _give(self, port: P, peer: int, node: int | None) -> None:
        used = self._used.setdefault(peer, {})
        used[node] = used.get(node, 0) + 1
        self.dealt.setdefault(peer, []).append(port)
