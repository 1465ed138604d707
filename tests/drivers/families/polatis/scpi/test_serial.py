"""The Polatis driver over a serial line: a pseudo-terminal to the twin, which ends answers in CR there."""

import asyncio
import contextlib
import os
import tty
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Json
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.polatis.models import scpi_driver as driver
from hwd_drivers.families.polatis.scpi.driver import PolatisScpiOptions, PolatisScpiSwitch
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.twins.registry import twin_of
from hwd_drivers.twins.terminal import TerminalDialer
from hwd_drivers.twins.timing import find_timing


@contextlib.asynccontextmanager
async def terminal_to(address: str) -> AsyncIterator[str]:
    """A pseudo-terminal that leads to `address`."""
    device, port = os.openpty()
    tty.setraw(port)
    os.set_blocking(device, False)
    reader, writer = await asyncio.open_connection(*address.rsplit(":", 1))
    loop = asyncio.get_running_loop()

    def from_port() -> None:
        with contextlib.suppress(BlockingIOError):
            writer.write(os.read(device, 4096))

    async def to_port() -> None:
        while data := await reader.read(4096):
            os.write(device, data)

    loop.add_reader(device, from_port)
    pump = asyncio.create_task(to_port(), name="hwd:test/pump")
    try:
        yield os.ttyname(port)
    finally:
        loop.remove_reader(device)
        pump.cancel()
        await asyncio.wait([pump])
        writer.close()
        await writer.wait_closed()
        os.close(device)
        os.close(port)


async def test_the_driver_drives_a_unit_over_a_serial_line() -> None:
    capabilities = driver.capabilities("polatis-6000", "8x8")
    twin = twin_of(driver).make(
        name="ocs1",
        capabilities=capabilities,
        timing=find_timing("ideal"),
        draws=Draws(7),
        clock=SystemClock(),
        dialer=TcpDialer(),
        address="127.0.0.1:0",
        options={"scpi_line_end": "cr"},
    )
    listening = await twin.start()
    try:
        async with terminal_to(listening) as path:
            switch = await PolatisScpiSwitch.open(
                OpenContext(
                    name="ocs1",
                    address=path,
                    dialer=TcpDialer(),
                    clock=SystemClock(),
                    sink=lambda document: None,
                    user=None,
                    password=None,
                    options=PolatisScpiOptions(),
                    capabilities=capabilities,
                )
            )
            loop = asyncio.get_running_loop()
            pairs = [Crossconnect.parse(f"{port}A-{9 - port}B") for port in range(1, 9)]
            await switch.change_crossconnects(remove=(), add=pairs, deadline_s=loop.time() + 5)
            readings = await switch.read_crossconnects(deadline_s=loop.time() + 5)
            assert [reading.crossconnect for reading in readings] == pairs
            assert twin.mirror.crossconnects() == pairs
            assert (await switch.identify(deadline_s=loop.time() + 5)).vendor == "Polatis"
            await switch.close()
    finally:
        await twin.close()


@pytest.mark.parametrize(("options", "end"), [({}, b"\r"), ({"scpi_line_end": "crlf"}, b"\r\n")])
async def test_unit_at_a_serial_port_ends_its_answers_in_cr(
    tmp_path: Path, options: dict[str, Json], end: bytes
) -> None:
    twin = twin_of(driver).make(
        name="ocs1",
        capabilities=driver.capabilities("polatis-6000", "8x8"),
        timing=find_timing("ideal"),
        draws=Draws(7),
        clock=SystemClock(),
        dialer=TerminalDialer(),
        address=f"serial:{tmp_path / 'tty'}",
        options=options,
    )
    await twin.start()
    try:
        port = os.open(tmp_path / "tty", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        came = asyncio.Event()
        heard = bytearray()

        def hear() -> None:
            heard.extend(os.read(port, 4096))
            if heard.endswith(end):
                came.set()

        asyncio.get_running_loop().add_reader(port, hear)
        os.write(port, b":oxc:swit:size?\r\n")
        async with asyncio.timeout(5):
            await came.wait()
        asyncio.get_running_loop().remove_reader(port)
        os.close(port)
        assert bytes(heard) == b"8,8" + end
    finally:
        await twin.close()
