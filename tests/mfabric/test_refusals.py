"""Numbers that make no sense are refused in words, with the entry."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from hwd.mfabric.completion import Capacity, best_circuits_s, best_links, completion_s, least_s
from hwd.mfabric.copilot import Copilot
from hwd.mfabric.demand import Fold, server_demand
from hwd.mfabric.link_choice import link_choice
from hwd.mfabric.loads import Sources, expert_demand, load_shares, top_k_accuracy, uniform_loads
from hwd.mfabric.nic_mapping import OpticalPort, nic_links
from hwd.mfabric.reconfigure_ocs import Links, Variant, reconfigure_ocs
from hwd.mfabric.traces import synthetic_trace
from hwd.mfabric.transition import fit_transition
from hwd_drivers.core.errors import ConfigError

NAN, INF = float("nan"), float("inf")
ONE_WAY = np.array([[0.0, 1.0], [0.0, 0.0]])
LAST = np.array([[1.0, 2, 3], [0, 0, 0], [2, 0, 0]])
PORTS = [[OpticalPort((0, 0), 0), OpticalPort((0, 1), 1)], [OpticalPort((1, 0), 0)]]


def demand(sent: Any, experts_per_gpu: int = 1, gpus_per_server: int = 2) -> object:
    return server_demand(sent, experts_per_gpu=experts_per_gpu, gpus_per_server=gpus_per_server)


def sources(total_bytes: float, last: Any) -> object:
    return expert_demand([1, 2, 3], total_bytes, sources=Sources.LAST, last=last)


def nics(links: Links) -> object:
    return nic_links(links, PORTS)


def trace(**changes: Any) -> object:
    return synthetic_trace(1, **({"iterations": 1, "layers": 1, "experts": 1} | changes))


def fit(**changes: Any) -> object:
    observed: dict[str, Any] = {"previous_loads": [[1, 2], [2, 1]], "loads": [[1, 2], [2, 1]], "weights": [1, 1]}
    return fit_transition(**(observed | changes))


def choice_without_a_way() -> object:
    capacity = Capacity(link_mbit_s=100.0, degrees=(1,) * 3, eps_mbit_s=(0.0,) * 3)
    return link_choice(["a", "b", "c"], np.ones((3, 3)), capacity, variant=Variant.SKIP, fold=Fold.SUM)


REFUSALS: list[tuple[Callable[[], object], str]] = [
    # what experts send
    (lambda: demand([[0, -1], [0, 0]]), r"demand of experts: \[0\]\[1\] is -1; bytes are finite, and at least 0"),
    (lambda: demand([[0, 0], [NAN, 0]]), r"\[1\]\[0\] is nan"),
    (lambda: demand([[0, 0], [INF, 0]]), r"\[1\]\[0\] is inf"),
    (lambda: demand([[0, 1, 2], [1, 0, 2]]), "has the shape 2 x 3, and has to be square"),
    (lambda: demand([1, 2]), "has the shape 2, and has to be square"),
    (lambda: demand(3), "has the shape of a single number"),
    (lambda: demand([["a"]]), "not a matrix of numbers"),
    (lambda: demand([[1, 2], [3]]), "not a matrix of numbers"),
    (lambda: demand([[0.0] * 3] * 3), r"3 experts cannot fill servers of 2 \(2 GPUs with 1 each\)"),
    (lambda: demand(np.zeros((0, 0))), "0 experts cannot fill servers of 2"),
    (lambda: demand([[0.0]], 0, 1), "has to be at least 1"),
    (lambda: demand([[0.0]], 1, -1), "has to be at least 1"),
    # loads
    (lambda: load_shares([1, NAN]), r"^loads: \[1\] is nan, and has to be finite and at least 0"),
    (lambda: load_shares([INF, 1]), r"\[0\] is inf"),
    (lambda: load_shares([1, 1, -2]), r"\[2\] is -2"),
    (lambda: load_shares([0, 0]), "no entry is above 0"),
    (lambda: load_shares([]), "no entry is above 0"),
    (lambda: load_shares([[1, 2]]), "has 2 dimensions, and has to be a vector"),
    (lambda: load_shares(3), "has 0 dimensions"),
    (lambda: load_shares(["a"]), "not a vector of numbers"),
    (lambda: load_shares([1j]), "not a vector of numbers"),
    (lambda: load_shares([1, 2], 3), "loads: has 2 entries, and has to have 3"),
    (lambda: top_k_accuracy([1, 2, 3], [1, 2], 1), "predicted loads: has 3 entries, and has to have 2"),
    (lambda: top_k_accuracy([1, 2, 3], [1, 2, 3], 0), "k: is 0, and has to be from 1 to the 3 experts"),
    (lambda: top_k_accuracy([1, 2, 3], [1, 2, 3], -1), "k: is -1, and has to be"),
    (lambda: top_k_accuracy([1, 2, 3], [1, 2, 3], 4), "k: is 4, and has to be"),
    (lambda: uniform_loads(0), "experts: no entry"),
    (lambda: sources(NAN, LAST), "total_bytes: is nan"),
    (lambda: sources(-1.0, LAST), "total_bytes: is -1, and has to be finite and at least 0"),
    (lambda: sources(1.0, None), "needs the last observed demand, and there is none"),
    (lambda: sources(1.0, np.zeros((3, 3))), "last demand, by source: no entry is above 0"),
    (lambda: sources(1.0, np.ones((2, 2))), "last demand, by source: has 2 entries, and has to have 3"),
    (lambda: sources(1.0, -LAST), r"last demand: \[0\]\[0\] is -1"),
    # traces, transitions and their predictions
    (lambda: trace(iterations=0), "iterations: is 0, and has to be at least 1"),
    (lambda: trace(layers=0), "layers: is 0"),
    (lambda: trace(experts=-1), "experts: is -1"),
    (lambda: trace(tokens=0), "tokens: is 0"),
    (lambda: trace(concentration=0.0), "concentration: is 0, and has to be finite and above 0"),
    (lambda: trace(drift=NAN), "drift: is nan, and has to be finite and at least 0"),
    (lambda: fit(previous_loads=[[1, 2], [1, NAN]]), r"previous loads of iteration 1: \[1\] is nan"),
    (lambda: fit(loads=[[0, 0], [1, 1]]), "^loads of iteration 0: no entry is above 0"),
    (lambda: fit(loads=[[1, 1]]), "loads of 1 iterations, and weights of 2"),
    (lambda: fit(loads=[[1, 1, 1]] * 2), "previous loads of 2 experts, and loads of 3"),
    (lambda: fit(loads=[[1, 1, 1], [1]]), "loads: not a matrix of numbers"),
    (lambda: fit(loads=3), "loads: not a matrix of numbers"),
    (lambda: fit(loads=[1, 1]), "loads of iteration 0: has 0 dimensions"),
    (lambda: fit(weights=[1, -1]), r"weights: \[1\] is -1"),
    (lambda: fit(weights=[0, 0]), "weights: no entry is above 0"),
    (lambda: Copilot(0), "experts: is 0, and has to be at least 1"),
    (lambda: Copilot(2, window=0), "window: is 0"),
    (lambda: Copilot(2, decay=0.0), "decay: is 0, and has to be above 0, and at most 1"),
    (lambda: Copilot(2, decay=NAN), "decay: is nan"),
    (lambda: Copilot(2).predict([1, 2, 3]), "previous loads: has 3 entries, and has to have 2"),
    (lambda: Copilot(2).predict([0, 0]), "previous loads: no entry is above 0"),
    # links
    (lambda: reconfigure_ocs(np.array([[0, -1], [0, 0]]), [2, 2]), r"demand: \[0\]\[1\] is -1"),
    (lambda: reconfigure_ocs(np.array([[0, NAN], [0, 0]]), [2, 2]), r"demand: \[0\]\[1\] is nan"),
    (
        lambda: reconfigure_ocs(np.array([[3, 1], [0, 0]]), [2, 2]),
        r"\[0\]\[0\] is not above the diagonal: fold it first",
    ),
    (lambda: reconfigure_ocs(np.array([[0, 1], [2, 0]]), [2, 2]), r"demand: \[1\]\[0\] is not above the diagonal"),
    (lambda: reconfigure_ocs(np.array([[0, 1, 2], [0, 0, 1]]), [2, 2]), "has the shape 2 x 3"),
    (lambda: reconfigure_ocs(np.zeros((2, 2)), [1]), "demand of 2 servers, and ports of 1"),
    (lambda: reconfigure_ocs(np.zeros((2, 2)), [1, -1]), "-1 is less than none"),
    (lambda: nics({(0, 1): 2}), "server 1: 2 links, and it has 1 optical NIC ports"),
    (lambda: nics({(0, 2): 1}), "links between servers 0 and 2: there are ports of 2, from 0 on"),
    (lambda: nics({(1, 0): 1}), "links between servers 1 and 0"),
    (choice_without_a_way, "no link, and server"),
]


def test_numbers_that_make_no_sense_are_refused_with_the_entry() -> None:
    for call, why in REFUSALS:
        with pytest.raises(ConfigError, match=why):
            call()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"link_mbit_s": 0.0}, "link_mbit_s: is 0, and has to be above 0"),
        ({"degrees": (1, -1)}, "degrees: is -1 at server 1"),
        ({"degrees": (1, 1, 1)}, "eps_mbit_s of 2 servers, and degrees of 3"),
        ({"eps_mbit_s": (1.0, NAN)}, "eps_mbit_s: is nan at server 1"),
        ({"degrees": (1,), "eps_mbit_s": (1.0,)}, "demand of 2 servers, and ports of 1"),
    ],
)
def test_capacity_that_does_not_fit_is_refused(changes: dict[str, Any], why: str) -> None:
    capacity = replace(Capacity(link_mbit_s=1.0, degrees=(1, 1), eps_mbit_s=(1.0, 1.0)), **changes)
    for what in (best_links, best_circuits_s, least_s, lambda sent, capacity: completion_s(sent, {}, capacity)):
        with pytest.raises(ConfigError, match=why):
            what(ONE_WAY, capacity)
