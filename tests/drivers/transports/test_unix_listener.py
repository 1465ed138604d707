"""A Unix socket is found again after a clean-up, by the same name and by nobody more."""

import asyncio
import shutil
import socket
from pathlib import Path

import pytest

from hwd_drivers.transports.unix_listener import UnixListener


class Greeter(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello\n")


async def greeting(path: Path) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    line = await reader.readline()
    writer.transport.abort()
    return line


async def test_socket_whose_folder_a_clean_up_has_removed_listens_there_again(tmp_path: Path) -> None:
    path = tmp_path / "run" / "h0.sock"
    path.parent.mkdir()
    path.parent.chmod(0o2751)
    listener = await UnixListener.open(Greeter, path, mode=0o660)
    reader, writer = await asyncio.open_unix_connection(path)
    assert await reader.readline() == b"hello\n"
    assert not await listener.restore()
    shutil.rmtree(path.parent)
    assert await listener.restore()
    assert path.stat().st_mode & 0o777 == 0o660
    assert path.parent.stat().st_mode & 0o7777 == 0o2751, "others come through its folder as before"
    assert await greeting(path) == b"hello\n"
    assert not reader.at_eof(), "a connection from before goes on"
    writer.transport.abort()
    await listener.close()
    assert not path.exists()


async def test_file_of_somebody_else_stays_and_a_socket_that_cannot_be_made_leaves_none(tmp_path: Path) -> None:
    path = tmp_path / "h0.sock"
    listener = await UnixListener.open(Greeter, path)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        assert not await listener.restore()
        await listener.close()
        assert path.is_socket()
    with pytest.raises(LookupError):
        await UnixListener.open(Greeter, tmp_path / "h1.sock", group="no-such-group")
    assert not (tmp_path / "h1.sock").exists()
