"""What servers send each other, from what experts do."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hwd.mfabric.demand import Fold, folded, server_demand


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
