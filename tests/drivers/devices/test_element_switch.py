"""Every driver whose device reports its size refuses a device with another size than the testbed."""

import asyncio

import pytest

from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import Draws
from hwd_drivers.devices.abilities import Device
from hwd_drivers.devices.registry import OpenContext, find
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.registry import twin_of
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual


@pytest.mark.parametrize(
    ("driver", "model", "there", "stated", "finding"),
    [
        ("leoni", "eol", "1x8", "1x16", "the switch is an eol 1x8, the testbed says 1x16"),
        ("dicon-mems", "mems", "1x8", "1x16", "the module has 8 channels, the testbed says 1x16"),
        ("osw", "osw", "2x6", "4x6", "the controller has 2 selectors, the testbed says 4"),
    ],
)
def test_a_size_that_the_device_does_not_have_is_a_config_error(
    driver: str, model: str, there: str, stated: str, finding: str
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        spec, dialer, clock = find(driver), MemoryDialer(MemoryNet()), VirtualClock(loop, wall_start_ns=0)
        twin = twin_of(spec).make(
            name="sw1",
            capabilities=spec.capabilities(model, there),
            timing=find_timing("ideal"),
            draws=Draws(7),
            clock=clock,
            dialer=dialer,
            address="mem:sw1",
            options={},
        )
        device: Device = await spec.open(
            OpenContext(
                name="sw1",
                address=await twin.start(),
                dialer=dialer,
                clock=clock,
                sink=_no_documents,
                user=None,
                password=None,
                options=spec.options(),
                capabilities=spec.capabilities(model, stated),
            )
        )
        with pytest.raises(ConfigError, match=f"sw1: {finding}.*Correct its size in the testbed file"):
            await device.capabilities(deadline_s=loop.time() + 1)
        await device.close()
        await twin.close()

    run_virtual(main())


def _no_documents(document: Document) -> None:
    """The test looks at the device itself."""
