"""PHYs told by a twin on another machine: its clock is off by hours, and no bound is wrong for it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from hwd_agents.sources.twin.distant_phys import ASK_EVERY_S

from .test_twin_sources import World

LATENCY_S = 0.003
OFF_S = -7200.0
SLACK_NS = 2_000


@pytest.fixture
async def one(virtual_time: None) -> AsyncIterator[World]:
    """A played host, and the sources of its agent, whose clock is 2 h behind that of the twin."""
    one = World(offset_s=OFF_S, latency_s=LATENCY_S, same_clock=False)
    listener = await one.listen()
    tasks = [
        asyncio.create_task(one.twin.run(one.changed)),
        asyncio.create_task(one.twin.phys.open_phy(one.take_phy, lambda: None)),
    ]
    await asyncio.sleep(1)
    yield one
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await listener.close()


async def test_a_change_lies_between_the_last_answer_and_our_receipt(one: World) -> None:
    one.twin.phys.observe("eth0", True)
    for up in (True, False, True):
        await asyncio.sleep(0.777)
        changed_ns = one.clock.monotonic_ns()
        one.host.phy("eth0", up=up)
        await asyncio.sleep(0.1)
        now, earliest_ns, at_ns = one.phys[-1]
        assert now is up
        assert earliest_ns <= changed_ns <= at_ns
        assert at_ns - earliest_ns <= (ASK_EVERY_S + 4 * LATENCY_S) * 1e9 + SLACK_NS


async def test_the_interval_of_a_late_report_contains_the_change(one: World) -> None:
    one.twin.phys.observe("eth0", True)
    await asyncio.sleep(0.5)
    changed_ns, stamp_ns = one.clock.monotonic_ns(), one.machine.wall_ns()
    await asyncio.sleep(0.25)
    one.host.phy("eth0", up=True, stamp_ns=stamp_ns)
    await asyncio.sleep(0.1)
    _, earliest_ns, at_ns = one.phys[-1]
    assert earliest_ns <= changed_ns <= at_ns


async def test_what_is_told_again_is_no_change_and_an_unobserved_one_is_known_since_the_last_answer(one: World) -> None:
    assert one.phys == [(False, *one.phys[0][1:])]
    one.twin.phys.observe("eth0", True)
    await asyncio.sleep(1)
    one.twin.phys.observe("eth0", False)
    await asyncio.sleep(1)
    assert len(one.phys) == 1
    left_ns = one.clock.monotonic_ns()
    await asyncio.sleep(60)
    one.host.phy("eth0", up=True)
    await asyncio.sleep(1)
    assert len(one.phys) == 2
    _, earliest_ns, at_ns = one.phys[-1]
    assert earliest_ns <= left_ns
    assert at_ns > left_ns + 59 * 10**9
