"""Every driver whose device reports its size refuses a device with another size than the testbed."""

import asyncio

import pytest

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.devices.registry import find
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.virtual_time import VirtualClock

from ..parts import context, twin


@pytest.mark.parametrize(
    ("driver", "model", "there", "stated", "finding"),
    [
        ("leoni", "eol", "1x8", "1x16", "the switch is an eol 1x8, the testbed says 1x16"),
        ("dicon-mems", "mems", "1x8", "1x16", "the module has 8 channels, the testbed says 1x16"),
        ("osw", "osw", "2x6", "4x6", "the controller has 2 selectors, the testbed says 4"),
    ],
)
async def test_a_size_that_the_device_does_not_have_is_a_config_error(
    clock: VirtualClock, driver: str, model: str, there: str, stated: str, finding: str
) -> None:
    dialer = MemoryDialer(MemoryNet())
    unit = twin(context(driver, model, there, dialer, clock), driver)
    await unit.start()
    device = await find(driver).open(context(driver, model, stated, dialer, clock))
    with pytest.raises(ConfigError, match=f"ocs1: {finding}.*Correct its size in the testbed file"):
        await device.capabilities(deadline_s=asyncio.get_running_loop().time() + 1)
    await device.close()
    await unit.close()
