"""Pairs of NIC ports whose light could never meet its loss budget, whatever the switches do."""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from hwd.fabric.graph import Graph
from hwd.model.testbed import Module, NicPort, NicPortId, Testbed
from hwd_drivers.kit.values import FibreEnd, Side

PAIRS_NAMED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OverBudget:
    """Ports that `source` could be joined to, were it not for the loss on the way to them."""

    source: NicPortId
    targets: tuple[NicPortId, ...]
    loss_db_max: float
    budget_db: float

    def __str__(self) -> str:
        more = f" and {len(self.targets) - PAIRS_NAMED} more" if len(self.targets) > PAIRS_NAMED else ""
        names = ", ".join(map(str, self.targets[:PAIRS_NAMED]))
        return (
            f"{self.source} can never meet its loss budget with {names}{more}: the way to {self.targets[0]} loses up to "
            f"{self.loss_db_max:.1f} dB, the budget is {self.budget_db:.1f} dB; such links will be refused"
        )


def over_budget(testbed: Testbed) -> tuple[OverBudget, ...]:
    """One entry for each port that has such pairs; the loss and the budget are those of the first of them."""
    graph = Graph(testbed)
    ports = {end: port for port in testbed.ports() for end in port.ends(Side.RX)}
    return tuple(found for port in testbed.ports() if (found := _of_source(graph, port, ports)))


def _of_source(graph: Graph, source: NicPort, receivers: Mapping[FibreEnd, NicPort]) -> OverBudget | None:
    worst: dict[NicPortId, tuple[float, float]] = {}
    for start in source.ends(Side.TX):
        for end, loss in least_losses(graph, start):
            target = receivers.get(end)
            if (
                target is None
                or target.id == source.id
                or end.lane != start.lane
                or not fits(source.module, target.module)
            ):
                continue
            budget = source.module.tx_min_dbm - target.module.rx_min_dbm
            if loss > budget:
                worst[target.id] = max(worst.get(target.id, (loss, budget)), (loss, budget))
    if not worst:
        return None
    loss, budget = next(iter(worst.values()))
    return OverBudget(
        source=source.id, targets=tuple(sorted(worst, key=NicPortId.sort_key)), loss_db_max=loss, budget_db=budget
    )


def least_losses(graph: Graph, source: FibreEnd) -> Iterator[tuple[FibreEnd, float]]:
    """Every receiver that light of this transmitter could reach through free switches, with the least `loss_db_max`, nearest first."""
    switches = graph.testbed.switches
    serial = count()
    heap = [(leg.loss_db, next(serial), leg.end) for leg in graph.legs.get(source, ())]
    heapq.heapify(heap)
    seen: set[FibreEnd] = set()
    while heap:
        loss, _, end = heapq.heappop(heap)
        if end in seen:
            continue
        seen.add(end)
        switch = switches.get(end.owner)
        if switch is None:
            yield end, loss
            continue
        for out in graph.outs_of(end):
            for leg in graph.legs[out]:
                if leg.end not in seen:
                    passed = loss + switch.capabilities.loss_db_max + leg.loss_db
                    heapq.heappush(heap, (passed, next(serial), leg.end))


def fits(one: Module, other: Module) -> bool:
    """Whether two modules have the same lanes on the same fibres; light of four lanes is no use to a receiver of one."""
    return one.lanes == other.lanes and one.parallel == other.parallel
