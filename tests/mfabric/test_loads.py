"""Loads of experts: what is refused, the baselines, the accuracy, and the demand of a predicted load."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.mfabric.demand import server_demand
from hwd.mfabric.loads import Sources, expert_demand, load_shares, top_k_accuracy, unchanged_loads, uniform_loads

LAST = np.array([[1.0, 2, 3], [0, 0, 0], [2, 0, 0]])
vectors = st.lists(st.sampled_from([0.0, 1, 1, 2, 5, 1e-300, 1e300]), min_size=1, max_size=8).filter(any)


@given(vectors)
def test_shares_sum_to_one_in_proportion_to_loads(loads: list[float]) -> None:
    shares = load_shares(loads)
    assert shares.sum() == pytest.approx(1)
    assert (shares >= 0).all()
    assert np.argmax(shares) == np.argmax(loads)
    assert unchanged_loads(loads).tolist() == shares.tolist()


def test_shares_are_loads_divided_by_their_sum() -> None:
    assert load_shares([1, 0, 3]).tolist() == [0.25, 0, 0.75]
    assert uniform_loads(4).tolist() == [0.25] * 4
    assert load_shares([1e308] * 4).tolist() == [0.25] * 4


@given(st.data(), st.integers(1, 7))
def test_accuracy_is_the_share_of_the_experts_found(data: st.DataObject, experts: int) -> None:
    loads = st.lists(st.integers(1, 4), min_size=experts, max_size=experts)
    predicted, actual, k = data.draw(loads), data.draw(loads), data.draw(st.integers(1, experts))

    def top(values: list[int]) -> list[int]:
        """Those that fewer than k others are before: with more load, or as much and a smaller number."""
        before = [
            sum(value > values[i] or (value == values[i] and j < i) for j, value in enumerate(values))
            for i in range(experts)
        ]
        return [i for i in range(experts) if before[i] < k]

    found = sum(expert in top(predicted) for expert in top(actual))
    assert top_k_accuracy(predicted, actual, k) == pytest.approx(found / k)


def test_demand_has_the_predicted_loads_by_receiver_and_the_sources_by_sender() -> None:
    uniform = expert_demand([1, 0, 3], 120)
    assert uniform.tolist() == [[10, 0, 30]] * 3
    last = expert_demand([1, 0, 3], 80, sources=Sources.LAST, last=LAST)
    assert last == pytest.approx(np.array([[15.0, 0, 45], [0, 0, 0], [5, 0, 15]]))
    word = expert_demand([1, 0, 3], 80, sources="last", last=LAST)  # type: ignore[arg-type]
    assert word.tolist() == last.tolist()


def test_demand_is_one_that_servers_take() -> None:
    between = server_demand(expert_demand([1, 0, 3, 4], 32), experts_per_gpu=2, gpus_per_server=1)
    assert between.tolist() == [[0, 14], [2, 0]]
