"""What a module measures of itself, and when it is told again."""

import asyncio

import msgspec
import pytest

from hwd_agents.process.config import SamplingConfig
from hwd_agents.watchers.module_monitors import moved as has_moved
from hwd_agents.wire.events import MonitorData

from ..conftest import Stage
from .test_optics_watcher import Watched

REST = MonitorData(rx_power_dbm=[-2.0, None], tx_power_dbm=[1.0, 1.0], bias_ma=[40.0, 40.0], temperature_c=35.0)


@pytest.mark.parametrize(
    ("now", "moved"),
    [
        ({}, False),
        ({"rx_power_dbm": [-2.19, None]}, False),
        ({"rx_power_dbm": [-2.21, None]}, True),
        ({"rx_power_dbm": [-2.0, -30.0]}, True),
        ({"rx_power_dbm": [None, None]}, True),
        ({"rx_power_dbm": [-2.0]}, True),
        ({"tx_power_dbm": [1.0, 0.7]}, True),
        ({"bias_ma": [40.9, 39.1]}, False),
        ({"bias_ma": [40.0, 41.0]}, True),
        ({"temperature_c": 35.9}, False),
        ({"temperature_c": 34.0}, True),
        ({"temperature_c": None}, True),
    ],
)
def test_noise_is_no_move_and_what_comes_or_goes_is(now: dict[str, object], moved: bool) -> None:
    assert has_moved(msgspec.structs.replace(REST, **now), REST) is moved


async def test_what_moved_is_told_once_while_nothing_is_observed_and_not_too_often(one: Stage) -> None:
    host = one.hosts["h0"]
    host.light("eth0", lit=True)
    seen = Watched(one, sampling=SamplingConfig(light_fast_s=1.0, monitors_s=30.0))
    unasked = Watched(one, sampling=SamplingConfig(monitors_s=0.0))
    await asyncio.sleep(100)
    assert seen.ear.told == [], "the birth has the first ones, and nothing moved"
    host.lit_dbm = -2.1
    await asyncio.sleep(100)
    assert seen.ear.told == []
    for power_dbm in (-3.0, -4.0):
        host.lit_dbm = power_dbm
        await asyncio.sleep(2)
    assert [told.data["rx_power_dbm"] for told in seen.ear.told] == [[-3.0] * 4]
    await asyncio.sleep(100)
    first, second = seen.ear.of("monitors")
    assert second.data == {
        "rx_power_dbm": [-4.0] * 4,
        "tx_power_dbm": [0.0] * 4,
        "bias_ma": [0.0] * 4,
        "temperature_c": 35.0,
    }
    assert second.at_ns - first.at_ns >= 30 * 10**9
    assert second.earliest_ns < second.at_ns
    await seen.optics["eth0"].begin()
    host.lit_dbm = -6.0
    await asyncio.sleep(40)
    assert seen.ear.told == [first, second], "while a port is observed"
    assert unasked.ear.told == []
