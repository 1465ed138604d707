"""The NIC ports of links: each once, and several links between two servers on different NUMA nodes at both ends."""

import itertools
from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from hwd.mfabric.nic_mapping import OpticalPort, nic_links
from hwd.mfabric.reconfigure_ocs import Links

Port = OpticalPort[tuple[int, int]]


def server(number: int, nodes: list[int | None]) -> list[Port]:
    return [Port((number, index), node) for index, node in enumerate(nodes)]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Links, list[list[Port]]]:
    """Links that fit the ports of some servers."""
    servers = draw(st.integers(2, 6))
    node = st.sampled_from([0, 1, 2, None])
    ports = [server(number, draw(st.lists(node, min_size=0, max_size=6))) for number in range(servers)]
    left, links = [len(one) for one in ports], {}
    for one, other in itertools.combinations(range(servers), 2):
        if (most := min(left[one], left[other])) and (count := draw(st.integers(0, most))):
            links[one, other] = count
            left[one] -= count
            left[other] -= count
    return links, ports


@given(cases())
def test_each_port_has_one_link_and_each_pair_its_number(case: tuple[Links, list[list[Port]]]) -> None:
    links, ports = case
    found = nic_links(links, ports)
    ends = [end for pair in found for end in pair]
    assert len(ends) == len({*ends})
    assert {*ends} <= {port.id for some in ports for port in some}
    assert Counter((one[0], other[0]) for one, other in found) == Counter(links)


def spread(counts: Mapping[int, int], nodes: list[int | None]) -> int:
    """By trying all: the fewest links of one peer that share a node with an earlier link of the same peer."""
    peers = [peer for peer, count in counts.items() for _ in range(count)]

    def shared(order: tuple[int | None, ...]) -> int:
        return len(peers) - len({*zip(peers, order, strict=True)})

    return min(map(shared, itertools.permutations(nodes, len(peers))), default=0)


@given(st.data())
def test_links_of_a_pair_share_a_numa_node_no_more_often_than_they_must(data: st.DataObject) -> None:
    nodes: list[int | None] = data.draw(st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=6))
    counts: Counter[int] = Counter(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=len(nodes))))
    ports = [server(0, nodes), *(server(number, [0] * 6) for number in range(1, 4))]
    links = {(0, peer): count for peer, count in counts.items()}
    found = [(other[0], nodes[one[1]]) for one, other in nic_links(links, ports)]
    assert len(found) - len({*found}) == spread(counts, nodes)


def shared_by(links: list[tuple[tuple[int, int], tuple[int, int]]], ports: list[list[Port]]) -> int:
    """How many links share a node with an earlier one of the same pair, at both ends."""
    nodes = {port.id: port.numa for some in ports for port in some}
    ends = [(one[0], other[0], end[0], nodes[end]) for one, other in links for end in (one, other)]
    return len(ends) - len({*ends})


@given(cases(), st.data())
def test_links_that_there_are_stay_where_no_node_is_shared_for_it(
    case: tuple[Links, list[list[Port]]], data: st.DataObject
) -> None:
    links, ports = case
    fresh = nic_links(links, ports)
    assert {*nic_links(links, ports, lit=fresh)} == {*fresh}, "nothing is to be moved"
    lit = [(far, near) if data.draw(st.booleans()) else (near, far) for near, far in fresh]
    left = data.draw(st.lists(st.sampled_from(lit), unique=True)) if lit else []
    others = dict(data.draw(st.lists(st.sampled_from([*links.items()]), unique=True))) if links else {}
    found = nic_links(others, ports, lit=left)
    ends = [end for pair in found for end in pair]
    assert len(ends) == len({*ends})
    assert Counter((one[0], other[0]) for one, other in found) == Counter(others)
    assert shared_by(found, ports) == shared_by(nic_links(others, ports), ports)


def test_link_of_a_pair_that_goes_on_stays_at_its_ports() -> None:
    ports = [server(number, [None] * 3) for number in range(3)]
    lit = [((0, 2), (1, 1)), ((0, 0), (2, 2))]
    assert nic_links({(0, 1): 2, (1, 2): 1}, ports, lit=lit) == [((0, 2), (1, 1)), ((0, 0), (1, 0)), ((1, 2), (2, 0))]


def test_links_that_must_share_a_node_stay_too() -> None:
    ports = [server(0, [None, None, 0, 0, 1]), server(1, [None, 0, 0, 0, 0, 1])]
    fresh = nic_links({(0, 1): 5}, ports)
    assert shared_by(fresh, ports) == 4
    moved = [(near, far) for (near, _), (_, far) in zip(fresh, [*fresh[1:], fresh[0]], strict=True)]
    assert {*nic_links({(0, 1): 5}, ports, lit=moved)} == {*moved}, "nothing is to be moved"


def test_link_that_would_make_another_pair_share_a_node_does_not_stay() -> None:
    ports = [server(0, [0, 0, 1]), server(1, [0, 1]), server(2, [0])]
    lit = [((0, 2), (2, 0))]
    found = nic_links({(0, 1): 2, (0, 2): 1}, ports, lit=lit)
    assert shared_by(found, ports) == 0
    assert {*lit}.isdisjoint(found)


def test_two_links_of_two_servers_go_to_two_nodes_on_both_ends() -> None:
    """The example of section 5.2."""
    ports = [server(0, [0, 0, 1]), server(1, [0, 1, 1])]
    assert nic_links({(0, 1): 2}, ports) == [((0, 0), (1, 1)), ((0, 2), (1, 0))]


def test_pair_with_no_link_has_none() -> None:
    assert nic_links({(0, 1): 0}, [server(0, [0]), server(1, [0])]) == []
