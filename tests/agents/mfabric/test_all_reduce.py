"""The steps of a hierarchical all-reduce, executed, against a plain sum."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.mfabric import Medium, Servers, Stage, Step, all_reduce_steps
from hwd_drivers.core.errors import ConfigError

from .conftest import drawn_servers


def executed(steps: list[Step], vectors: dict[int, list[int]]) -> dict[int, list[int]]:
    """Moves of a step are made at once: none may send what another one changes."""
    held = {rank: [*vector] for rank, vector in vectors.items()}
    for step in steps:
        spans = {move: range(move.offset, move.offset + move.length) for move in step.moves}
        changed = {(move.receiver, number) for move, span in spans.items() for number in span}
        assert not any((move.sender, number) in changed for move, span in spans.items() for number in span)
        for move, span in spans.items():
            for number in span:
                held[move.receiver][number] = held[move.sender][number] + (
                    held[move.receiver][number] if move.adds else 0
                )
    return held


@given(drawn_servers(least_eps=1), st.integers(0, 40), st.randoms(use_true_random=False))
def test_each_rank_has_the_sum(servers: Servers, length: int, random: Random) -> None:
    vectors = {rank: [random.randint(-99, 99) for _ in range(length)] for rank in servers.server_of}
    total = [sum(column) for column in zip(*vectors.values(), strict=True)]
    assert executed(all_reduce_steps(servers, length), vectors) == dict.fromkeys(vectors, total)


@given(drawn_servers(least_eps=1), st.integers(0, 40))
def test_stages_have_their_steps_and_their_media(servers: Servers, length: int) -> None:
    steps = all_reduce_steps(servers, length)
    last = len(servers.ranks) - 1
    assert [step.stage for step in steps] == [
        Stage.REDUCE,
        *[Stage.REDUCE_SCATTER] * last,
        *[Stage.ALL_GATHER] * last,
        Stage.BROADCAST,
    ]
    fewest = min(map(len, servers.eps))
    gateways = {rank for ranks in servers.eps for rank in ranks[:fewest]}
    for step in steps:
        between = step.stage in (Stage.REDUCE_SCATTER, Stage.ALL_GATHER)
        for move in step.moves:
            assert move.length > 0
            assert move.adds == (step.stage in (Stage.REDUCE, Stage.REDUCE_SCATTER))
            assert move.over is (Medium.EPS if between else Medium.INSIDE)
            assert between == (servers.server_of[move.sender] != servers.server_of[move.receiver])
            assert not between or {move.sender, move.receiver} <= gateways


@given(st.integers(2, 4), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2))
def test_each_gateway_sends_as_much_as_a_ring_needs(servers: int, rings: int, each: int, more: int) -> None:
    """2 (S - 1) / S of its part, 1 / rings of the vector; `more` EPS GPUs of the last server are not used."""
    ranks = tuple(tuple(range(8 * server, 8 * server + 6)) for server in range(servers))
    eps = tuple(some[: rings + (more if some is ranks[-1] else 0)] for some in ranks)
    steps = all_reduce_steps(Servers(ranks=ranks, eps=eps), servers * rings * each)
    sent, received = Counter[int](), Counter[int]()
    for step in steps:
        for move in step.moves:
            if move.over is Medium.EPS:
                sent[move.sender] += move.length
                received[move.receiver] += move.length
    assert sent == received == dict.fromkeys((r for some in ranks for r in some[:rings]), 2 * (servers - 1) * each)


def test_a_vector_that_does_not_divide_is_split_as_evenly_as_it_can_be() -> None:
    steps = all_reduce_steps(Servers(ranks=((0, 1), (2, 3)), eps=((1,), (3,))), 5)
    assert [[str(move) for move in step.moves] for step in steps] == [
        ["0->1 over inside: [0:5] +=", "2->3 over inside: [0:5] +="],
        ["1->3 over eps: [0:3] +=", "3->1 over eps: [3:5] +="],
        ["1->3 over eps: [3:5] =", "3->1 over eps: [0:3] ="],
        ["1->0 over inside: [0:5] =", "3->2 over inside: [0:5] ="],
    ]


def test_one_server_needs_no_eps() -> None:
    steps = all_reduce_steps(Servers(ranks=((4, 5),), eps=((),)), 3)
    assert [[str(move) for move in step.moves] for step in steps] == [
        ["5->4 over inside: [0:3] +="],
        ["4->5 over inside: [0:3] ="],
    ]


def test_server_without_eps_and_a_negative_length_are_refused() -> None:
    with pytest.raises(ConfigError, match="server 1 has no EPS GPU, and each server needs one"):
        all_reduce_steps(Servers(ranks=((0,), (1,)), eps=((0,), ())), 3)
    with pytest.raises(ConfigError, match="all-reduce of -1 elements: has to be at least 0"):
        all_reduce_steps(Servers(ranks=((0,),), eps=((0,),)), -1)
