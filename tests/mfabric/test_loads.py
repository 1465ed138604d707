"""Loads of experts: what is refused, the baselines, the accuracy, and the demand of a predicted load."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.mfabric.demand import server_demand
from hwd.mfabric.loads import Sources, expert_demand, load_shares, top_k_accuracy, unchanged_loads, uniform_loads
from hwd_drivers.core.errors import ConfigError

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


@pytest.mark.parametrize(
    ("loads", "why"),
    [
        ([1, float("nan")], r"^loads: \[1\] is nan, and has to be finite and at least 0"),
        ([float("inf"), 1], r"\[0\] is inf"),
        ([1, 1, -2], r"\[2\] is -2"),
        ([0, 0], "no entry is above 0"),
        ([], "no entry is above 0"),
        ([[1, 2]], "has 2 dimensions, and has to be a vector"),
        (3, "has 0 dimensions"),
        (["a"], "not a vector of numbers"),
        ([1j], "not a vector of numbers"),
    ],
)
def test_bad_loads_are_refused_with_the_entry(loads: object, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load_shares(loads)  # type: ignore[arg-type]


def test_loads_of_other_experts_are_refused() -> None:
    with pytest.raises(ConfigError, match="loads: has 2 entries, and has to have 3"):
        load_shares([1, 2], 3)
    with pytest.raises(ConfigError, match="predicted loads: has 3 entries, and has to have 2"):
        top_k_accuracy([1, 2, 3], [1, 2], 1)
    with pytest.raises(ConfigError, match="experts: no entry"):
        uniform_loads(0)


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


def test_experts_with_the_same_load_are_taken_by_number() -> None:
    assert top_k_accuracy([1, 1, 1, 1], [3, 2, 1, 1], 2) == 1.0
    assert top_k_accuracy([1, 1, 1, 1], [1, 1, 2, 3], 2) == 0.0
    assert top_k_accuracy([9, 1, 1, 1], [1, 2, 2, 2], 2) == 0.5


@pytest.mark.parametrize("k", [0, -1, 4])
def test_k_beyond_the_experts_is_refused(k: int) -> None:
    with pytest.raises(ConfigError, match=f"k: is {k}, and has to be from 1 to the 3 experts"):
        top_k_accuracy([1, 2, 3], [1, 2, 3], k)


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


@pytest.mark.parametrize(
    ("total_bytes", "last", "why"),
    [
        (float("nan"), LAST, "total_bytes: is nan"),
        (-1.0, LAST, "total_bytes: is -1, and has to be finite and at least 0"),
        (1.0, None, "needs the last observed demand, and there is none"),
        (1.0, np.zeros((3, 3)), "last demand, by source: no entry is above 0"),
        (1.0, np.ones((2, 2)), "last demand, by source: has 2 entries, and has to have 3"),
        (1.0, -LAST, r"last demand: \[0\]\[0\] is -1"),
    ],
)
def test_demand_without_its_sources_is_refused(total_bytes: float, last: object, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        expert_demand([1, 2, 3], total_bytes, sources=Sources.LAST, last=last)  # type: ignore[arg-type]
