"""Reading back: every difference is named, and nothing that is as asked for is one."""

import asyncio

import pytest

from hwd_drivers.core.errors import FailedError
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, Exchange
from hwd_drivers.switching.drive import change
from hwd_drivers.switching.overrun import Overrun, OverrunWatch
from hwd_drivers.switching.read_back import read_back

from ..parts import pairs
from .conftest import Switch, moves

pytestmark = pytest.mark.usefixtures("virtual_time")


async def test_what_is_as_asked_for_is_read_back_and_others_are_a_difference_where_nothing_else_may_be_there() -> None:
    switch = Switch("1A-2B 7A-8B")
    move = moves(remove="1A-2B", add="1A-3B", keep="7A-8B", before="1A-2B 7A-8B")
    await change(switch, move)
    assert await read_back(switch, move) == dict.fromkeys(pairs("1A-3B 7A-8B"), CrossconnectState.TUNED)
    assert switch.reads == 1
    switch = Switch("1A-2B 7A-8B")
    move = moves(add="1A-2B")
    await read_back(switch, move)
    with pytest.raises(FailedError, match="7A-8B is still there"):
        await read_back(switch, move, alone=True)


async def test_every_difference_is_named_at_once() -> None:
    switch = Switch("1A-2B 4A-4B")
    switch.failed = set(pairs("4A-4B"))
    with pytest.raises(FailedError) as raised:
        await read_back(switch, moves(remove="1A-2B", add="10A-9B 3A-3B", keep="4A-4B"))
    said = "3A-3B is not there; 10A-9B is not there; 1A-2B is still there; 4A-4B is reported as failed"
    assert str(raised.value) == f"ocs1: it answered, but does not report what was asked for: {said}"


async def test_tuning_is_waited_for() -> None:
    switch = Switch(timing="polatis-opus")
    move = moves(add="1A-2B 2A-1B")
    await change(switch, move)
    await read_back(switch, move)
    assert all(one.state is CrossconnectState.TUNED for one in switch.latest)
    assert 0.005 < asyncio.get_running_loop().time() < 1


@pytest.mark.parametrize("alone", [False, True])
async def test_one_that_had_failed_is_made_anew_and_read_back(alone: bool) -> None:
    switch = Switch("1A-2B")
    switch.failed = set(pairs("1A-2B"))
    move = moves(remove="1A-2B", add="1A-2B", before="1A-2B")
    await change(switch, move)
    await read_back(switch, move, alone=alone)


async def test_one_that_is_held_dark_is_no_success_and_states_that_are_allowed_are_no_difference() -> None:
    switch = Switch()
    switch.dark = set(pairs("1A-2B"))
    move = moves(add="1A-2B")
    await change(switch, move)
    with pytest.raises(FailedError, match="1A-2B is set, and held dark by a shutter or an override"):
        await read_back(switch, move)
    switch = Switch()
    switch.dark, switch.failing = set(pairs("1A-2B")), set(pairs("3A-4B"))
    move = moves(add="1A-2B 3A-4B")
    await change(switch, move)
    with pytest.raises(FailedError, match=r"asked for: 3A-4B is reported as failed$"):
        await read_back(switch, move, allowed=[CrossconnectState.BLOCKED])
    with pytest.raises(FailedError, match="asked for: 1A-2B is set, and held dark"):
        await read_back(switch, move, may_fail=pairs("3A-4B"))


async def test_one_that_is_tuning_at_the_limit_is_a_difference_unless_that_is_allowed() -> None:
    switch = Switch(timing="polatis-opus")
    move = moves(add="1A-2B")
    await change(switch, move)
    now_s = asyncio.get_running_loop().time()
    with pytest.raises(FailedError, match="1A-2B is still tuning after 10 s"):
        await read_back(switch, move, until_s=now_s)
    states = await read_back(switch, move, until_s=now_s, allowed=[CrossconnectState.TUNING])
    assert states == dict.fromkeys(pairs("1A-2B"), CrossconnectState.TUNING)


async def test_what_is_lost_only_after_the_tuning_is_an_overrun() -> None:
    """Of a switch that still reports another client's crossconnect while it tunes ours."""

    class Slow(Switch):
        async def read(self) -> tuple[CrossconnectReading, ...]:
            self.reads += 1
            if self.reads == 1:
                return tuple(
                    CrossconnectReading(crossconnect=one, state=CrossconnectState.TUNING)
                    for one in pairs("1A-2B 1A-7B")
                )
            (one,) = pairs("1A-2B")
            return (CrossconnectReading(crossconnect=one, state=CrossconnectState.TUNED),)

    told: list[Overrun] = []
    seen: list[set[Crossconnect]] = []
    watch, move = OverrunWatch("ocs1", told.append), moves(add="1A-2B")
    watch.changed(move, Exchange(commanded_ns=1, acknowledged_ns=2, commands=1, before=pairs("1A-7B")), read_ns=0)
    await read_back(Slow(), move, on_read=lambda there: seen.append({*there}), on_settled=watch.read_back)
    assert [one.lost for one in told] == [watch.lost] == [pairs("1A-7B")]
    assert seen == [{*pairs("1A-2B 1A-7B")}, {*pairs("1A-2B")}]
