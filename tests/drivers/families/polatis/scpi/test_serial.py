"""The Polatis driver over a serial line: a pseudo-terminal to the twin, which ends answers in CR there."""

import asyncio
import os
from pathlib import Path

import pytest

from hwd_drivers.core.documents import Json
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.twins.terminal import TerminalDialer

from ....stage import Stage, terminal_to, texts


async def test_the_driver_drives_a_unit_over_a_serial_line() -> None:
    async with Stage("polatis-scpi", "polatis-6000", "8x8", dialer=TcpDialer()) as stage:
        await stage.start(scpi_line_end="cr")
        async with terminal_to(stage.address) as stage.address:
            switch = await stage.open()
            wanted = texts(f"{port}A-{9 - port}B" for port in range(1, 9))
            await switch.change(add=wanted)
            assert await switch.pairs() == stage.lit() == wanted
            await switch.close()


@pytest.mark.parametrize(("options", "end"), [({}, b"\r"), ({"scpi_line_end": "crlf"}, b"\r\n")])
async def test_unit_at_a_serial_port_ends_its_answers_in_cr(
    tmp_path: Path, options: dict[str, Json], end: bytes
) -> None:
    address = f"serial:{tmp_path / 'tty'}"
    async with Stage("polatis-scpi", "polatis-6000", "8x8", dialer=TerminalDialer(), address=address) as stage:
        await stage.start(**options)
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
