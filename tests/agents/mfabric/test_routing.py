"""The routing table: Figure 8 of mFabric, and what holds for any servers and any light."""

import itertools
import math
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.mfabric import Circuit, Medium, NicPort, Over, Row, Servers, routing_table
from hwd_drivers.core.errors import ConfigError

from .conftest import FIGURE_8, FOUR, Region, drawn_regions, link


@given(drawn_regions())
def test_each_link_is_one_row_each_way_and_other_pairs_go_over_eps(region: Region) -> None:
    found = Counter((row.pair, row.sender, row.receiver, row.over) for row in region.table.rows)
    lit = [way for one, other in region.links for way in ((one, other), (other, one))]
    expected = Counter[tuple[tuple[int, int], int, int, Over]]()
    for here, there in lit:
        expected[(here.server, there.server), here.rank, there.rank, Circuit(here, there)] += 1
    linked = {(here.server, there.server) for here, there in lit}
    eps = region.servers.eps
    for pair in itertools.permutations(range(len(eps)), 2):
        if pair not in linked:
            total = math.lcm(*(len(eps[server]) for server in pair))
            both = zip(*(itertools.islice(itertools.cycle(eps[server]), total) for server in pair), strict=True)
            expected += Counter((pair, sender, receiver, Medium.EPS) for sender, receiver in both)
    assert found == expected
    assert max(found.values(), default=1) == 1
    ports = Counter(row.over for row in region.table.rows if isinstance(row.over, Circuit))
    assert max(ports.values(), default=1) == 1
    for rows in region.table.by_pair().values():
        if rows[0].over is Medium.EPS:
            assert len({*Counter(row.sender for row in rows).values()}) == 1
            assert len({*Counter(row.receiver for row in rows).values()}) == 1


@given(drawn_regions(), st.randoms(use_true_random=False))
def test_table_does_not_depend_on_the_order_of_links_and_of_their_ends(region: Region, random: Random) -> None:
    links = [(other, one) if random.random() < 0.5 else (one, other) for one, other in region.links]
    random.shuffle(links)
    assert routing_table(region.servers, links) == region.table


@given(drawn_regions(), st.randoms(use_true_random=False))
def test_table_without_a_row_has_the_others_and_eps_where_none_is_left(region: Region, random: Random) -> None:
    """Row by row of one pair, until it has no way left."""
    table = region.table
    if not table.rows:
        return
    pair = random.choice(table.rows).pair
    while True:
        rows = table.by_pair()[pair]
        row = random.choice(rows)
        if len(rows) == 1 and not (isinstance(row.over, Circuit) and all(region.servers.eps[one] for one in pair)):
            with pytest.raises(ConfigError, match=f"^servers {pair[0]}->{pair[1]}: no circuit"):
                table.without(row)
            return
        smaller = table.without(row)
        if len(rows) > 1:
            expected = [one for one in rows if one != row]
        else:
            dark = [link for link in region.links if {link[0].server, link[1].server} != {*pair}]
            expected = routing_table(region.servers, dark).by_pair()[pair]
        assert smaller.by_pair() == {**table.by_pair(), pair: expected}
        assert [one.pair for one in smaller.rows] == sorted(one.pair for one in smaller.rows)
        table = smaller


def test_row_that_is_not_in_the_table_cannot_be_dropped() -> None:
    table = routing_table(FOUR, FIGURE_8)
    row = Row(source=0, destination=1, sender=0, receiver=4, over=Medium.EPS)
    with pytest.raises(ConfigError, match=r"^servers 0->1: ranks 0->4 over eps: is not in the routing table$"):
        table.without(row)


def test_one_server_has_an_empty_table() -> None:
    assert routing_table(Servers(ranks=((0, 1),), eps=((),)), []).rows == ()


@pytest.mark.parametrize(
    ("eps", "where"),
    [(((), (7,), (11,), (15,)), "0"), (((3,), (), (11,), (15,)), "1"), (((), (), (11,), (15,)), "0 and 1")],
)
def test_pair_without_a_way_is_refused_by_name(eps: tuple[tuple[int, ...], ...], where: str) -> None:
    with pytest.raises(ConfigError, match=rf"^servers 0->1: no circuit, and no EPS GPU at {where}\. Each pair needs"):
        routing_table(Servers(ranks=FOUR.ranks, eps=eps), FIGURE_8)


@pytest.mark.parametrize(
    ("links", "why"),
    [
        ([(NicPort(0, 4, "eth0"), NicPort(2, 8, "eth0"))], r"rank 4 of 0\.eth0 is not at server 0"),
        ([(NicPort(0, 0, "eth0"), NicPort(4, 16, "eth0"))], r"rank 16 of 4\.eth0 is not at server 4"),
        ([link(0, 8), link(0, 9)], r"link 0\.eth0-2\.eth1: 0\.eth0 has another link already"),
        ([link(0, 8), link(0, 8)], "has another link already"),
        ([link(0, 8), (NicPort(0, 1, "eth0"), NicPort(2, 9, "eth1"))], r"0\.eth0 has another link already"),
        ([(NicPort(0, 0, "eth0"), NicPort(0, 0, "eth0"))], "has another link already"),
        ([link(0, 1)], "both ends are at server 0"),
    ],
)
def test_links_that_do_not_fit_are_refused(links: list[tuple[NicPort, NicPort]], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        routing_table(FOUR, links)


@pytest.mark.parametrize(
    ("ranks", "eps", "why"),
    [
        ((), (), "ranks of 0 servers, and EPS GPUs of 0"),
        (((0,), (1,)), ((0,),), "ranks of 2 servers, and EPS GPUs of 1"),
        (((0,), ()), ((), ()), "server 1: has no GPU"),
        (((0,), (-1,)), ((), ()), "server 1: -1 is no rank"),
        (((0, 1), (2, 1)), ((), ()), "rank 1: is at server 0 and again at server 1"),
        (((0,), (1,)), ((1,), ()), "EPS GPUs of server 0: rank 1 is not at this server"),
        (((0, 1),), ((1, 0, 1),), "EPS GPUs of server 0: 1, 0, 1 has a rank twice"),
    ],
)
def test_servers_that_do_not_fit_are_refused(
    ranks: tuple[tuple[int, ...], ...], eps: tuple[tuple[int, ...], ...], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        Servers(ranks=ranks, eps=eps)
