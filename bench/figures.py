"""Sweeps behind figures of the mFabric paper that need no rack: its algorithms on drawn demand, and its prices.

    make figures                # tables in Markdown, in half a minute

Demand is drawn from synthetic traces (`hwd.mfabric.traces`), since the paper's are not published.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median, quantiles
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.progress import Progress
from hwd.mfabric.completion import Capacity, best_links, completion_s, least_s
from hwd.mfabric.copilot import Copilot
from hwd.mfabric.demand import folded, server_demand
from hwd.mfabric.loads import Sources, expert_demand, top_k_accuracy, unchanged_loads, uniform_loads
from hwd.mfabric.reconfigure_ocs import Variant, reconfigure_ocs
from hwd.mfabric.traces import synthetic_trace

Row = tuple[str, ...]

RATE_MBIT_S: Final = 100_000.0
SERVERS: Final = 8
"""The servers of a region: 64 GPUs, with an expert each."""
GPUS: Final = 8
NICS: Final = 8
DRAWS: Final = 30
TOKEN_BYTES: Final = 8192
"""4096 numbers of two bytes."""
ITERATIONS, WARM_UP = 40, 10
PRICES: Final = {
    100: (99, 659, 187, 520),
    200: (239, 1079, 374, 520),
    400: (659, 1499, 1090, 520),
    800: (1399, 2248, 1400, 520),
}
"""By Gbit/s in dollars: a transceiver, a NIC, a port of a packet switch, a port of an OCS (Table 4)."""
EPS_TRANSCEIVERS, EPS_PORTS = 6, 5
"""The parts that a NIC needs on a fat tree of three layers."""
PAPER_RATIO: Final = {100: "", 200: "", 400: "2.3", 800: ""}
"""Section 7.2; over all rates 1.9 on average."""


def optical_degree(progress: Progress) -> Iterator[Row]:
    """Figure 17 for one all-to-all: so many of the 8 NICs of a server are optical, the others on packet switches.
    Beside it the links with the least time, and as many NICs as the same price buys, all on packet switches.
    """
    yield "optical NICs", "ReconfigureOCS", "least time", "lower bound", "packet switches alone, same price"
    demands = [*_demands()]
    eps, ocs = _nic_prices(100)
    for degree in range(1, NICS):
        progress.say(f"optical degree {degree}")
        capacity = _capacity(degree, NICS - degree)
        ours, least, bound, electrical = list[float](), list[float](), list[float](), list[float]()
        same_price = _capacity(0, (degree * ocs + (NICS - degree) * eps) / eps)
        for demand in demands:
            ours.append(completion_s(demand, reconfigure_ocs(demand, capacity.degrees), capacity) * 1e3)
            least.append(best_links(demand, capacity)[1] * 1e3)
            bound.append(least_s(demand, capacity) * 1e3)
            electrical.append(completion_s(demand, {}, same_price) * 1e3)
        yield str(degree), *(_spread(some, "ms") for some in (ours, least, bound, electrical))


def dark_ports(progress: Progress) -> Iterator[Row]:
    """What the listing leaves dark where it stops as printed, and where it goes on."""
    yield "servers", "dark with stop", "dark with skip"
    for servers in (8, 16, 32, 64):
        progress.say(f"dark ports of {servers} servers")
        draws = np.random.default_rng(servers)
        shares: dict[Variant, list[float]] = {variant: [] for variant in (Variant.STOP, Variant.SKIP)}
        for _ in range(DRAWS):
            demand = folded(draws.lognormal(size=(servers, servers)) * (1 - np.eye(servers)))
            for variant, found in shares.items():
                links = reconfigure_ocs(demand, [6] * servers, variant=variant)
                found.append(100 * (1 - 2 * sum(links.values()) / (6 * servers)))
        yield str(servers), *(_spread(some, "%") for some in shares.values())


def accuracy(progress: Progress) -> Iterator[Row]:
    """Figure 21 on synthetic traces: the share of the K busiest experts of a layer that are among the K predicted."""
    yield "experts", "K", "Copilot", "unchanged", "uniform"
    for experts in (8, 16, 64):
        progress.say(f"accuracy for {experts} experts")
        found: dict[int, dict[str, list[float]]] = {}
        for seed in range(5):
            trace = synthetic_trace(seed, iterations=ITERATIONS, layers=2, experts=experts).loads
            copilot = Copilot(experts)
            for number, (before, loads) in enumerate(trace):
                if number >= WARM_UP:
                    predicted = {
                        "Copilot": copilot.predict(before),
                        "unchanged": unchanged_loads(before),
                        "uniform": uniform_loads(experts),
                    }
                    for k in (1, experts // 4, experts // 2):
                        for name, one in predicted.items():
                            found.setdefault(k, {}).setdefault(name, []).append(100 * top_k_accuracy(one, loads, k))
                copilot.observe(before, loads)
        for k, by_name in found.items():
            yield str(experts), str(k), *(f"{np.mean(some):.0f} %" for some in by_name.values())


def costs(progress: Progress) -> Iterator[Row]:
    """Figure 14 for a GPU with one NIC: a fat tree of packet switches over mFabric with 2 of 8 NICs on one."""
    yield "Gbit/s", "fat tree", "mFabric", "ratio", "the paper says"
    progress.say("costs")
    for rate in PRICES:
        eps, ocs = _nic_prices(rate)
        ours = (2 * eps + 6 * ocs) / 8
        yield str(rate), f"{eps} $", f"{ours:.0f} $", f"{eps / ours:.2f}", PAPER_RATIO[rate]


def _demands() -> Iterator[NDArray[np.float64]]:
    """Folded, between the servers of a region, of drawn loads of its experts; who sends is drawn, too."""
    for seed in range(DRAWS):
        draws = np.random.default_rng(seed)
        loads = synthetic_trace(draws, iterations=1, layers=2, experts=SERVERS * GPUS).loads[0, 1]
        shares = draws.dirichlet(np.full(len(loads), 1.0), size=len(loads))
        sent = expert_demand(
            loads / loads.sum(), loads.sum() * TOKEN_BYTES * GPUS, sources=Sources.LAST, last=shares * loads
        )
        yield folded(server_demand(sent, experts_per_gpu=1, gpus_per_server=GPUS))


def _capacity(optical: int, electrical: float) -> Capacity:
    """The capacity of servers with so many NICs of each kind."""
    rates = (electrical * RATE_MBIT_S,) * SERVERS
    return Capacity(link_mbit_s=RATE_MBIT_S, degrees=(optical,) * SERVERS, eps_mbit_s=rates)


def _nic_prices(rate: int) -> tuple[int, int]:
    """The prices in dollars of a NIC with all that it needs: on a fat tree of three layers, and on an OCS."""
    transceiver, nic, eps_port, ocs_port = PRICES[rate]
    return nic + EPS_TRANSCEIVERS * transceiver + EPS_PORTS * eps_port, nic + transceiver + ocs_port


def _spread(values: Sequence[float], unit: str) -> str:
    low, _, high = quantiles(values, n=4)
    return f"{median(values):.3g} {unit} ({low:.3g} to {high:.3g})"


def _markdown(rows: Iterable[Row]) -> str:
    head, *others = rows
    return "\n".join(["| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *others)])


SWEEPS: Final[tuple[Callable[[Progress], Iterator[Row]], ...]] = (optical_degree, dark_ports, accuracy, costs)


def main() -> None:
    progress = Progress()
    for sweep in SWEEPS:
        rows = [*sweep(progress)]
        assert sweep.__doc__ is not None
        print("\n" + " ".join(sweep.__doc__.split()) + "\n\n" + _markdown(rows))


if __name__ == "__main__":
    main()
