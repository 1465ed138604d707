"""Settings of which nobody says any more that they shall stand."""

import asyncio
from typing import Any

import pytest

from hwd_agents.process.config import PortConfig
from hwd_agents.settings.port_settings import Settings
from hwd_agents.settings.setting_limits import AGAIN_S, LOOK_S, SettingLimits
from hwd_drivers.core.disk import MemoryDisk

from ..conftest import Ear, Stage


class Limited:
    """Settings of h0, and what puts them back."""

    def __init__(self, one: Stage) -> None:
        self.host = one.hosts["h0"]
        self.host.states["eth0", "mtu", ""] = 1500
        self.ear = Ear()
        self.life = "boot 1"
        self.settings = Settings(
            {"eth0": PortConfig(interface="eth0")},
            one.sources["h0"].settings,
            MemoryDisk(),
            clock=one.clock,
            life=lambda: self.life,
            on_change=lambda: None,
        )
        one.run(SettingLimits(self.settings, one.clock, self.ear, origin="twin"))

    @property
    def mtu(self) -> Any:
        return self.host.states["eth0", "mtu", ""]


@pytest.fixture
async def limited(one: Stage) -> Limited:
    return Limited(one)


async def test_setting_is_put_back_when_its_time_is_over_and_the_event_says_so(one: Stage, limited: Limited) -> None:
    await asyncio.sleep(1)
    set_ns = one.now_ns()
    await limited.settings.set("r1", "eth0", "mtu", 4200, for_s=300)
    await asyncio.sleep(299.9)
    assert limited.mtu == 4200
    await asyncio.sleep(0.2)
    assert limited.mtu == 1500
    (told,) = limited.ear.told
    assert (told.kind, told.port, told.source) == ("put-back", "eth0", "settings")
    assert told.data == {"run": "r1", "setting": "mtu", "state": 1500}
    assert 300 * 10**9 <= told.earliest_ns - set_ns <= told.at_ns - set_ns <= 300.1 * 10**9


async def test_setting_that_is_held_again_stands_for_longer_or_shorter(limited: Limited) -> None:
    await limited.settings.set("r1", "eth0", "mtu", 4200, for_s=30)
    for _ in range(10):
        await asyncio.sleep(20)
        await limited.settings.hold("r1", 30)
    assert (limited.mtu, limited.ear.told) == (4200, [])
    await asyncio.sleep(31)
    assert limited.mtu == 1500
    await limited.settings.set("r1", "eth0", "mtu", 4200, for_s=3600)
    await asyncio.sleep(10)
    await limited.settings.hold("r1", 5)
    await asyncio.sleep(5.1)
    assert limited.mtu == 1500


async def test_interface_that_is_gone_when_the_time_is_over_is_put_back_when_it_is_there_again(
    limited: Limited,
) -> None:
    await limited.settings.set("r1", "eth0", "mtu", 4200, for_s=30)
    limited.host.unplug("eth0")
    await asyncio.sleep(120)
    assert limited.ear.told == []
    limited.host.plug("eth0", ifindex=200)
    await asyncio.sleep(AGAIN_S + 0.1)
    assert (limited.mtu, limited.ear.kinds()) == (1500, ["put-back"])


async def test_kernel_that_starts_anew_without_a_word_is_found(limited: Limited) -> None:
    await limited.settings.set("r1", "eth0", "mtu", 4200, for_s=3600)
    limited.life, limited.host.states["eth0", "mtu", ""] = "boot 2", 9000
    await asyncio.sleep(LOOK_S + 0.1)
    assert (limited.mtu, limited.settings.held, limited.ear.told) == (9000, (), [])
