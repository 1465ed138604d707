"""Pairs of NIC ports whose light can never meet its loss budget, whatever the switches do."""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hwd.fabric.graph import Graph, Leg
from hwd.fabric.losses import Behind, LeastLosses
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Module, NicPort
from hwd_drivers.core.values import FibreEnd, Side

PAIRS_NAMED = 4
ROUNDING_DB = 1e-9
"""Losses are sums: an excess below this is a rounding error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverBudget:
    """Ports that `source` could be joined to, but for the loss: the first of them by name, and how many more there are.

    The loss and the budget are those of the first.
    """

    source: NicPortId
    targets: tuple[NicPortId, ...]
    more: int
    loss_db_max: float
    budget_db: float

    def __str__(self) -> str:
        names = ", ".join(self.targets) + (f" and {self.more} more" if self.more else "")
        return (
            f"{self.source} can never meet its loss budget with {names}: the way to {self.targets[0]} loses up to "
            f"{self.loss_db_max:.1f} dB, the budget is {self.budget_db:.1f} dB; such links will be refused"
        )


def over_budget(graph: Graph) -> tuple[OverBudget, ...]:
    """One entry for each port that has such pairs."""
    search = _Search(graph)
    return tuple(found for port in graph.testbed.ports() if (found := search.of_source(port)))


@dataclass(frozen=True, slots=True, eq=False)
class _Over:
    """Ports over the budget of one kind of transmitter, by the loss on the way to them; `first` has the
    first ones by name.
    """

    losses_db: Mapping[NicPortId, tuple[float, float]]
    first: tuple[NicPortId, ...]

    @classmethod
    def of(cls, losses_db: Mapping[NicPortId, tuple[float, float]]) -> "_Over":
        # one may be the transmitter's own port
        named = heapq.nsmallest(PAIRS_NAMED + 1, losses_db, key=NicPortId.sort_key)
        return cls(losses_db, tuple(named))


NONE_OVER = _Over({}, ())


class _Search:
    """Searches once for all transmitters that differ in their switch end only."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._least = LeastLosses(graph)
        self._receivers = {end: port for port in graph.testbed.ports() for end in port.ends(Side.RX)}
        self._needed: dict[tuple[Behind, Module, int], float] = {}
        self._over: dict[tuple[Behind, float, Module, int], _Over] = {}

    def of_source(self, source: NicPort) -> OverBudget | None:
        found = dict.fromkeys(self._of_end(source, start) for start in source.ends(Side.TX))
        over = next(iter(found))
        if len(found) > 1:  # lanes differ: a pair is over the budget where its worst lane is
            worst: dict[NicPortId, tuple[float, float]] = {}
            for id, pair in (item for one in found for item in one.losses_db.items()):
                worst[id] = max(worst.get(id, pair), pair)
            over = _Over.of(worst)
        count = len(over.losses_db) - (source.id in over.losses_db)
        if not count:
            return None
        targets = tuple(id for id in over.first if id != source.id)[:PAIRS_NAMED]
        loss, budget = over.losses_db[targets[0]]
        return OverBudget(
            source=source.id, targets=targets, more=count - len(targets), loss_db_max=loss, budget_db=budget
        )

    def _of_end(self, source: NicPort, start: FibreEnd) -> _Over:
        legs = self._graph.legs.get(start, ())
        if len(legs) == 1 and legs[0].end.owner in self._graph.testbed.switches:
            behind, loss = self._least.behind(legs[0].end, start), legs[0].loss_db
            if source.module.tx_min_dbm - loss + ROUNDING_DB >= self._needed_dbm(behind, source, start):
                return NONE_OVER
            key = (behind, loss, source.module, start.lane)
            if (over := self._over.get(key)) is None:
                over = self._over[key] = self._judge(source, start, _farther(behind, loss))
            return over
        return self._judge(source, start, self._by_several(legs, start))

    def _needed_dbm(self, behind: Behind, source: NicPort, start: FibreEnd) -> float:
        """The power at the switch that is enough for all receivers behind it that fit."""
        key = (behind, source.module, start.lane)
        if (needed := self._needed.get(key)) is None:
            all_of_them = (
                loss + target.module.rx_min_dbm for target, loss in self._fitting(source, start, behind.losses_db)
            )
            needed = self._needed[key] = max(all_of_them, default=float("-inf"))
        return needed

    def _by_several(self, legs: Iterable[Leg], start: FibreEnd) -> dict[FibreEnd, float]:
        """Ports that a transmitter reaches whose light is split, or goes to receivers without a switch."""
        least: dict[FibreEnd, float] = {}
        for leg in legs:
            ways = {leg.end: leg.loss_db}
            if leg.end.owner in self._graph.testbed.switches:
                ways = _farther(self._least.behind(leg.end, start), leg.loss_db)
            for end, loss in ways.items():
                least[end] = min(loss, least.get(end, loss))
        return least

    def _judge(self, source: NicPort, start: FibreEnd, losses_db: Mapping[FibreEnd, float]) -> _Over:
        over: dict[NicPortId, tuple[float, float]] = {}
        for target, loss in self._fitting(source, start, losses_db):
            budget = source.module.tx_min_dbm - target.module.rx_min_dbm
            if loss > budget + ROUNDING_DB:
                over[target.id] = (loss, budget)
        return _Over.of(over)

    def _fitting(
        self, source: NicPort, start: FibreEnd, losses_db: Mapping[FibreEnd, float]
    ) -> Iterator[tuple[NicPort, float]]:
        """Ports whose receivers fit this light."""
        for end, loss in losses_db.items():
            target = self._receivers.get(end)
            if target is not None and end.lane == start.lane and fits(source.module, target.module):
                yield target, loss


def _farther(behind: Behind, loss_db: float) -> dict[FibreEnd, float]:
    return {end: loss_db + loss for end, loss in behind.losses_db.items()}


def fits(one: Module, other: Module) -> bool:
    """Whether two modules have the same lanes on the same fibres; a receiver of one lane cannot use
    the light of four.
    """
    return one.lanes == other.lanes and one.parallel == other.parallel
