"""A pseudo-terminal with a twin behind it: serial clients open it by its name."""

import asyncio
import errno
import os
from pathlib import Path

import pytest
import serial
from typing_extensions import override

from hwd_drivers.core.clock import SystemClock
from hwd_drivers.twins.terminal import READ_BYTES, UNREAD_LIMIT_BYTES, TerminalDialer, TerminalListener

from ..parts import context, twin


class Upper(asyncio.Protocol):
    """Echoes received text in capitals, with the number of its session."""

    sessions = 0

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        Upper.sessions += 1
        self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        if data.startswith(b"end"):
            self.transport.close()
        else:
            self.transport.write(str(Upper.sessions).encode() + data.upper())


@pytest.fixture(autouse=True)
def none_yet() -> None:
    Upper.sessions = 0


def say(path: Path, *words: bytes) -> bytes:
    """As any program that uses pyserial does."""
    said = b""
    with serial.Serial(str(path), 115200, timeout=5) as port:
        for word in words:
            port.write(word)
            said += port.read(len(word) + 1)
    return said


async def test_serial_client_opens_it_by_its_name_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "ttyOSW"
    listener = await TerminalDialer().listen(Upper, f"serial:{path}?baud=9600")
    assert listener.address == f"serial:{path}"
    talk = asyncio.get_running_loop().run_in_executor
    assert await talk(None, say, path, b"one", b"two") == b"1ONE1TWO"
    assert await talk(None, say, path, b"three") == b"1THREE", "a line knows no sessions of its clients"
    await listener.close()
    await listener.close()
    assert not path.is_symlink()


async def test_session_that_is_cut_is_followed_by_another_on_the_same_line(tmp_path: Path) -> None:
    path = tmp_path / "ttyOSW"
    listener = TerminalListener(Upper, str(path))
    talk = asyncio.get_running_loop().run_in_executor

    def cut() -> bytes:
        with serial.Serial(str(path), 115200, timeout=5) as port:
            port.write(b"end")
            port.flush()
            said = b""
            while not said:
                port.write(b"x")
                port.timeout = 0.1
                said = port.read(1)
            return said

    assert await talk(None, cut) == b"2"
    await listener.close()


async def test_name_that_is_taken_is_refused_and_one_that_leads_nowhere_is_not(tmp_path: Path) -> None:
    path = tmp_path / "ttyOSW"
    path.write_text("mine")
    with pytest.raises(OSError, match="exists already") as raised:
        TerminalListener(Upper, str(path))
    assert (raised.value.errno, path.read_text()) == (errno.EADDRINUSE, "mine")
    path.unlink()
    path.symlink_to("/dev/pts/999999")
    listener = TerminalListener(Upper, str(path))
    assert path.exists()
    with pytest.raises(OSError, match="exists already"):
        TerminalListener(Upper, str(path))
    await listener.close()
    with pytest.raises(OSError, match="No such file"):
        TerminalListener(Upper, str(tmp_path / "nowhere" / "ttyOSW"))


async def test_what_nobody_reads_is_lost_beyond_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "ttyOSW"
    listener = TerminalListener(Upper, str(path))
    assert listener._session is not None
    for _ in range(2 * UNREAD_LIMIT_BYTES // READ_BYTES):
        listener._session.write(bytes(READ_BYTES))
    assert len(listener._session._unread) <= UNREAD_LIMIT_BYTES
    listener._session.abort()
    await listener.close()
    await asyncio.sleep(0)


async def test_twin_of_a_serial_switch_answers_a_serial_client_and_reboots(tmp_path: Path) -> None:
    path = tmp_path / "ttyOSW"
    session = context("thorlabs-osw", "osw12", None, TerminalDialer(), SystemClock())
    unit = twin(session, "thorlabs-osw", address=str(path))
    assert await unit.start() == f"serial:{path}"

    def ask(*commands: bytes) -> bytes:
        with serial.Serial(str(path), 115200, timeout=5) as port:
            for command in commands:
                port.write(command)
            return bytes(port.readline())

    talk = asyncio.get_running_loop().run_in_executor
    assert await talk(None, ask, b"S 2\n", b"S?\n") in (b"1\r\n", b"2\r\n"), "the first one after a set may be stale"
    assert await talk(None, ask, b"S?\n") == b"2\r\n"
    unit.faults.reboot(0.05)
    await asyncio.sleep(0.01)
    assert not os.path.exists(path)
    async with asyncio.timeout(5):
        for _ in range(1000):
            if os.path.exists(path):
                break
            await asyncio.sleep(0.01)
    assert await talk(None, ask, b"S?\n") in (b"1\r\n", b"2\r\n")
    await unit.close()
    assert not path.is_symlink()
