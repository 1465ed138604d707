"""Algorithm 1 of mFabric, against the listing itself, line by line, and what the paper says of its results."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hwd.mfabric.reconfigure_ocs import Links, Variant, reconfigure_ocs


def listing(demand: NDArray[np.float64], degrees: list[int], variant: Variant) -> Links:
    """Lines 2 to 14, with the mends that the module names."""
    servers = len(degrees)
    pairs = [*itertools.combinations(range(servers), 2)]
    links, free = dict.fromkeys(pairs, 0), [*degrees]
    time = {pair: float("inf") if demand[pair] else 0.0 for pair in pairs}
    while True:
        open_ = [
            pair for pair in pairs if demand[pair] and (variant is Variant.STOP or (free[pair[0]] and free[pair[1]]))
        ]
        if not open_:
            break
        one, other = max(open_, key=lambda pair: (time[pair], demand[pair], -pair[0], -pair[1]))
        if not (free[one] and free[other]):
            break
        links[one, other] += 1
        free[one] -= 1
        free[other] -= 1
        time[one, other] = demand[one, other] / links[one, other]
    return {pair: count for pair, count in links.items() if count}


@st.composite
def cases(draw: st.DrawFn) -> tuple[NDArray[np.float64], list[int]]:
    servers = draw(st.integers(1, 6))
    demand = np.zeros((servers, servers))
    for pair in itertools.combinations(range(servers), 2):
        demand[pair] = draw(st.sampled_from([0, 0, 1, 2, 3, 4, 6, 12]))
    return demand, draw(st.lists(st.integers(0, 5), min_size=servers, max_size=servers))


@given(cases(), st.sampled_from(Variant))
def test_links_are_those_of_the_listing(case: tuple[NDArray[np.float64], list[int]], variant: Variant) -> None:
    demand, degrees = case
    assert reconfigure_ocs(demand, degrees, variant=variant) == listing(demand, degrees, variant)


@pytest.mark.parametrize("variant", Variant)
@pytest.mark.parametrize("largest", [2, 9, 10**6])
def test_links_of_many_servers_are_those_of_the_listing(largest: int, variant: Variant) -> None:
    """So many that pairs are looked at in parts, also where many have the same demand."""
    draws = np.random.default_rng(largest)
    demand = np.triu(draws.integers(0, largest, size=(40, 40)).astype(float), 1)
    degrees = draws.integers(0, 7, size=40).tolist()
    assert reconfigure_ocs(demand, degrees, variant=variant) == listing(demand, degrees, variant)


def test_variant_may_be_written_as_a_word() -> None:
    words = [reconfigure_ocs(drawn(16, 1), [6] * 16, variant=word) for word in ("skip", "stop")]  # type: ignore[arg-type]
    assert words == [reconfigure_ocs(drawn(16, 1), [6] * 16, variant=variant) for variant in Variant]


def drawn(servers: int, seed: int) -> NDArray[np.float64]:
    return np.triu(np.random.default_rng(seed).lognormal(size=(servers, servers)), 1)
