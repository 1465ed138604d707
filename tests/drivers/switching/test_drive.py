"""Driving: the intent is first, all switches are commanded at once, and each error is known when all have ended."""

import asyncio

import pytest

from hwd_drivers.core.errors import FailedError, LinkError
from hwd_drivers.switching.drive import COMMAND_WITHIN_S, at_once, change, drive

from .conftest import Switch, moves

pytestmark = pytest.mark.usefixtures("virtual_time")


async def test_nothing_is_sent_before_the_intent_and_nothing_without_it() -> None:
    did = list[str]()

    async def command(name: str) -> None:
        did.append(name)

    assert await drive(["ocs1", "ocs2"], command, begin=lambda: did.append("intent")) == []
    assert did == ["intent", "ocs1", "ocs2"]

    def full() -> None:
        raise FailedError("journal: cannot write the plan")

    with pytest.raises(FailedError):
        await drive(["ocs1"], command, begin=full)
    assert did == ["intent", "ocs1", "ocs2"]


@pytest.mark.parametrize("names", [["ocs1"], ["ocs1", "ocs2", "ocs3"]])
async def test_errors_come_when_all_have_ended(names: list[str]) -> None:
    done = list[str]()

    async def work(name: str) -> None:
        if name == "ocs1":
            raise LinkError(f"{name}: is down")
        await asyncio.sleep(1)
        done.append(name)

    errors = await at_once(names, work)
    assert [*map(str, errors)] == ["ocs1: is down"]
    assert done == names[1:]
    assert asyncio.get_running_loop().time() <= 1


@pytest.mark.parametrize("names", [["ocs1"], ["ocs1", "ocs2"]])
async def test_a_bug_is_raised_when_all_have_ended(names: list[str]) -> None:
    done = list[str]()

    async def work(name: str) -> None:
        if name == "ocs1":
            raise KeyError(name)
        await asyncio.sleep(1)
        done.append(name)

    with pytest.raises(KeyError):
        await at_once(names, work)
    assert done == names[1:]


@pytest.mark.parametrize("within_s", [1.0, 100.0])
async def test_a_command_has_its_own_limit_and_that_of_its_caller(within_s: float) -> None:
    switch, stamps = Switch(), list[int]()
    until_s = asyncio.get_running_loop().time() + within_s
    exchange = await change(switch, moves(add="1A-2B"), stamps.append, until_s=until_s)
    assert switch.deadlines_s == [min(within_s, COMMAND_WITHIN_S)]
    assert stamps == [exchange.commanded_ns]
