"""The links for a demand, with what they take beside the best and the bound."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hwd.mfabric.completion import Capacity
from hwd.mfabric.demand import Fold
from hwd.mfabric.link_choice import BEST_HOSTS_MOST, link_choice
from hwd.mfabric.reconfigure_ocs import Variant


def capacity(hosts: int, *, degree: int = 2, eps_mbit_s: float = 100.0) -> Capacity:
    return Capacity(link_mbit_s=100.0, degrees=(degree,) * hosts, eps_mbit_s=(eps_mbit_s,) * hosts)


@given(st.integers(2, 5), st.integers(0, 3), st.sampled_from(Variant), st.sampled_from(Fold), st.data())
def test_nothing_is_below_the_bound_and_no_choice_below_the_best(
    hosts: int, degree: int, variant: Variant, fold: Fold, data: st.DataObject
) -> None:
    sizes = data.draw(st.lists(st.integers(0, 1000), min_size=hosts * hosts, max_size=hosts * hosts))
    names = [f"h{n}" for n in range(hosts)]
    between = np.array(sizes, dtype=float).reshape(hosts, hosts)
    found = link_choice(names, between, capacity(hosts, degree=degree), variant=variant, fold=fold)
    assert found.best_s is not None
    assert found.bound_s <= found.best_s * (1 + 1e-6)
    assert found.best_s <= found.completion_s * (1 + 1e-6)
    assert found.circuits_s is None or found.best_s <= found.circuits_s * (1 + 1e-6)
    for name in names:
        assert sum(one.count for one in found.links if name in (one.one, one.other)) <= degree


def test_what_is_said_is_what_was_found() -> None:
    between = np.zeros((3, 3))
    between[0, 1], between[1, 2] = 1e6, 2e6
    found = link_choice(["a", "b", "c"], between, capacity(3), variant=Variant.SKIP, fold=Fold.SUM)
    assert [(one.one, one.other, one.count) for one in found.links] == [("b", "c", 1), ("a", "b", 1)]
    assert str(found) == (
        "2 links: an all-to-all takes 160 ms; the best links take 80 ms; nothing takes less than 80 ms"
    )


def test_best_links_of_many_hosts_are_not_looked_for() -> None:
    hosts = BEST_HOSTS_MOST + 1
    names = [f"h{n}" for n in range(hosts)]
    found = link_choice(names, np.ones((hosts, hosts)), capacity(hosts), variant=Variant.SKIP, fold=Fold.SUM)
    assert (found.best_s, found.circuits_s) == (None, None)
    assert found.bound_s <= found.completion_s
