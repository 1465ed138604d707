"""ReconfigureOCS: which servers get how many optical links (mFabric, section 5.2, algorithm 1).

The listing contradicts itself in three places, which are mended here:

- Line 4 reads the demand D that line 5 makes: D comes first.
- Line 14 divides the lower half of D, which is empty once TX and RX are folded: one time stands for both directions.
- Nothing says which pair is first where several take the same time, as all do that have no link yet, and so no end:
  the one with the most demand, then the one with the smaller numbers.

As printed it stops at the first bottleneck pair that has no NIC left (`Variant.STOP`), which leaves many ports dark.
`Variant.SKIP` goes on with the next pair that can still get a link, and is the default: section 7.3 counts 24 circuits
over 8 servers with 6 NICs each, which is all of them.
"""

import heapq
from collections.abc import Iterator, Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from hwd.mfabric.demand import checked_fold
from hwd_drivers.core.errors import ConfigError


class Variant(StrEnum):
    SKIP = "skip"
    STOP = "stop"


Links = dict[tuple[int, int], int]
"""How many links each pair of servers has, the smaller number first; pairs without one are not there."""


def reconfigure_ocs(demand: NDArray[np.float64], degrees: Sequence[int], *, variant: Variant = Variant.SKIP) -> Links:
    """`demand`: N x N, folded, above the diagonal. `degrees`: the optical NICs of each server.

    The pair that would take longest gets the next link, each time. Raises ConfigError where the two do not fit.
    """
    demand, variant = checked_fold(demand, len(degrees)), Variant(variant)
    if any(one < 0 for one in degrees):
        raise ConfigError(f"optical NICs: {min(degrees)} is less than none")
    free = [*degrees]
    able = sum(one > 0 for one in free)
    links: Links = {}
    linked: list[tuple[float, float, int, int]] = []
    for one, other, size in _by_demand(demand, free, drops_dead=variant is Variant.SKIP):
        # without a link, and so without an end: each comes before all that have one
        if free[one] and free[other]:
            links[one, other] = 1
            linked.append((-size, -size, one, other))
            for server in (one, other):
                free[server] -= 1
                able -= not free[server]
        elif variant is Variant.STOP:
            return links
        if able < 2:
            return links
    heapq.heapify(linked)  # by time, the longest first, then by demand, then by numbers
    while linked:
        _, negated, one, other = linked[0]
        if free[one] and free[other]:
            links[one, other] += 1
            free[one] -= 1
            free[other] -= 1
            heapq.heapreplace(linked, (negated / links[one, other], negated, one, other))
        elif variant is Variant.STOP:
            return links
        else:
            heapq.heappop(linked)
    return links


def _by_demand(
    demand: NDArray[np.float64], free: Sequence[int], *, drops_dead: bool
) -> Iterator[tuple[int, int, float]]:
    """Pairs with their demand, the largest first, then by numbers. `drops_dead`: some of those without a port are left
    out. In parts: of the first pairs most get a link, and then few of the others can.
    """
    rows, columns = np.nonzero(demand)
    sizes = demand[rows, columns]
    part = 4 * demand.shape[0]
    while len(sizes):
        least = np.partition(sizes, -part)[-part] if len(sizes) > part else 0.0
        now = sizes >= least  # with all that are as large as the last one
        order = np.argsort(-sizes[now], kind="stable")  # rows and columns ascend already
        found = (some[now][order].tolist() for some in (rows, columns, sizes))
        yield from zip(*found, strict=True)
        later = ~now
        if drops_dead:
            has_port = np.array(free) > 0
            later &= has_port[rows] & has_port[columns]
        rows, columns, sizes = rows[later], columns[later], sizes[later]
