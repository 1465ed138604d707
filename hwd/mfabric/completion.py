"""Completion time: how long an all-to-all takes over optical links and an electrical network, the least that any links
could make of it, and a lower bound.

A pair of servers with links sends all over them; one without sends over the EPS ports of both (mFabric, section 5.3).
Demand is in bytes, folded. With `Fold.SUM` times are as if both directions went one after the other, with `Fold.MAX`
those of duplex links; at EPS ports the pairs of a server are added, so that with MAX duplex ports may need less.
"""

import math
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from hwd.mfabric.demand import checked_fold
from hwd.mfabric.reconfigure_ocs import Links, reconfigure_ocs
from hwd.model.plural import plural
from hwd_drivers.core.errors import ConfigError, FailedError

_BITS = 8e-6
"""Megabits in a byte."""
NOTHING = 1e-9
"""A share of the least time that the solver takes for none."""
NEVER = 1e9
"""So many times the least time nothing takes."""


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """The capacity of the network between servers. `link_mbit_s`: of one optical link, above 0. `degrees`: optical NIC
    ports, `eps_mbit_s`: of all EPS ports, by server.
    """

    link_mbit_s: float
    degrees: tuple[int, ...]
    eps_mbit_s: tuple[float, ...]

    def check(self, demand: NDArray[np.float64]) -> NDArray[np.float64]:
        """The demand, where both fit together. Raises ConfigError."""
        if not 0 < self.link_mbit_s < math.inf:
            raise ConfigError(f"link_mbit_s: is {self.link_mbit_s:g}, and has to be above 0")
        if len(self.eps_mbit_s) != len(self.degrees):
            raise ConfigError(
                f"eps_mbit_s of {plural(len(self.eps_mbit_s), 'server')}, and degrees of {len(self.degrees)}"
            )
        for name, values in (("degrees", self.degrees), ("eps_mbit_s", self.eps_mbit_s)):
            for server, value in enumerate(values):
                if not 0 <= value < math.inf:
                    raise ConfigError(f"{name}: is {value:g} at server {server}, and has to be at least 0")
        return checked_fold(demand, len(self.degrees))


def _scipy() -> tuple[Any, Any]:
    """scipy.optimize and scipy.sparse. Raises ConfigError where they are not installed."""
    try:
        from scipy import optimize, sparse
    except ImportError as error:
        raise ConfigError(
            "the least completion time needs scipy. Install it with: pip install '.[mfabric]' in the folder of hwd"
        ) from error
    return optimize, sparse


def completion_s(demand: NDArray[np.float64], links: Links, capacity: Capacity) -> float:
    """Seconds until the last pair has sent. Raises ConfigError where a pair has neither links nor EPS, and where a
    server has more links than ports.
    """
    demand = capacity.check(demand)
    for server, degree in enumerate(capacity.degrees):
        if (used := sum(count for pair, count in links.items() if server in pair)) > degree:
            raise ConfigError(f"server {server}: {plural(used, 'link')}, and it has {degree} optical NIC ports")
    over_eps = [0.0] * len(capacity.degrees)
    longest_s = 0.0
    for one, other, size in _pairs(demand):
        if count := links.get((one, other), 0):
            longest_s = max(longest_s, size * _BITS / (count * capacity.link_mbit_s))
            continue
        for server in (one, other):
            if not capacity.eps_mbit_s[server]:
                raise ConfigError(f"servers {one} and {other}: no link, and server {server} has no EPS port")
            over_eps[server] += size * _BITS
    times_s = (size / rate for size, rate in zip(over_eps, capacity.eps_mbit_s, strict=True) if size)
    return max(longest_s, max(times_s, default=0.0))


def best_links(demand: NDArray[np.float64], capacity: Capacity) -> tuple[Links, float]:
    """The links with the least completion time to two millionths, and their time in seconds, by mixed-integer
    programming (HiGHS).

    For some tens of servers: it takes longer than any proportion beyond that. Raises ConfigError where a pair can have
    neither a link nor EPS.
    """
    demand = capacity.check(demand)
    if not demand.any():
        return {}, 0.0
    within_s = _reached_s(demand, capacity)
    while True:  # the solver is exact to a millionth of what it is given
        links = _best_within(within_s, demand, capacity)
        if (time_s := completion_s(demand, links, capacity)) > within_s / 2:
            return links, time_s
        within_s = time_s


def _best_within(unit_s: float, demand: NDArray[np.float64], capacity: Capacity) -> Links:
    """The links with the least completion time, to a millionth of a time that is known to be enough."""
    optimize, sparse = _scipy()
    pairs = [*_pairs(demand)]
    choices = [  # pair, number of its links (0: over EPS), and the seconds that it takes for that
        (index, count, time_s)
        for index, (one, other, size) in enumerate(pairs)
        for count in range(min(capacity.degrees[one], capacity.degrees[other]) + 1)
        if (time_s := _time_s(size, one, other, count, capacity)) <= unit_s * (1 + 1e-9)
    ]
    servers = len(capacity.degrees)
    time = len(choices)  # the last variable
    rows = sparse.lil_array((2 * len(pairs) + 2 * servers, time + 1))
    low, high = np.full(rows.shape[0], -np.inf), np.zeros(rows.shape[0])
    low[: len(pairs)] = high[: len(pairs)] = 1.0  # each pair has one choice
    ports, eps = 2 * len(pairs), 2 * len(pairs) + servers
    for column, (index, count, time_s) in enumerate(choices):
        one, other, size = pairs[index]
        rows[index, column] = 1.0
        if count:
            rows[len(pairs) + index, column] = time_s / unit_s
        for server in (one, other):
            rows[ports + server, column] = count
            if not count:
                rows[eps + server, column] = size * _BITS / capacity.eps_mbit_s[server] / unit_s
    for index in range(len(pairs)):
        rows[len(pairs) + index, time] = -1.0
    for server, degree in enumerate(capacity.degrees):
        high[ports + server] = degree
        rows[eps + server, time] = -1.0
    cost = np.zeros(time + 1)
    cost[time] = 1.0
    found = optimize.milp(
        cost,
        constraints=optimize.LinearConstraint(rows.tocsr(), low, high),
        integrality=np.append(np.ones(time), 0),
        bounds=optimize.Bounds(0, np.append(np.ones(time), np.inf)),
        options={"mip_rel_gap": 0.0},
    )
    if found.status == 2 and unit_s == _longest_s(demand, capacity):  # infeasible
        without = [server for server, rate in enumerate(capacity.eps_mbit_s) if not rate]
        raise ConfigError(f"not every pair can have a link, and servers {without} have no EPS port for the others")
    if found.x is None:
        raise FailedError(f"best links: {found.message}")
    return {
        (pairs[index][0], pairs[index][1]): count
        for taken, (index, count, _) in zip(found.x, choices, strict=False)
        if count and taken > 0.5
    }


def best_circuits_s(demand: NDArray[np.float64], capacity: Capacity) -> float:
    """The least completion time over links alone, in seconds, in closed form: the least T for which each server has
    ports enough, sum over its peers of ceil(D / (T rate)). Infinite where a server has more demanding peers than ports.
    """
    demand = capacity.check(demand)
    pairs = [*_pairs(demand)]
    if not pairs:
        return 0.0
    if not any(capacity.degrees):
        return math.inf
    sizes = np.array([size for *_, size in pairs]) * _BITS / capacity.link_mbit_s
    ends = np.array([[one, other] for one, other, _ in pairs])
    degrees = np.array(capacity.degrees)

    def fits(time_s: float) -> bool:
        needed = np.zeros(len(degrees))
        np.add.at(needed, ends, np.ceil(sizes / time_s * (1 - 1e-12))[:, None])
        return bool((needed <= degrees).all())

    times_s = np.unique(np.concatenate([sizes / count for count in range(1, int(degrees.max()) + 1)]))
    first, last = 0, len(times_s)
    while first < last:
        middle = (first + last) // 2
        if fits(times_s[middle]):
            last = middle
        else:
            first = middle + 1
    return float(times_s[first]) if first < len(times_s) else math.inf


def least_s(demand: NDArray[np.float64], capacity: Capacity) -> float:
    """A lower bound of the completion time in seconds, to a millionth, by linear programming (HiGHS): links may be
    divided, and what a pair sends may go over both networks at once. Infinite where a pair can send over neither.
    """
    optimize, sparse = _scipy()
    demand = capacity.check(demand)
    pairs = [*_pairs(demand)]
    if not pairs:
        return 0.0
    optical, eps = (capacity.link_mbit_s * np.array(capacity.degrees, float)), np.array(capacity.eps_mbit_s, float)
    sums, rates = (demand + demand.T).sum(axis=1) * _BITS, optical + eps
    busy = np.flatnonzero(sums)
    if (rates[busy] == 0).any():
        return math.inf
    unit_s = float((sums[busy] / rates[busy]).max())  # the least time, were both networks one
    servers = len(capacity.degrees)
    # A row for each server and network: what goes over it takes no longer than the time, which is the last variable.
    # All is in units of the least time, so that what is too small for the solver does not matter either.
    entries: list[tuple[int, int, float]] = []
    least = np.zeros(2 * servers)
    divided = 0
    for one, other, size in pairs:
        ends = [one, other]
        if not (optical[ends].all() or eps[ends].all()):
            return math.inf
        by_link_s, by_eps_s = (
            np.divide(size * _BITS / unit_s, rate[ends], out=np.zeros(2), where=rate[ends] > 0)
            for rate in (optical, eps)
        )
        if not eps[ends].all():
            np.add.at(least, ends, by_link_s)
        elif not optical[ends].all() or by_link_s.max() > NEVER:
            np.add.at(least, [servers + one, servers + other], by_eps_s)
        else:
            for server, link_s, eps_s in zip(ends, by_link_s, by_eps_s, strict=True):
                entries += [(server, divided, link_s), (servers + server, divided, -min(eps_s, NEVER))]
                least[servers + server] += min(eps_s, NEVER)
            divided += 1
    rows = sparse.lil_array((2 * servers, divided + 1))
    for row, column, share in entries:
        rows[row, column] = share if abs(share) > NOTHING else 0.0
    rows[:, divided] = -1.0
    cost = np.zeros(divided + 1)
    cost[divided] = 1.0
    found = optimize.milp(  # without integers: a linear program
        cost,
        constraints=optimize.LinearConstraint(rows.tocsr(), np.full(2 * servers, -np.inf), -least),
        bounds=optimize.Bounds(0, np.append(np.ones(divided), np.inf)),
    )
    if found.x is None:  # there is a solution: a time that is long enough
        raise FailedError(f"lower bound: {found.message}")
    return max(float(found.x[divided]), 1.0) * unit_s


def _reached_s(demand: NDArray[np.float64], capacity: Capacity) -> float:
    """A time that some links reach; where none are known that do, more than any pair could take."""
    try:
        return completion_s(demand, reconfigure_ocs(demand, capacity.degrees), capacity)
    except ConfigError:
        return _longest_s(demand, capacity)


def _longest_s(demand: NDArray[np.float64], capacity: Capacity) -> float:
    """What all demand would take one after the other, over the slowest rate that there is."""
    rates = [capacity.link_mbit_s, *(rate for rate in capacity.eps_mbit_s if rate)]
    return float(demand.sum()) * _BITS / min(rates)


def _time_s(size: float, one: int, other: int, count: int, capacity: Capacity) -> float:
    """How long one pair takes by itself over so many links, over EPS for 0; infinite where it cannot."""
    rate = count * capacity.link_mbit_s if count else min(capacity.eps_mbit_s[one], capacity.eps_mbit_s[other])
    return size * _BITS / rate if rate else math.inf


def _pairs(demand: NDArray[np.float64]) -> Iterator[tuple[int, int, float]]:
    """Both servers and what they send each other, where that is anything."""
    for one, other in np.argwhere(demand).tolist():
        yield one, other, float(demand[one, other])
