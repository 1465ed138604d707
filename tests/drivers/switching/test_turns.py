"""Turns at switches: in the order of the requests, never two at once, never a deadlock, and late ones are refused."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.errors import RefusedError
from hwd_drivers.switching.turns import SwitchTurns
from hwd_drivers.twins.virtual_time import run_virtual

pytestmark = pytest.mark.usefixtures("virtual_time")


@given(st.lists(st.lists(st.sampled_from(["ocs1", "ocs2", "ocs3"]), min_size=1, unique=True), max_size=8))
def test_no_two_have_one_switch_at_once_and_all_get_their_turn(wanted: list[list[str]]) -> None:
    turns, held, done = SwitchTurns("selection"), set[str](), list[int]()

    async def change(number: int, names: list[str]) -> None:
        async with turns.take(names):
            assert held.isdisjoint(names)
            held.update(names)
            await asyncio.sleep(1)
            held.difference_update(names)
            done.append(number)

    async def main() -> None:
        await asyncio.gather(*(change(number, names) for number, names in enumerate(wanted)))

    run_virtual(main())
    assert sorted(done) == list(range(len(wanted)))


async def test_turns_of_one_switch_come_in_the_order_of_the_requests() -> None:
    turns, done = SwitchTurns("selection"), list[int]()

    async def change(number: int) -> None:
        async with turns.take(["ocs1"]):
            await asyncio.sleep(1)
            done.append(number)

    await asyncio.gather(*map(change, range(4)))
    assert done == [0, 1, 2, 3]
    assert asyncio.get_running_loop().time() == pytest.approx(4)


async def test_a_turn_that_does_not_come_in_time_is_refused_and_the_others_are_free_again() -> None:
    turns = SwitchTurns("selection")
    async with turns.take(["ocs2"]):
        with pytest.raises(RefusedError, match="ocs2: its turn did not come in time: another selection has it"):
            async with turns.take(["ocs1", "ocs2"], until_s=asyncio.get_running_loop().time() + 1):
                pytest.fail("it has a turn that another one has")
        assert asyncio.get_running_loop().time() == pytest.approx(1)
        async with turns.take(["ocs1"], until_s=asyncio.get_running_loop().time() + 1):
            pass
        with pytest.raises(RefusedError, match="its turn came too late"):
            async with turns.take(["ocs1"], until_s=asyncio.get_running_loop().time()):
                pytest.fail("it began after its limit")
