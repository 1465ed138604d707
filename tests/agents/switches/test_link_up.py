"""Link-up after a switch was set: a carrier that came by it, and not the one of before."""

import asyncio
import functools
from typing import Any

import pytest

from hwd_agents.sources.twin.manual_host import ManualHost
from hwd_agents.switches.link_up import LOOK_S, LinkUp
from hwd_agents.wire import PortUp

from ..conftest import Ear, Stage, link_watcher

FALL_S = 0.25


class Waiting:
    """A selection of `eth0` on h0."""

    def __init__(self, one: Stage) -> None:
        self.stage = one
        self.host: ManualHost = one.hosts["h0"]
        self.link = link_watcher(one, Ear(), links_slow_s=10)
        one.run(self.link)
        self.clock = one.clock
        self.watch: LinkUp

    async def begin(self, *, carrier: bool, moved: bool = True) -> None:
        self.host.carrier("eth0", up=carrier)
        await asyncio.sleep(0.1)
        self.watch = LinkUp(self.link, self.clock, ["eth0"])
        if moved:
            self.watch.moved(["eth0"])
            self.watch.acknowledged(["eth0"])

    async def result(self, within_s: float = 1.0) -> tuple[bool, PortUp, float]:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        up = await self.watch.wait(fall_s=FALL_S, until_s=began_s + within_s)
        self.watch.close()
        return up, self.watch.result(fall_s=FALL_S)["eth0"], loop.time() - began_s


@pytest.fixture
async def seen(one: Stage) -> Waiting:
    return Waiting(one)


NO_CARRIER = "no carrier: no light comes, or the neighbour has not switched yet"
Happens = dict[float, dict[str, Any]]
STORIES: dict[str, tuple[bool, Happens, tuple[bool, bool, str], float]] = {
    "it was dark": (False, {0.3: {"up": True}}, (True, False, ""), 0.3),
    "it fell and came again": (True, {0.1: {"up": False}, 0.6: {"up": True}}, (True, False, ""), 0.6),
    "a flap that the kernel counted and did not tell": (
        True,
        {0.1: {"up": True, "flaps": 2, "notice": False}},
        (True, False, ""),
        0.1,
    ),
    "it does not fall in time": (True, {}, (True, True, "its carrier never fell"), FALL_S),
    "it does not come in time": (True, {0.1: {"up": False}}, (False, False, NO_CARRIER), 1.0),
}
"""The carrier of before, what happens after how many seconds; whether it is up, was kept, and why; and how soon."""


@pytest.mark.parametrize("story", STORIES)
async def test_a_port_is_up_by_a_carrier_that_came_by_the_switch_or_never_fell(seen: Waiting, story: str) -> None:
    before, happens, expected, after_s = STORIES[story]
    await seen.begin(carrier=before)
    began_ns = seen.clock.monotonic_ns()
    for at_s, change in happens.items():
        asyncio.get_running_loop().call_later(at_s, functools.partial(seen.host.carrier, "eth0", **change))
    up, port, took_s = await seen.result()
    assert (up, port.up, port.kept, port.why) == (expected[0], *expected)
    assert after_s <= took_s <= after_s + (LOOK_S + 0.01 if before and len(happens) < 2 else 0.002)
    fell_s, came_s = (stamp_ns and (stamp_ns - began_ns) / 1e9 for stamp_ns in (port.fell_ns, port.at_ns))
    if len(happens) == 2:
        assert (fell_s, came_s) == pytest.approx((0.1, 0.6), abs=0.001)
    assert (came_s is None) is (not up or port.kept)
    assert port.at_ns is None or (port.earliest_ns is not None and port.earliest_ns <= port.at_ns)


async def test_an_interface_that_is_gone_says_so(seen: Waiting) -> None:
    await seen.begin(carrier=False)
    seen.host.unplug("eth0")
    _, port, _ = await seen.result(0.1)
    assert port.why == "there is no interface eth0"


async def test_a_port_whose_switch_stood_so_is_up_when_it_has_carrier(seen: Waiting) -> None:
    await seen.begin(carrier=True, moved=False)
    up, port, took_s = await seen.result()
    assert (up, port.kept, took_s) == (True, True, 0)
    await seen.begin(carrier=False, moved=False)
    up, _, _ = await seen.result(0.2)
    assert not up


async def test_an_earlier_flap_whose_notice_was_delayed_does_not_count(seen: Waiting) -> None:
    await seen.begin(carrier=True, moved=False)
    seen.host.carrier("eth0", up=True, flaps=2, notice=False)
    await seen.watch.look()
    seen.watch.moved(["eth0"])
    seen.watch.acknowledged(["eth0"])
    up, port, _ = await seen.result(0.1)
    assert (up, port.up) == (False, False)


async def test_of_an_interface_that_was_made_anew_the_carrier_counts_that_came_after_the_command(seen: Waiting) -> None:
    await seen.begin(carrier=True)
    seen.host.unplug("eth0")
    await asyncio.sleep(0.01)
    seen.host.plug("eth0", ifindex=200)
    asyncio.get_running_loop().call_later(0.3, lambda: seen.host.carrier("eth0", up=True))
    up, port, took_s = await seen.result()
    assert (up, port.up, port.kept) == (True, True, False)
    assert took_s == pytest.approx(0.3, abs=0.002)


async def test_nothing_is_kept_while_nobody_can_look(seen: Waiting) -> None:
    await seen.begin(carrier=True)
    await seen.stage.rack_down("h0")
    up, port, _ = await seen.result()
    assert (up, port.up, port.kept) == (False, False, False)
