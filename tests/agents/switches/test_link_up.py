"""Link-up after a switch was set: a carrier that came by it, and not the one of before."""

import asyncio

import pytest

from hwd_agents.sources.twin.played import PlayedHost
from hwd_agents.switches.link_up import LOOK_S, LinkUp
from hwd_agents.wire import PortUp

from ..conftest import Ear, Stage, link_watcher

FALL_S = 0.25


class Waiting:
    """A selection of `eth0` on h0."""

    def __init__(self, one: Stage) -> None:
        self.stage = one
        self.host: PlayedHost = one.hosts["h0"]
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


async def test_a_port_that_was_dark_is_up_with_its_carrier(seen: Waiting) -> None:
    await seen.begin(carrier=False)
    asyncio.get_running_loop().call_later(0.3, lambda: seen.host.carrier("eth0", up=True))
    up, port, took_s = await seen.result()
    assert (up, port.up, port.kept) == (True, True, False)
    assert took_s == pytest.approx(0.3, abs=0.002)
    assert port.earliest_ns is not None
    assert port.at_ns is not None
    assert port.earliest_ns <= port.at_ns


async def test_the_carrier_of_before_counts_only_when_it_fell_and_came_again(seen: Waiting) -> None:
    await seen.begin(carrier=True)
    loop = asyncio.get_running_loop()
    loop.call_later(0.1, lambda: seen.host.carrier("eth0", up=False))
    loop.call_later(0.6, lambda: seen.host.carrier("eth0", up=True))
    up, port, took_s = await seen.result()
    assert (up, port.up, port.kept) == (True, True, False)
    assert took_s == pytest.approx(0.6, abs=0.002)
    assert port.fell_ns is not None
    assert port.at_ns is not None
    assert port.at_ns - port.fell_ns == pytest.approx(500_000_000, abs=1_000_000)


async def test_a_flap_that_the_kernel_counted_and_did_not_tell_is_found_by_looking(seen: Waiting) -> None:
    await seen.begin(carrier=True)
    asyncio.get_running_loop().call_later(0.1, lambda: seen.host.carrier("eth0", up=True, flaps=2, told=False))
    up, port, took_s = await seen.result()
    assert (up, port.up, port.kept) == (True, True, False)
    assert took_s < 0.1 + LOOK_S + 0.01


async def test_a_carrier_that_does_not_fall_in_time_counts_as_never_lost(seen: Waiting) -> None:
    await seen.begin(carrier=True)
    up, port, took_s = await seen.result()
    assert (up, port.up, port.kept, port.why) == (True, True, True, "its carrier never fell")
    assert FALL_S <= took_s <= FALL_S + LOOK_S + 0.005
    assert port.at_ns is None


async def test_one_that_does_not_come_in_time_says_why(seen: Waiting) -> None:
    await seen.begin(carrier=True)
    asyncio.get_running_loop().call_later(0.1, lambda: seen.host.carrier("eth0", up=False))
    up, port, took_s = await seen.result(0.5)
    assert (up, port.up) == (False, False)
    assert port.why == "no carrier: no light comes, or the neighbour has not switched yet"
    assert took_s == pytest.approx(0.5, abs=0.001)
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
    seen.host.carrier("eth0", up=True, flaps=2, told=False)
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
