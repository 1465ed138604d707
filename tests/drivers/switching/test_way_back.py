"""The way back of one switch, from wherever a change left it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.errors import FailedError
from hwd_drivers.core.values import CrossconnectState
from hwd_drivers.switching.drive import change
from hwd_drivers.switching.moves import SwitchMoves
from hwd_drivers.switching.overrun import Overrun, OverrunWatch
from hwd_drivers.switching.read_back import read_back
from hwd_drivers.switching.way_back import Way, bring_back, way_back
from hwd_drivers.twins.virtual_time import run_virtual

from ..parts import pairs
from .conftest import Switch, moves, readings

pytestmark = pytest.mark.usefixtures("virtual_time")


async def go(switch: Switch, move: SwitchMoves, way: Way) -> tuple[Overrun, ...]:
    """Returns what it took from others."""
    found: list[Overrun] = []
    await bring_back(switch, move, way, now_ns=switch.now_ns, watch=OverrunWatch("ocs1", found.append))
    return tuple(found)


def _states() -> st.SearchStrategy[str]:
    """Crossconnects on eight ports, no end twice."""
    return st.permutations(range(1, 9)).flatmap(
        lambda order: st.sets(st.integers(0, 7)).map(lambda at: " ".join(f"{i + 1}A-{order[i]}B" for i in sorted(at)))
    )


def test_the_way_back_touches_only_what_the_moves_touched_and_needs_to_know_what_was_before() -> None:
    move = moves(remove="1A-2B", add="1A-3B 3A-1B", keep="7A-8B", before="1A-2B 7A-8B")
    back = way_back(move, readings("1A-3B 7A-8B 5A-6B"))
    assert (back.remove, back.add) == (pairs("1A-3B"), pairs("1A-2B"))
    move = moves(add="1A-2B 2A-1B 4A-4B", lasting="1A-2B 2A-1B")
    back = way_back(move, readings("1A-2B 2A-1B 4A-4B"))
    assert (back.remove, back.add) == (pairs("4A-4B"), ())


async def test_bring_sends_nothing_where_nothing_is_to_do_and_leaves_what_is_not_ours_alone_and_says_so() -> None:
    switch = Switch("1A-2B 7A-8B")
    move = moves(remove="1A-2B", add="1A-3B", before="1A-2B 7A-8B")
    await go(switch, move, way_back)
    assert switch.changes == 0
    switch = Switch("1A-3B 5A-2B")  # somebody took 2B by hand
    move = moves(remove="1A-2B", add="1A-3B", before="1A-2B")
    with pytest.raises(FailedError, match=r"cannot restore 1A-2B: 2B meanwhile carries 5A-2B, which is not ours"):
        await go(switch, move, way_back)
    assert switch.changes == 0


@given(_states(), _states(), st.booleans())
def test_back_from_any_point_of_a_change_is_the_state_before(before: str, wanted: str, done: bool) -> None:
    async def main() -> None:
        switch = Switch(before)
        keep = set(pairs(before)) & set(pairs(wanted))
        add = [one for one in pairs(wanted) if one not in keep]
        used = {end for one in add for end in one.ends}
        remove = [one for one in pairs(before) if one not in keep and used & set(one.ends)]
        move = SwitchMoves(switch="ocs1", remove=tuple(remove), add=tuple(add), keep=tuple(keep), before=pairs(before))
        if done:
            await change(switch, move)
            await read_back(switch, move)
            assert {one.crossconnect for one in switch.latest} == move.after
        else:
            switch.mirror.disconnect(remove, 0)  # the first half only
        await go(switch, move, way_back)
        assert {one.crossconnect for one in switch.latest} == set(pairs(before))

    run_virtual(main())


async def test_what_was_dark_or_has_failed_is_brought_back_and_what_was_to_stay_holds_up_nothing() -> None:
    switch = Switch("1A-3B")
    switch.dark = set(pairs("1A-2B"))
    await go(switch, moves(remove="1A-2B", add="1A-3B", before="1A-2B"), way_back)
    assert [one.crossconnect for one in switch.latest] == [*pairs("1A-2B")]
    switch = Switch("1A-3B")  # somebody removed 7A-8B by hand
    move = moves(remove="1A-2B", add="1A-3B", keep="7A-8B", before="1A-2B 7A-8B")
    await go(switch, move, way_back)
    assert [one.crossconnect for one in switch.latest] == [*pairs("1A-2B")]
    switch = Switch("1A-2B")
    switch.failed = set(pairs("1A-2B"))  # a change that was broken off left it so
    await go(switch, moves(remove="1A-2B", add="1A-3B", before="1A-2B"), way_back)
    assert switch.latest == readings("1A-2B")
    switch = Switch("1A-3B 7A-8B")
    switch.failing = set(pairs("7A-8B"))
    await go(switch, moves(remove="1A-2B", add="1A-3B", keep="7A-8B", before="1A-2B 7A-8B"), way_back)
    assert {one.crossconnect for one in switch.latest} == set(pairs("1A-2B 7A-8B"))


@pytest.mark.parametrize("there", ["1A-3B", "1A-2B"])
async def test_what_had_failed_before_is_brought_back_as_it_was(there: str) -> None:
    switch = Switch(there)
    switch.failing = set(pairs("1A-2B"))
    await go(switch, moves(remove="1A-2B", add="1A-3B", before="1A-2B", failed="1A-2B"), way_back)
    assert switch.latest == readings("1A-2B", CrossconnectState.FAILED)


@pytest.mark.parametrize("theirs", ["1A-7B", "7A-2B"])
async def test_what_others_made_since_our_read_and_the_way_back_took_is_an_overrun(theirs: str) -> None:
    switch = Switch()
    switch.meanwhile = lambda: switch.mirror.connect(pairs(theirs), switch.now_ns(), move=True)
    move = moves(remove="1A-2B", before="1A-2B")
    (overrun,) = await go(switch, move, way_back)
    assert (overrun.switch, overrun.lost, overrun.window_s) == ("ocs1", pairs(theirs), 0.0)
    assert [one.crossconnect for one in switch.latest] == [*pairs("1A-2B")]


async def test_what_others_made_elsewhere_meanwhile_is_no_overrun() -> None:
    switch = Switch()
    switch.meanwhile = lambda: switch.mirror.connect(pairs("5A-6B"), switch.now_ns(), move=True)
    assert await go(switch, moves(remove="1A-2B", before="1A-2B"), way_back) == ()
    assert {one.crossconnect for one in switch.latest} == set(pairs("1A-2B 5A-6B"))
