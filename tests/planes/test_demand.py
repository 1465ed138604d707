"""The demand that a plane is told of, from what the ranks of its job announce."""

from typing import Any

from hwd.model.plane import CommunicationGroup, Demand, Intent, Job, Rank
from hwd.planes import AnnouncedDemand
from hwd_agents.wire import Operation, OperationKind

JOB = Job(
    id="k3v9a1xx",
    ranks=tuple(Rank(number=number, host=f"h{number // 2}", gpu=number % 2) for number in range(4)),
    groups={
        "all": CommunicationGroup(name="all", ranks=(0, 1, 2, 3)),
        "dp0": CommunicationGroup(name="dp0", ranks=(0, 2)),
    },
)


def between(
    *ranks: int, kind: OperationKind = OperationKind.ALL_TO_ALL, group: str = "all", **more: Any
) -> dict[tuple[str, str], float]:
    """What these ranks announce with an operation of 800 bytes."""
    demand = AnnouncedDemand(JOB, every_s=1.0)
    fields: dict[str, Any] = {"group": group, "kind": kind, "index": 0, "size_bytes": 800, **more}
    operation = Operation(**fields)
    for rank in ranks:
        demand.take(Intent(rank=rank, operation=operation), at_s=0.0)
    due = demand.due(at_s=1.0)
    return {} if due is None else {**due.bytes_between}


def test_each_rank_has_an_equal_part_for_each_other_one_on_another_host() -> None:
    for kind in (OperationKind.ALL_TO_ALL, OperationKind.ALL_GATHER, OperationKind.REDUCE_SCATTER):
        assert between(0, kind=kind) == {("h0", "h1"): 400.0}
        assert between(0, 1, 2, 3, kind=kind) == {("h0", "h1"): 800.0, ("h1", "h0"): 800.0}
    assert between(0, 2, kind=OperationKind.ALL_REDUCE, group="dp0") == {("h0", "h1"): 800.0, ("h1", "h0"): 800.0}


def test_pair_counts_what_its_sender_sends_and_not_twice() -> None:
    assert between(1, kind=OperationKind.SEND, peer=3) == {("h0", "h1"): 800.0}
    assert between(3, kind=OperationKind.RECEIVE, peer=1) == {}
    assert between(0, kind=OperationKind.SEND, peer=1) == {}, "both are on one host"


def test_what_is_not_known_counts_nothing() -> None:
    for kind in (OperationKind.BROADCAST, OperationKind.REDUCE, OperationKind.BARRIER):
        assert between(0, 1, 2, 3, kind=kind) == {}


def test_each_period_tells_what_came_in_it() -> None:
    demand = AnnouncedDemand(JOB, every_s=1.0)
    operation = Operation(group="dp0", kind=OperationKind.ALL_TO_ALL, index=0, size_bytes=10)
    told = Demand(bytes_between={("h0", "h1"): 5.0})
    demand.take(Intent(rank=0, operation=operation), at_s=0.2)
    assert demand.due(at_s=0.9) is None
    assert demand.due(at_s=1.5) == told
    demand.take(told, at_s=1.5)
    assert demand.due(at_s=9.0) is None, "nobody announced anything"
    demand.take(Intent(rank=0, operation=operation), at_s=9.0)
    assert demand.due(at_s=9.0) == told


def test_parts_that_an_all_to_all_says_are_counted_as_they_are() -> None:
    assert between(1, size_bytes=18, parts=(1, 2, 5, 10)) == {("h0", "h1"): 15.0}
