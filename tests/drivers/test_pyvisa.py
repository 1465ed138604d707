"""A judge from outside: pyvisa with pyvisa-py talks to every twin that speaks SCPI, over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from hwd_drivers.core.offload import ThreadOffload
from hwd_drivers.core.values import PortSide
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.twins.registry import Twin

from .stage import Stage

pyvisa = pytest.importorskip("pyvisa")
pytest.importorskip("pyvisa_py")

Ask = Callable[[str], Awaitable[str]]
Tell = Callable[[str], Awaitable[None]]


@asynccontextmanager
async def session(driver: str, model: str, size: str, *, end: str) -> AsyncIterator[tuple[Twin, Ask, Tell]]:
    """A twin, and a VISA session with it: `ask` is a query, `tell` a write."""
    stage = Stage(driver, model, size, timing="polatis-mfabric", dialer=TcpDialer())
    twin = await stage.start()
    host, _, port = stage.address.rpartition(":")
    offload = ThreadOffload(1)
    manager = await offload(pyvisa.ResourceManager, "@py")
    try:
        name = f"TCPIP::{host}::{port}::SOCKET"
        resource = await offload(lambda: manager.open_resource(name, read_termination=end, write_termination="\n"))
        resource.timeout = 5_000

        async def ask(text: str) -> str:
            return str(await offload(resource.query, text))

        async def tell(text: str) -> None:
            await offload(resource.write, text)

        yield twin, ask, tell
        await offload(resource.close)
    finally:
        await offload(manager.close)
        offload.close()
        await twin.close()


async def test_it_drives_a_polatis_switch() -> None:
    async with session("polatis-scpi", "polatis-6000", "8x8", end="\r\n") as (twin, ask, tell):
        vendor, code, serial, firmware = (await ask("*IDN?")).split(",")
        assert (vendor, code, firmware) == ("Polatis", "N-OST-8x8-LA1-TWIN", "6.5.1.7")
        assert serial
        assert await ask(":OXC:SWITch:SIZE?") == "8,8"
        await tell(":oxc:swit:conn:add (@1,2),(@10,9)")
        assert await ask(":oxc:swit:conn:stat?") == "(@1,2),(@10,9)"
        assert await ask(":oxc:swit:conn:only (@1,3),(@9,11);stat?") == "(@1,3),(@9,11)"
        twin.mirror.set_input(PortSide.parse("1A"), 0.0)
        async with asyncio.timeout(5):  # the monitor averages
            while not -2.7 < float((await ask(":pmon:pow? (@9)")).strip("()")) < -0.5:
                pass
        await tell(":oxc:swit:conn:add (@1),(@77)")
        assert await ask("SYSTem:ERRor?") == '-222, "Data out of range;Invalid OXC port: 77"'
        assert await ask("*OPC?") == "1"
        await tell("*RST")
        assert await ask(":oxc:swit:conn:stat?") == "(@),(@)"


async def test_it_drives_a_dicon_matrix() -> None:
    async with session("dicon-mxs", "mxs-9100", "4x4", end="\r") as (twin, ask, tell):
        assert (await ask("*IDN?")).startswith("DiCon,MXS-9100-4x4,")
        await tell("ROUTE1:SCAN 3")
        async with asyncio.timeout(5):
            while await ask("STATus?") != "READY":
                pass
        assert await ask("ROUT1:SCAN?") == "3"
        await tell("ROUT9:SCAN 3")
        assert (await ask("SYST:ERR?")).startswith("-222")
        assert [str(pair) for pair in twin.mirror.crossconnects()] == ["1A-3B"]
