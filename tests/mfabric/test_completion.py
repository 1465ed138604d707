"""How long an all-to-all takes: the algorithm, the optimum and the bound, against trying all links of small cases."""

import itertools
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hwd.mfabric.completion import Capacity, best_circuits_s, best_links, completion_s, least_s
from hwd.mfabric.reconfigure_ocs import Links, Variant, reconfigure_ocs
from hwd_drivers.core.errors import ConfigError


@st.composite
def cases(
    draw: st.DrawFn, *, servers_most: int = 4, has_eps: bool | None = None
) -> tuple[NDArray[np.float64], Capacity]:
    servers = draw(st.integers(2, servers_most))
    demand = np.zeros((servers, servers))
    for one, other in itertools.combinations(range(servers), 2):
        scale = draw(st.sampled_from([1.0, 1.0, 1e-3, 1e3]))
        demand[one, other] = draw(st.sampled_from([0, 0, 1, 2, 3, 5, 8, 13])) * 1e6 * scale
    rates = (
        st.just(100.0) if has_eps else st.just(0.0) if has_eps is False else st.sampled_from([0.0, 50.0, 100.0, 1e5])
    )
    capacity = Capacity(
        link_mbit_s=100.0,
        degrees=tuple(draw(st.lists(st.integers(0, 3), min_size=servers, max_size=servers))),
        eps_mbit_s=tuple(draw(st.lists(rates, min_size=servers, max_size=servers))),
    )
    return demand, capacity


def all_links(degrees: tuple[int, ...]) -> Iterator[Links]:
    """Every way to use the ports."""
    pairs = [*itertools.combinations(range(len(degrees)), 2)]
    for counts in itertools.product(*(range(min(degrees[one], degrees[other]) + 1) for one, other in pairs)):
        used = [0] * len(degrees)
        for (one, other), count in zip(pairs, counts, strict=True):
            used[one] += count
            used[other] += count
        if all(some <= most for some, most in zip(used, degrees, strict=True)):
            yield {pair: count for pair, count in zip(pairs, counts, strict=True) if count}


def brute_s(demand: NDArray[np.float64], capacity: Capacity) -> float:
    """The least time, by trying all links; infinite where none will do."""
    found = float("inf")
    for links in all_links(capacity.degrees):
        try:
            found = min(found, completion_s(demand, links, capacity))
        except ConfigError:
            continue
    return found


SMALL_BESIDE_LARGE = np.array([[0, 3e3, 0], [0, 0, 1e9], [0, 0, 0]])
"""The algorithm links the large one, which takes a thousand times what it takes over EPS."""


@settings(max_examples=60)
@example((SMALL_BESIDE_LARGE, Capacity(link_mbit_s=100.0, degrees=(1, 1, 1), eps_mbit_s=(1e5, 1e5, 1e5))))
@given(cases())
def test_best_links_are_as_good_as_any(case: tuple[NDArray[np.float64], Capacity]) -> None:
    demand, capacity = case
    expected = brute_s(demand, capacity)
    if expected == float("inf"):
        with pytest.raises(ConfigError, match="have no EPS port"):
            best_links(demand, capacity)
        return
    links, time_s = best_links(demand, capacity)
    assert time_s == pytest.approx(expected, rel=2e-6)
    assert completion_s(demand, links, capacity) == pytest.approx(time_s)
    assert least_s(demand, capacity) <= time_s * (1 + 1e-6)


@settings(max_examples=60)
@given(cases(has_eps=False))
def test_best_circuits_are_as_good_as_any(case: tuple[NDArray[np.float64], Capacity]) -> None:
    demand, capacity = case
    assert best_circuits_s(demand, capacity) == pytest.approx(brute_s(demand, capacity), rel=1e-9)


@settings(max_examples=60)
@given(cases(has_eps=True), st.sampled_from(Variant))
def test_algorithm_is_between_the_bound_and_all_over_eps(
    case: tuple[NDArray[np.float64], Capacity], variant: Variant
) -> None:
    demand, capacity = case
    links = reconfigure_ocs(demand, capacity.degrees, variant=variant)
    time_s = completion_s(demand, links, capacity)
    assert least_s(demand, capacity) <= time_s * (1 + 1e-6)
    assert time_s <= completion_s(demand, {}, capacity) * (1 + 1e-9)


@settings(max_examples=60)
@given(cases(has_eps=None))
def test_bound_is_that_of_the_busiest_server_where_all_have_the_same(
    case: tuple[NDArray[np.float64], Capacity],
) -> None:
    demand, capacity = case
    servers = len(capacity.degrees)
    same = Capacity(link_mbit_s=100.0, degrees=(2,) * servers, eps_mbit_s=(100.0,) * servers)
    both = demand + demand.T
    assert least_s(demand, same) == pytest.approx(both.sum(axis=1).max() * 8e-6 / 300.0, rel=1e-6)


def test_pair_without_link_and_eps_and_links_beyond_the_ports_are_named() -> None:
    demand = np.array([[0.0, 1.0], [0.0, 0.0]])
    for eps_mbit_s, links, why in (
        ((1.0, 0.0), {}, "servers 0 and 1: no link, and server 1 has no EPS port"),
        ((0.0, 0.0), {(0, 1): 50}, "server 0: 50 links, and it has 1 optical NIC ports"),
    ):
        with pytest.raises(ConfigError, match=why):
            completion_s(demand, links, Capacity(link_mbit_s=1.0, degrees=(1, 1), eps_mbit_s=eps_mbit_s))


def test_bound_is_there_for_a_small_demand_beside_a_large_one() -> None:
    demand = np.array([[0, 62.0, 0], [0, 0, 131e9], [0, 0, 0]])
    capacity = Capacity(link_mbit_s=1e6, degrees=(1, 2, 1), eps_mbit_s=(0.0, 0.0, 0.0))
    greedy_s = completion_s(demand, reconfigure_ocs(demand, capacity.degrees), capacity)
    assert 0.5 * greedy_s < least_s(demand, capacity) <= greedy_s * (1 + 1e-6)
    lost = Capacity(link_mbit_s=1e6, degrees=(0, 2, 1), eps_mbit_s=(0.0, 0.0, 0.0))
    assert least_s(demand, lost) == float("inf")


def test_who_has_no_scipy_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    capacity = Capacity(link_mbit_s=1.0, degrees=(1, 1), eps_mbit_s=(1.0, 1.0))
    for what in (best_links, least_s):
        with pytest.raises(ConfigError, match=r"pip install '\.\[mfabric\]'"):
            what(np.array([[0.0, 1.0], [0.0, 0.0]]), capacity)


def test_bound_of_demand_over_many_decades_is_finite_where_every_pair_can_send() -> None:
    draws = np.random.default_rng(1)
    for number in range(60):
        size = int(draws.integers(2, 7))
        demand = np.triu(10.0 ** draws.uniform(0, 15, (size, size)), 1)
        eps = tuple(float(rate) for rate in draws.choice([0.0, 1.0, 1e5], size))
        capacity = Capacity(link_mbit_s=1e4, degrees=tuple(draws.integers(0, 3, size).tolist()), eps_mbit_s=eps)
        can_send = all(
            (capacity.degrees[one] and capacity.degrees[other]) or (eps[one] and eps[other])
            for one, other in np.argwhere(demand)
        )
        assert np.isfinite(least_s(demand, capacity)) == can_send, number
    both = np.array([[0.0, 1e15, 1.0], [0.0, 0.0, 1e3], [0.0, 0.0, 0.0]])
    alike = Capacity(link_mbit_s=50.0, degrees=(1, 1, 1), eps_mbit_s=(50.0, 50.0, 50.0))
    assert least_s(both, alike) == pytest.approx((1e15 + 1e3) * 8e-6 / 100.0, rel=1e-6)
