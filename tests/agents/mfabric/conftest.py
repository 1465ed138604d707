"""Drawn regions: servers with their GPUs and EPS GPUs, optical links between them, and what ranks send each other."""

import itertools
from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

from hwd_agents.mfabric import NicPort, RoutingTable, Servers, routing_table

Link = tuple[NicPort, NicPort]
FOUR = Servers(ranks=((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11), (12, 13, 14, 15)), eps=((3,), (7,), (11,), (15,)))


def link(one: int, other: int) -> Link:
    """Between two GPUs of four servers of four GPUs, each with a NIC port."""
    first, second = (NicPort(rank // 4, rank, f"eth{rank % 4}") for rank in (one, other))
    return first, second


FIGURE_8 = [link(0, 8), link(2, 9), link(1, 12), link(4, 10), link(5, 13), link(6, 14)]
"""The paper names the ends at server 0, and that 0 and 1 have no circuit; the other ends are ours."""


@dataclass(frozen=True)
class Region:
    servers: Servers
    links: list[Link]
    elements: dict[tuple[int, int], int]

    @property
    def table(self) -> RoutingTable:
        return routing_table(self.servers, self.links)


@st.composite
def drawn_servers(draw: st.DrawFn, *, most: int = 4, least_eps: int = 0) -> Servers:
    """Of different sizes; their ranks are not in order and have gaps."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=most))
    numbers = iter(draw(st.permutations(range(sum(sizes) + 2))))
    ranks = tuple(tuple(itertools.islice(numbers, size)) for size in sizes)
    eps = tuple(tuple(draw(st.lists(st.sampled_from(some), unique=True, min_size=least_eps))) for some in ranks)
    return Servers(ranks=ranks, eps=eps)


@st.composite
def drawn_regions(draw: st.DrawFn) -> Region:
    """Each pair has a way. Ends of a link are in either order; a GPU may own the ports of several."""
    servers = draw(drawn_servers())
    links: list[Link] = []
    for one, other in itertools.combinations(range(len(servers.ranks)), 2):
        needs = not (servers.eps[one] and servers.eps[other])
        for _ in range(draw(st.integers(int(needs), 3))):
            ends = [
                NicPort(server, draw(st.sampled_from(servers.ranks[server])), f"eth{len(links)}")
                for server in draw(st.permutations([one, other]))
            ]
            links.append((ends[0], ends[1]))
    random, most = Random(draw(st.integers(0, 99_999))), draw(st.sampled_from([1, 3, 20]))
    pairs = [(one, other) for one in servers.server_of for other in servers.server_of]
    elements = {pair: random.randint(0, most) for pair in pairs if random.random() < 0.7}
    return Region(servers, draw(st.permutations(links)), elements)
