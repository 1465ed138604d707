"""The least loss of light behind a switch, to every receiver that it can reach. Ends with the same exits
share one search.
"""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count

from hwd.fabric.graph import Graph
from hwd_drivers.core.values import FibreEnd


@dataclass(frozen=True, slots=True, eq=False)
class Behind:
    """Receivers behind an end of a switch, with the least `loss_db_max` from there on, that of the switch included."""

    losses_db: Mapping[FibreEnd, float]


class LeastLosses:
    """Made once for a testbed; needs one search for each switch and side, not for each end."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._found: dict[object, Behind] = {}

    def behind(self, entry: FibreEnd, source: FibreEnd) -> Behind:
        """What light of `source` that enters a switch at `entry` could reach through free switches; the same object for
        entries with the same answer.
        """
        name = self._graph.alike(entry)
        if entry in self._graph.outs_alike(name) and any(
            (leg.end.owner, leg.end.port) != (source.owner, source.port) for leg in self._graph.legs[entry]
        ):
            # light does not turn back, and the device behind this end is another one
            return Behind(self._search(entry, back=False))
        if (found := self._found.get(name)) is None:
            found = self._found[name] = Behind(self._search(entry, back=True))
        return found

    def _search(self, first: FibreEnd, *, back: bool) -> Mapping[FibreEnd, float]:
        """Dijkstra over the switches; `back`: as if light that enters at `first` could leave there too.

        Entries of one name lead to the same ends, each except itself. So the nearest entry leaves at most one end to
        the next, and nothing to others.
        """
        graph, switches = self._graph, self._graph.testbed.switches
        losses: dict[FibreEnd, float] = {}
        left: dict[object, FibreEnd | None] = {}
        serial = count()
        heap = [(0.0, next(serial), first)]
        while heap:
            loss, _, entry = heapq.heappop(heap)
            loss += switches[entry.owner].capabilities.loss_db_max
            name = graph.alike(entry)
            outs: Iterable[FibreEnd] = graph.outs_alike(name)
            if name not in left:
                left[name] = None
                if entry in outs and not (back and entry == first):
                    left[name] = entry
                    outs = [out for out in outs if out != entry]
            elif (rest := left[name]) is not None and rest != entry:
                outs, left[name] = (rest,), None
            else:
                continue
            for leg in (leg for out in outs for leg in graph.legs[out]):
                passed = loss + leg.loss_db
                if leg.end.owner not in switches:
                    losses[leg.end] = min(passed, losses.get(leg.end, passed))
                elif left.get(graph.alike(leg.end), leg.end) is not None:
                    heapq.heappush(heap, (passed, next(serial), leg.end))
        return losses
