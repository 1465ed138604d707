"""The moves of an all-to-all, executed phase by phase, against a plain all-to-all."""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.mfabric import Medium, Move, Phase, RoutingTable, Row, Servers, all_to_all_moves, routing_table
from hwd_drivers.core.errors import ConfigError

from .conftest import FIGURE_8, FOUR, Region, drawn_regions

Element = tuple[int, int, int]
"""The rank that sends it, the one that shall have it, and its number among those from the one to the other."""
Moves = Mapping[Phase, Iterable[Move]]
SIXES = {(one, other): 6 for one in range(16) for other in range(16)}


def plain(elements: Mapping[tuple[int, int], int], servers: Servers) -> dict[int, set[Element]]:
    """What each rank has after an all-to-all."""
    found: dict[int, set[Element]] = {rank: set() for rank in servers.server_of}
    for (source, destination), size in elements.items():
        found[destination] |= {(source, destination, number) for number in range(size)}
    return found


def executed(moves: Moves, elements: Mapping[tuple[int, int], int], servers: Servers) -> dict[int, set[Element]]:
    """The elements for each rank that it has in the end. Fails where a rank sends what it does not have, or receives
    what it has.
    """
    held: dict[int, set[Element]] = {rank: set() for rank in servers.server_of}
    for (source, destination), size in elements.items():
        held[source] |= {(source, destination, number) for number in range(size)}
    assert [*moves] == [*Phase]
    for phases in ([Phase.GATHER], [Phase.INTER_HOST, Phase.INTRA_HOST], [Phase.SCATTER]):
        sent = [(move, content(move)) for phase in phases for move in moves[phase]]
        assert all({*some} <= held[move.sender] for move, some in sent)
        for move, some in sent:
            assert not held[move.receiver] & {*some}
            held[move.receiver] |= {*some}
    return {rank: {one for one in some if one[1] == rank} for rank, some in held.items()}


def content(move: Move) -> list[Element]:
    found = [
        (one.source, one.destination, number)
        for one in move.slices
        for number in range(one.offset, one.offset + one.length)
    ]
    assert len({*found}) == len(found) == move.length
    return found


def carried(table: RoutingTable, elements: Mapping[tuple[int, int], int]) -> dict[Row, int]:
    """How many elements go over each row."""
    found = Counter[tuple[object, ...]]()
    for move in all_to_all_moves(table, elements)[Phase.INTER_HOST]:
        found[move.sender, move.receiver, move.over] += move.length
    rows = {row: found.pop((row.sender, row.receiver, row.over), 0) for row in table.rows}
    assert not found
    return rows


@given(drawn_regions(), st.randoms(use_true_random=False))
def test_result_is_that_of_a_plain_all_to_all_and_moves_do_not_depend_on_the_order_of_the_input(
    region: Region, random: Random
) -> None:
    moves = all_to_all_moves(region.table, region.elements)
    assert executed(moves, region.elements, region.servers) == plain(region.elements, region.servers)
    elements = dict(random.sample([*region.elements.items()], len(region.elements)))
    table = routing_table(region.servers, random.sample(region.links, len(region.links)))
    assert all_to_all_moves(table, elements) == moves


@given(drawn_regions(), st.randoms(use_true_random=False))
def test_result_stays_while_rows_are_dropped_and_only_their_elements_move(region: Region, random: Random) -> None:
    table, before = region.table, carried(region.table, region.elements)
    for row in random.sample(table.rows, len(table.rows)):
        try:
            smaller = table.without(row)
        except ConfigError:
            continue  # the last way of its pair
        assert executed(all_to_all_moves(smaller, region.elements), region.elements, region.servers) == plain(
            region.elements, region.servers
        )
        after = carried(smaller, region.elements)
        assert row not in after
        more = {one: size - before.get(one, 0) for one, size in after.items()}
        assert sum(more.values()) == before[row]
        assert all(size >= 0 and (size == 0 or one.pair == row.pair) for one, size in more.items())
        table, before = smaller, after


@given(drawn_regions())
def test_rows_and_gateways_of_a_pair_carry_equally_much_to_an_element(region: Region) -> None:
    found = carried(region.table, region.elements)
    server = region.servers.server_of
    for pair, rows in region.table.by_pair().items():
        sizes = [found[row] for row in rows]
        assert max(sizes) - min(sizes) <= 1
        assert sum(sizes) == sum(
            size for (one, other), size in region.elements.items() if (server[one], server[other]) == pair
        )
        sent, received = Counter[int](), Counter[int]()
        for row in rows if rows[0].over is Medium.EPS else ():
            sent[row.sender] += found[row]
            received[row.receiver] += found[row]
        for carries in (sent, received):
            assert max(carries.values(), default=0) - min(carries.values(), default=0) <= 1


@given(drawn_regions())
def test_moves_are_over_what_the_region_has(region: Region) -> None:
    """Between servers they are over the rows of the table, which has the links and the EPS GPUs."""
    server = region.servers.server_of
    for phase, moves in all_to_all_moves(region.table, region.elements).items():
        for move in moves:
            assert move.sender != move.receiver
            assert move.length > 0
            assert all(one.length > 0 for one in move.slices)
            inside = server[move.sender] == server[move.receiver]
            assert inside is (move.over is Medium.INSIDE) is (phase is not Phase.INTER_HOST)
            if phase is Phase.INTRA_HOST:
                assert {(one.source, one.destination) for one in move.slices} == {(move.sender, move.receiver)}


@given(drawn_regions())
def test_delegates_gather_only_what_their_own_gpus_do_not_fill(region: Region) -> None:
    """By counting: of what a pair sends, each delegate takes the more of its own, the more its rows carry."""
    found = carried(region.table, region.elements)
    server = region.servers.server_of
    gathered = 0
    for pair, rows in region.table.by_pair().items():
        for rank in region.servers.ranks[pair[0]]:
            own = sum(size for (one, to), size in region.elements.items() if (one, server[to]) == (rank, pair[1]))
            gathered += max(0, own - sum(found[row] for row in rows if row.sender == rank))
    moves = all_to_all_moves(region.table, region.elements)
    assert sum(move.length for move in moves[Phase.GATHER]) == gathered


@given(drawn_regions())
def test_ranks_send_to_one_and_receive_from_one_at_each_distance(region: Region) -> None:
    ranks = [rank for some in region.servers.ranks for rank in some]
    for moves in all_to_all_moves(region.table, region.elements).values():
        hops = dict.fromkeys((move.sender, move.receiver) for move in moves)  # several circuits may join two ranks
        distances = [(ranks.index(to) - ranks.index(one)) % len(ranks) for one, to in hops]
        assert distances == sorted(distances)
        for distance in {*distances}:
            some = [hop for hop, its in zip(hops, distances, strict=True) if its == distance]
            assert len({one for one, _ in some}) == len({to for _, to in some}) == len(some)


# --- Figure 8


def test_figure_8_gathers_at_the_delegates_of_the_paper() -> None:
    """From server 0 alone: 96 elements to each other server."""
    table = routing_table(FOUR, FIGURE_8)
    elements = {pair: size for pair, size in SIXES.items() if pair[0] < 4}
    moves = all_to_all_moves(table, elements)
    between = {(move.sender, move.receiver): (str(move.over), move.length) for move in moves[Phase.INTER_HOST]}
    assert between == {
        (0, 8): ("0.eth0->2.eth0", 48),
        (2, 9): ("0.eth2->2.eth1", 48),
        (1, 12): ("0.eth1->3.eth0", 96),
        (3, 7): ("eps", 96),
    }
    to = {server: {4 * server + gpu for gpu in range(4)} for server in range(4)}
    gathered = {(move.sender, move.receiver, one.destination) for move in moves[Phase.GATHER] for one in move.slices}
    assert gathered == {
        *((gpu, 3, rank) for gpu in (0, 1, 2) for rank in to[1]),
        *((gpu, 1, rank) for gpu in (0, 2, 3) for rank in to[3]),
        *((1, 0, rank) for rank in to[2]),  # 0 and 2 send their own over their own ports
        *((3, 2, rank) for rank in to[2]),
    }
    assert {(move.sender, move.receiver) for move in moves[Phase.INTRA_HOST]} == {*itertools.permutations(range(4), 2)}
    assert {move.sender for move in moves[Phase.SCATTER]} == {7, 8, 9, 12}
    assert executed(moves, elements, FOUR) == plain(elements, FOUR)


@pytest.mark.parametrize(
    ("elements", "why"),
    [
        ({(0, 16): 1}, "elements from rank 0 to 16: rank 16 is at no server"),
        ({(-1, 0): 1}, "rank -1 is at no server"),
        ({(0, 1): -1}, "elements from rank 0 to 1: is -1, and has to be at least 0"),
    ],
)
def test_bad_numbers_of_elements_are_refused(elements: dict[tuple[int, int], int], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        all_to_all_moves(routing_table(FOUR, FIGURE_8), elements)
