"""Events of boots that ended before their clock was aligned: the current boot's alignment holds for the same clock."""

import asyncio

import pytest

from hwd.bus.host_events import UNALIGNED_BOOTS_MOST, UNALIGNED_S
from hwd_drivers.core.clock import ShiftedClock

from ..world import Peer, World

MACHINE = "6a1e2f7c machine"


async def test_events_of_boots_that_never_lived_to_be_asked_are_put_on_the_clock_that_their_host_still_has(
    world: World,
) -> None:
    peer = world.peer()
    peer.clock_name, peer.answers_clock = MACHINE, False
    earlier = [f"boot-{number}" for number in range(-40, 0)]
    before_ns = {}
    for boot in earlier:
        for _ in range(3):
            before_ns[boot] = peer.event(boot=boot, carrier=True, unseen=0).at_ns
            await asyncio.sleep(0.001)
    for boot in earlier:
        await peer.send(*peer.spools[boot], boot=boot, clock=MACHINE)
    await asyncio.sleep(3 * UNALIGNED_S)  # nobody knows the clock yet, and nothing is given up
    assert (world.of("host.event"), world.of("host.lost"), world.of("host.garbage")) == ([], [], [])
    peer.answers_clock = True
    for boot in earlier:
        events = await world.until("host.event", 3, boot=boot)
        assert [event["seq"] for event in events] == [1, 2, 3]
        assert isinstance(peer.clock, ShiftedClock)
        truth_ns = peer.clock.to_inner_ns(before_ns[boot])
        assert events[-1]["earliest_ns"] <= truth_ns <= events[-1]["latest_ns"]
        await world.agreed(peer, boot, 3)
    await asyncio.sleep(3 * UNALIGNED_S)
    assert len(world.of("host.event")) == 3 * len(earlier)
    assert world.of("host.lost") == []


async def test_events_of_a_boot_whose_clock_never_answered_are_dated_by_the_next_boot_of_the_machine(
    world: World,
) -> None:
    first = world.peer(boot="boot-1")
    first.clock_name, first.answers_clock = MACHINE, False
    await world.until("host.birth", boot="boot-1")
    await first.send(first.event(carrier=True, unseen=0))
    await asyncio.sleep(1)
    await first.stop()
    second = world.peer(boot="boot-2")
    second.clock, second.clock_name = first.clock, MACHINE
    (event,) = await world.until("host.event", boot="boot-1")
    assert event["seq"] == 1
    await world.agreed(second, "boot-1", 1)
    assert world.of("host.lost") == []


@pytest.mark.parametrize("name", ["", "another machine"])
async def test_another_clock_or_none_that_is_named_is_not_taken_for_it(world: World, peer: Peer, name: str) -> None:
    boots = [f"old-{number}" for number in range(UNALIGNED_BOOTS_MOST)]
    for boot in boots:
        await peer.send(peer.event(boot=boot, carrier=True, unseen=0), boot=boot, clock=name)
    lost = await world.until("host.lost", len(boots))
    assert {each["why"] for each in lost} == {"they come from a boot whose clock was never aligned"}
    assert world.of("host.event") == []
