"""A NIC's own PHY as its twin tells of it."""

import asyncio

import pytest

from hwd_agents.process.config import PortConfig
from hwd_agents.watchers.firmware_watcher import FirmwareWatcher

from ..conftest import LATENCY_NS, Ear, Stage


class Watched:
    """A firmware watcher on `h0`."""

    def __init__(self, one: Stage) -> None:
        phy = one.sources["h0"].phy
        assert phy is not None
        self.ear = Ear()
        self.firmware = FirmwareWatcher(
            {"eth0": PortConfig(interface="eth0")}, phy, one.clock, self.ear, on_change=lambda: None
        )
        one.run(self.firmware)


@pytest.fixture
async def seen(one: Stage) -> Watched:
    return Watched(one)


async def test_the_first_state_of_a_phy_and_interfaces_that_are_not_ours_are_no_event(one: Stage) -> None:
    host = one.hosts["h0"]
    host.plug("eth1")
    host.phy("eth0", up=True)
    await asyncio.sleep(0.1)
    seen = Watched(one)
    await asyncio.sleep(0.1)
    for up in (True, False):
        host.phy("eth1", up=up)
    await asyncio.sleep(1)
    assert (seen.firmware.up("eth0"), seen.ear.told) == (True, [])
    assert seen.firmware.observation("eth0").why_not == "not observed"


async def test_a_change_is_told_between_its_stamp_and_our_receipt_and_once(one: Stage, seen: Watched) -> None:
    await asyncio.sleep(1)
    seen.firmware.begin("eth0")
    up_ns = one.now_ns()
    one.hosts["h0"].phy("eth0", up=True)
    await asyncio.sleep(1)
    one.hosts["h0"].phy("eth0", up=True)  # told twice
    await asyncio.sleep(1)
    (told,) = seen.ear.told
    assert (told.kind, told.source, told.data) == ("firmware", "phy", {"up": True})
    assert (told.earliest_ns, told.at_ns) == (up_ns, up_ns + LATENCY_NS)
    kept = seen.firmware.observation("eth0")
    assert (kept.at_begin, kept.now, kept.lost, kept.latched) == (False, True, 0, True)


async def test_a_phy_that_was_away_and_is_back_was_lost_once_and_one_that_stayed_never(one: Stage) -> None:
    one.hosts["h0"].phy("eth0", up=True)
    seen = Watched(one)
    await asyncio.sleep(1)
    seen.firmware.begin("eth0")
    await asyncio.sleep(1)
    stayed = seen.firmware.observation("eth0")
    assert (stayed.at_begin, stayed.now, stayed.lost) == (True, True, 0)
    one.hosts["h0"].phy("eth0", up=False)
    one.hosts["h0"].phy("eth0", up=True)
    await asyncio.sleep(1)
    assert seen.firmware.observation("eth0").lost == 1
    seen.firmware.end("eth0")
    ended = seen.firmware.observation("eth0")
    one.hosts["h0"].phy("eth0", up=False)
    await asyncio.sleep(1)
    assert seen.firmware.observation("eth0") == ended


async def test_a_phy_is_unknown_while_its_rack_is_away(one: Stage, seen: Watched) -> None:
    await asyncio.sleep(1)
    await one.rack_down("h0")
    await asyncio.sleep(0.5)
    assert seen.firmware.up("eth0") is None
    seen.firmware.begin("eth0")
    kept = seen.firmware.observation("eth0")
    assert not kept.seen
    assert "is away" in kept.why_not
    changed_ns = one.now_ns()
    one.hosts["h0"].phy("eth0", up=True)
    await asyncio.sleep(1)
    await one.rack_up("h0")
    await asyncio.sleep(2)
    (told,) = seen.ear.told
    assert told.earliest_ns <= changed_ns <= told.at_ns
    assert seen.firmware.up("eth0") is True
