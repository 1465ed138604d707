"""The Polatis driver passes the suite against its twin over TCP, in virtual time; over memory all drivers do."""

import asyncio

import pytest

from hwd_drivers.conformance import Check, checks_for
from hwd_drivers.conformance.bench import twin_bench
from hwd_drivers.core.ids import Draws
from hwd_drivers.devices.registry import find
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.transports.rough import Way
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

from ....stage import in_virtual_time


@pytest.mark.parametrize("check", checks_for(Way.WHOLE), ids=lambda check: check.__name__)
@in_virtual_time
async def test_the_driver_passes_over_tcp(check: Check) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    async with twin_bench(
        find("polatis-tl1"),
        model="polatis-6000",
        size="8x8",
        way=Way.WHOLE,
        dialer=TcpDialer(),
        clock=VirtualClock(loop, wall_start_ns=0),
        draws=Draws(7),
        address="127.0.0.1:0",
    ) as bench:
        await check(bench)
