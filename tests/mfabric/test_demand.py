"""What servers send each other, from what experts do."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.mfabric.demand import Fold, folded, server_demand
from hwd_drivers.core.errors import ConfigError


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.randoms(use_true_random=False))
def test_servers_send_what_their_experts_do(experts: int, gpus: int, servers: int, random: Random) -> None:
    count = experts * gpus * servers
    sent = np.array([[random.randint(0, 9) for _ in range(count)] for _ in range(count)], dtype=float)
    found = server_demand(sent, experts_per_gpu=experts, gpus_per_server=gpus)
    of = [expert // experts // gpus for expert in range(count)]
    for one in range(servers):
        for other in range(servers):
            parts = (sent[a, b] for a in range(count) for b in range(count) if (of[a], of[b]) == (one, other))
            assert found[one, other] == (sum(parts) if one != other else 0)


def test_both_directions_become_one_number() -> None:
    between = np.array([[0.0, 1, 2], [3, 0, 4], [7, 5, 0]])
    assert folded(between).tolist() == [[0, 4, 9], [0, 0, 9], [0, 0, 0]]
    assert folded(between, Fold.MAX).tolist() == [[0, 3, 7], [0, 0, 5], [0, 0, 0]]
    assert folded(between, "sum").tolist() == folded(between).tolist()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ([[0, -1], [0, 0]], r"demand of experts: \[0\]\[1\] is -1; bytes are finite, and at least 0"),
        ([[0, 0], [float("nan"), 0]], r"\[1\]\[0\] is nan"),
        ([[0, 0], [float("inf"), 0]], r"\[1\]\[0\] is inf"),
        ([[0, 1, 2], [1, 0, 2]], "has the shape 2 x 3, and has to be square"),
        ([1, 2], "has the shape 2, and has to be square"),
        (3, "has the shape of a single number"),
        ([["a"]], "not a matrix of numbers"),
        ([[1, 2], [3]], "not a matrix of numbers"),
        ([[0.0] * 3] * 3, r"3 experts cannot fill servers of 2 \(2 GPUs with 1 each\)"),
        (np.zeros((0, 0)), "0 experts cannot fill servers of 2"),
    ],
)
def test_bad_demand_is_refused_with_the_entry(sent: object, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        server_demand(sent, experts_per_gpu=1, gpus_per_server=2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "sizes", [{"experts_per_gpu": 0, "gpus_per_server": 1}, {"experts_per_gpu": 1, "gpus_per_server": -1}]
)
def test_numbers_below_one_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="has to be at least 1"):
        server_demand([[0.0]], **sizes)
