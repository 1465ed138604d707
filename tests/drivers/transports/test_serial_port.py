"""Serial ports on real pseudo-terminals: bytes both ways, ports that are gone, busy or never read by the other side."""

import asyncio
import contextlib
import os
import tty
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ConfigError, LinkError
from hwd_drivers.devices.ordered import OrderedConnection, Request
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.transports.serial_line import SerialLine
from hwd_drivers.transports.serial_port import SerialPort

from ..parts import Recorder

LINE = SerialLine(baud=115_200, rtscts=True)


class Terminal:
    """A pseudo-terminal; this end is what a device would have."""

    def __init__(self) -> None:
        self.fd, other = os.openpty()
        tty.setraw(other)
        self.path = os.ttyname(other)
        os.set_blocking(self.fd, False)
        self._other = other

    def unplug(self) -> None:
        for fd in (self.fd, self._other):
            if fd >= 0:
                os.close(fd)
        self.fd = self._other = -1

    async def read(self, size: int) -> bytes:
        """So many bytes that the port sent."""
        loop = asyncio.get_running_loop()
        got, ready = bytearray(), asyncio.Event()
        loop.add_reader(self.fd, ready.set)
        try:
            while len(got) < size:
                ready.clear()
                await ready.wait()
                with contextlib.suppress(BlockingIOError):
                    got += os.read(self.fd, size - len(got))
        finally:
            loop.remove_reader(self.fd)
        return bytes(got)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.unplug()


async def connect(address: str) -> OrderedConnection[bytes]:
    deadline_s = asyncio.get_running_loop().time() + 5
    return await OrderedConnection.open(
        TcpDialer(),
        address,
        name="sw1",
        decode=lambda data: [data],
        clock=SystemClock(),
        deadline_s=deadline_s,
        serial=LINE,
    )


@contextlib.asynccontextmanager
async def opened(terminal: Terminal) -> AsyncIterator[tuple[asyncio.Transport, Recorder]]:
    transport, recorder = await TcpDialer().connect(Recorder, LINE.complete(terminal.path))
    try:
        yield transport, recorder
    finally:
        transport.abort()
        await recorder.lost()


async def test_bytes_arrive_both_ways_as_they_are_and_not_while_the_port_is_paused(terminal: Terminal) -> None:
    every = bytes(range(256))  # none of them is taken for a control character
    async with opened(terminal) as (transport, recorder):
        assert recorder.told == ["made"]
        assert isinstance(transport, SerialPort)
        transport.write(every)
        assert await terminal.read(256) == every
        os.write(terminal.fd, every)
        await asyncio.wait_for(recorder.until_received(256), 5)
        assert recorder.received == every
        transport.pause_reading()
        os.write(terminal.fd, b"later")
        await asyncio.sleep(0.05)
        assert recorder.received == every
        transport.resume_reading()
        await asyncio.wait_for(recorder.until_received(261), 5)


async def test_excess_bytes_wait_and_pause_the_writer_and_closing_sends_them(terminal: Terminal) -> None:
    data = bytes(range(256)) * 1024
    async with opened(terminal) as (transport, recorder):
        transport.write(data[:100_000])
        transport.write(data[100_000:])
        assert recorder.told == ["made", "pause"]
        assert transport.get_write_buffer_size() > 0
        assert await terminal.read(len(data)) == data
        assert recorder.told == ["made", "pause", "resume"]
        assert transport.get_write_buffer_size() == 0
    data = b"x" * 50_000
    async with opened(terminal) as (transport, recorder):
        transport.write(data)
        transport.close()
        transport.write(b"too late")
        assert await terminal.read(len(data)) == data
        assert await recorder.lost() is None


async def test_aborting_twice_ends_once_and_a_port_that_is_unplugged_is_a_lost_connection(terminal: Terminal) -> None:
    async with opened(terminal) as (transport, recorder):
        transport.write(b"x" * 1_000_000)
        transport.abort()
        transport.abort()
        transport.close()
        assert await recorder.lost() is None
    async with opened(terminal) as (_, recorder):
        terminal.unplug()
        assert isinstance(await asyncio.wait_for(recorder.lost(), 5), OSError)


async def test_a_port_that_another_program_has_is_busy(terminal: Terminal) -> None:
    async with opened(terminal):
        with pytest.raises(OSError, match="Another program has it open: `fuser -v`"):
            await TcpDialer().connect(Recorder, LINE.complete(terminal.path))
    async with opened(terminal) as (transport, _):
        transport.write(b"free again")
        assert await terminal.read(10) == b"free again"


@pytest.mark.parametrize(
    ("place", "error", "finding"),
    [
        ("{folder}/ttyUSB9", LinkError, r"cannot connect to .*No such file or directory\. Is it plugged in"),
        ("{folder}/file", LinkError, "Is it a serial port"),
        ("{terminal}?stopbits=7", ConfigError, r"stopbits=7 is not one of 1, 2"),
    ],
    ids=["none", "a file", "setting"],
)
async def test_what_is_no_serial_port_is_refused_with_a_remedy(
    terminal: Terminal, tmp_path: Path, place: str, error: type[Exception], finding: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(error, match=f"sw1: .*{finding}"):
        await connect("serial:" + place.format(folder=tmp_path, terminal=terminal.path))


async def test_an_exchange_and_a_close_that_is_bounded_where_the_other_side_never_reads(terminal: Terminal) -> None:
    connection = await connect(terminal.path)
    asked = asyncio.create_task(
        connection.request(Request(data=b"S?\n", what="S?"), deadline_s=asyncio.get_running_loop().time() + 5)
    )
    assert await terminal.read(3) == b"S?\n"
    os.write(terminal.fd, b"1\r\n")
    assert (await asked).messages == (b"1\r\n",)
    await connection.close()
    connection = await connect(terminal.path)
    connection.send_last(b"x" * 1_000_000)
    started_s = asyncio.get_running_loop().time()
    await connection.close()
    assert asyncio.get_running_loop().time() - started_s < 2.0
