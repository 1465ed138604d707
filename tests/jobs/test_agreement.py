"""Ranks that ask for what their group cannot make."""

from contextlib import nullcontext

import pytest

from hwd.jobs import agreement
from hwd.jobs.agreement import Agreement, DisagreeError
from hwd.model.plane import CommunicationGroup
from hwd_agents.wire import Operation, OperationKind

GROUPS = {"dp": CommunicationGroup(name="dp", ranks=(0, 1)), "pp": CommunicationGroup(name="pp", ranks=(1, 2))}


def operation(kind: str = "all-reduce", *, group: str = "dp", index: int = 0, peer: int | None = None) -> Operation:
    return Operation(group=group, kind=OperationKind(kind), index=index, peer=peer)


@pytest.mark.parametrize(
    ("rank", "asked", "why"),
    [
        (2, operation(), "all-reduce 0 of dp: it is not in this group"),
        (0, operation(group="tp"), "all-reduce 0 of tp: it is not in this group"),
        (0, operation("send", peer=2), "send 0 of dp to rank 2: rank 2 is no peer of it there"),
        (0, operation("send", peer=0), "send 0 of dp to rank 0: rank 0 is no peer of it there"),
    ],
)
def test_rank_without_a_part_in_it_disagrees(rank: int, asked: Operation, why: str) -> None:
    with pytest.raises(DisagreeError, match=why):
        Agreement(GROUPS).check(rank, asked)


@pytest.mark.parametrize(
    ("kind", "size_bytes", "parts", "why"),
    [
        ("all-to-all", 10, (4, 6), ""),
        ("all-to-all", 10, (4, 5, 1), "it has 3 parts, and its group 2 ranks"),
        ("all-to-all", 11, (4, 6), "its parts are 10 bytes, and it says 11"),
        ("all-gather", 10, (4, 6), "only an all-to-all has parts"),
    ],
)
def test_parts_are_those_of_an_all_to_all_of_its_group(
    kind: str, size_bytes: int, parts: tuple[int, ...], why: str
) -> None:
    asked = Operation(group="dp", kind=OperationKind(kind), index=0, size_bytes=size_bytes, parts=parts)
    with pytest.raises(DisagreeError, match=why) if why else nullcontext():
        Agreement(GROUPS).check(0, asked)


def test_all_ranks_say_their_parts_or_none_does() -> None:
    agreement = Agreement(GROUPS)
    kind = OperationKind.ALL_TO_ALL
    agreement.check(0, Operation(group="dp", kind=kind, index=0, size_bytes=10, parts=(4, 6)))
    with pytest.raises(DisagreeError, match="some of its ranks say their parts, and others do not"):
        agreement.check(1, Operation(group="dp", kind=kind, index=0, size_bytes=10))


def test_all_ranks_of_a_group_come_with_one_kind_to_one_index_and_the_two_of_a_pair_with_both() -> None:
    agreement = Agreement(GROUPS)
    agreement.check(0, operation())
    agreement.check(1, operation())
    agreement.check(1, operation("broadcast", group="pp"))
    agreement.check(1, operation("broadcast", index=1))
    agreement.check(0, operation("send", index=2, peer=1))
    agreement.check(1, operation("receive", index=2, peer=0))
    with pytest.raises(DisagreeError, match="it comes with all-reduce 1 of dp, and others with broadcast 1 of dp"):
        agreement.check(0, operation(index=1))


def test_only_the_latest_operations_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "KEPT", 2)
    found = Agreement(GROUPS)
    for index in range(5):
        found.check(0, operation(index=index))
    found.check(1, operation("broadcast", index=0))
    with pytest.raises(DisagreeError):
        found.check(1, operation("broadcast", index=4))
