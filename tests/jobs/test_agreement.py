"""Ranks that ask for what their group cannot make."""

from functools import partial
from pathlib import Path

import pytest

from hwd.jobs import agreement
from hwd.jobs.agreement import Agreement, DisagreeError
from hwd.model.plane import CommunicationGroup
from hwd_agents.wire import Operation, OperationKind

from ..answers import check_golden

GROUPS = {"dp": CommunicationGroup(name="dp", ranks=(0, 1)), "pp": CommunicationGroup(name="pp", ranks=(1, 2))}


def operation(kind: str = "all-reduce", *, group: str = "dp", index: int = 0, peer: int | None = None) -> Operation:
    return Operation(group=group, kind=OperationKind(kind), index=index, peer=peer)


def test_ranks_without_a_part_in_it_disagree_and_parts_are_those_of_an_all_to_all_of_its_group() -> None:
    of_dp = partial(Operation, group="dp", index=0)
    said = ""
    for rank, asked in (
        (2, operation()),
        (0, operation(group="tp")),
        (0, operation("send", peer=2)),
        (0, operation("send", peer=0)),
        (0, of_dp(kind=OperationKind.ALL_TO_ALL, size_bytes=10, parts=(4, 6))),
        (0, of_dp(kind=OperationKind.ALL_TO_ALL, size_bytes=10, parts=(4, 5, 1))),
        (0, of_dp(kind=OperationKind.ALL_TO_ALL, size_bytes=11, parts=(4, 6))),
        (0, of_dp(kind=OperationKind.ALL_GATHER, size_bytes=10, parts=(4, 6))),
    ):
        said += f"rank {rank}, {asked}, {asked.size_bytes} bytes, parts {asked.parts}: "
        try:
            Agreement(GROUPS).check(rank, asked)
            said += "agreed\n"
        except DisagreeError as error:
            said += f"{error}\n"
    check_golden(Path(__file__).with_name("agreement.txt"), said)


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
