"""The bytes that circuits, EPS GPUs and the insides of servers carry."""

from collections import Counter

from hypothesis import given

from hwd_agents.mfabric import (
    Circuit,
    Load,
    Medium,
    NicPort,
    Servers,
    all_reduce_steps,
    all_to_all_moves,
    load_of,
    routing_table,
)

from .conftest import Region, drawn_regions

SERVERS = Servers(ranks=((0, 1), (2, 3), (4,)), eps=((1,), (3,), (4,)))
PORTS = (NicPort(0, 0, "eth0"), NicPort(1, 2, "eth0"))


def test_phases_of_an_all_to_all_by_hand() -> None:
    elements = {(1, 3): 5, (3, 1): 2, (0, 1): 3, (0, 4): 1, (4, 0): 7}
    moves = all_to_all_moves(routing_table(SERVERS, [PORTS]), elements)
    loads = {str(phase): load_of(SERVERS, some, element_bytes=4) for phase, some in moves.items()}
    assert loads == {
        "gather": Load(circuits={}, eps_sent={}, eps_received={}, inside={0: 4 * (5 + 1), 1: 4 * 2}),
        "inter-host": Load(
            circuits={Circuit(*PORTS): 4 * 5, Circuit(*PORTS[::-1]): 4 * 2},
            eps_sent={1: 4 * 1, 4: 4 * 7},
            eps_received={4: 4 * 1, 1: 4 * 7},
            inside={},
        ),
        "intra-host": Load(circuits={}, eps_sent={}, eps_received={}, inside={0: 4 * 3}),
        "scatter": Load(circuits={}, eps_sent={}, eps_received={}, inside={1: 4 * 5, 0: 4 * (2 + 7)}),
    }


def test_step_of_an_all_reduce_by_hand() -> None:
    steps = all_reduce_steps(SERVERS, 6)
    assert load_of(SERVERS, steps[0].moves) == Load(circuits={}, eps_sent={}, eps_received={}, inside={0: 6, 1: 6})
    each = dict.fromkeys((1, 3, 4), 2)
    assert load_of(SERVERS, steps[1].moves) == Load(circuits={}, eps_sent=each, eps_received=each, inside={})


@given(drawn_regions())
def test_all_that_servers_send_each_other_is_on_circuits_and_eps(region: Region) -> None:
    server = region.servers.server_of
    expected = Counter[tuple[int, int]]()
    for (source, destination), size in region.elements.items():
        if server[source] != server[destination] and size:
            expected[server[source], server[destination]] += size
    moves = [move for some in all_to_all_moves(region.table, region.elements).values() for move in some]
    load = load_of(region.servers, moves)
    found = Counter[tuple[int, int]]()
    for circuit, size in load.circuits.items():
        found[circuit.here.server, circuit.there.server] += size
    over_eps = sum(size for pair, size in expected.items() if pair not in found)
    assert found == {pair: size for pair, size in expected.items() if pair in found}
    assert sum(load.eps_sent.values()) == sum(load.eps_received.values()) == over_eps
    assert sum(load.inside.values()) == sum(move.length for move in moves if move.over is Medium.INSIDE)
