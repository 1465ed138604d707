"""Remarks: what is no failure and is reported all the same; failures of several switches are one line."""

from collections.abc import Mapping

import pytest

from hwd.reconfigure.apply.remarks import read_back_remarks
from hwd.reconfigure.apply.switches import raise_joined
from hwd_drivers.core.errors import DeviceError, LinkError
from hwd_drivers.core.values import Crossconnect, CrossconnectState
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves


def pairs(text: str) -> tuple[Crossconnect, ...]:
    return tuple(map(Crossconnect.parse, text.split()))


def moves(*, add: str = "", keep: str = "", before: str = "", lasting: str = "") -> SwitchMoves:
    return SwitchMoves(
        switch="ocs1", remove=(), add=pairs(add), keep=pairs(keep), before=pairs(before), lasting=pairs(lasting)
    )


def states(text: str, state: CrossconnectState = CrossconnectState.TUNED) -> Mapping[Crossconnect, CrossconnectState]:
    return dict.fromkeys(pairs(text), state)


@pytest.mark.parametrize(
    ("mode", "others", "said"),
    [
        (ApplyMode.UPDATE, "", ("ocs1: 5A-6B was there before and is gone; it was not to be touched",)),
        (ApplyMode.UPDATE, "ocs1.6", ()),
        (ApplyMode.OVERWRITE, "", ()),
    ],
)
def test_what_others_had_and_is_gone_is_remarked(mode: ApplyMode, others: str, said: tuple[str, ...]) -> None:
    move = moves(add="1A-2B", keep="7A-8B", before="5A-6B 7A-8B")
    assert read_back_remarks(move, states("1A-2B 7A-8B"), mode, others=frozenset(others.split())) == said


def test_one_that_stays_and_is_held_dark_is_remarked() -> None:
    there = states("1A-2B", CrossconnectState.BLOCKED)
    (said,) = read_back_remarks(moves(keep="1A-2B", before="1A-2B"), there, ApplyMode.UPDATE)
    assert said == "ocs1: 1A-2B stayed, and is held dark by a shutter or an override"


def test_failures_of_several_switches_are_one_line_of_the_first_kind() -> None:
    denied = DeviceError("ocs2: SROF", device="ocs2", command="ENT-PATCH", code="SROF", text="")
    raise_joined([])
    with pytest.raises(LinkError, match=r"^ocs1: is down$"):
        raise_joined([LinkError("ocs1: is down")])
    with pytest.raises(DeviceError, match=r"^ocs2: SROF; ocs1: is down$") as raised:
        raise_joined([denied, LinkError("ocs1: is down")])
    assert raised.value.code == "SROF"
