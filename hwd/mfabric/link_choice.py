"""The links of ReconfigureOCS for one demand, beside the best that any links could do, and a bound below all."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hwd.mfabric.completion import Capacity, best_circuits_s, best_links, completion_s, least_s
from hwd.mfabric.demand import Fold, folded
from hwd.mfabric.reconfigure_ocs import Variant, reconfigure_ocs
from hwd.model.demand import DemandLinks, HostLinks

BEST_HOSTS_MOST = 16
"""The integer program takes longer than anybody waits for beyond some tens of servers."""


def link_choice(
    hosts: Sequence[str], between: NDArray[np.float64], capacity: Capacity, *, variant: Variant, fold: Fold
) -> DemandLinks:
    """`between`: bytes, by who sends and who receives. Raises ConfigError where a pair has no way, or without scipy."""
    demand = folded(between, fold)
    links = reconfigure_ocs(demand, capacity.degrees, variant=variant)
    has_best = len(hosts) <= BEST_HOSTS_MOST
    circuits_s = best_circuits_s(demand, capacity)
    return DemandLinks(
        links=[HostLinks(one=hosts[one], other=hosts[other], count=count) for (one, other), count in links.items()],
        completion_s=completion_s(demand, links, capacity),
        best_s=best_links(demand, capacity)[1] if has_best else None,
        circuits_s=circuits_s if circuits_s < math.inf else None,
        bound_s=least_s(demand, capacity),
    )
