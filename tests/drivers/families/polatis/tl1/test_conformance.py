"""The Polatis driver passes the suite against its twin, over every way and over TCP, in virtual time."""

import asyncio

import pytest

from hwd_drivers.conformance import Check, checks_for
from hwd_drivers.conformance.bench import twin_bench
from hwd_drivers.core.ids import Draws
from hwd_drivers.devices.registry import find
from hwd_drivers.transports.dial import Dialer, TcpDialer
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.transports.rough import Way
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual

SIZES = ["8x8", "16"]


def cases() -> list[object]:
    return [pytest.param(way, check, id=f"{way}-{check.__name__}") for way in Way for check in checks_for(way)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("way", "check"), cases())
def test_the_driver_passes_on_its_twin(way: Way, check: Check, size: str) -> None:
    run_virtual(passes(check, way=way, size=size, dialer=MemoryDialer(MemoryNet())))


@pytest.mark.parametrize("check", checks_for(Way.WHOLE), ids=lambda check: check.__name__)
def test_the_driver_passes_over_tcp(check: Check) -> None:
    run_virtual(passes(check, way=Way.WHOLE, size="8x8", dialer=TcpDialer(), address="127.0.0.1:0"))


async def passes(check: Check, *, way: Way, size: str, dialer: Dialer, address: str = "mem:") -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    async with twin_bench(
        find("polatis-tl1"),
        model="polatis-6000",
        size=size,
        way=way,
        dialer=dialer,
        clock=VirtualClock(loop, wall_start_ns=0),
        draws=Draws(7),
        address=address,
    ) as bench:
        await check(bench)
