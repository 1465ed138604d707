"""TerminalDialer: a twin on a serial port, made of a pseudo-terminal with a path of its own."""

import asyncio
import contextlib
import errno
import os
import tty
from collections.abc import Callable
from typing import Final

from typing_extensions import override

from hwd_drivers.transports.dial import Listener, TcpDialer
from hwd_drivers.transports.serial_line import PREFIX, is_serial

READ_BYTES: Final = 4096
UNREAD_LIMIT_BYTES: Final = 64 * 1024
"""Limit of unread bytes; more are lost, as on a line without flow control."""
AGAIN_S: Final = 0.05
"""Pause between a cut session and the next: the line still exists."""


class TerminalDialer(TcpDialer):
    """Listens at serial addresses too, by a pseudo-terminal with that path."""

    @override
    async def listen(self, factory: Callable[[], asyncio.Protocol], address: str) -> Listener:
        if is_serial(address):
            return TerminalListener(factory, address.removeprefix(PREFIX).partition("?")[0])
        return await super().listen(factory, address)


class TerminalListener:
    """The port exists at `path` until it is closed.

    It has one session after the other, each with its own protocol; the first starts at once.
    """

    def __init__(self, factory: Callable[[], asyncio.Protocol], path: str) -> None:
        """Raises OSError where another file exists at `path`."""
        self._factory = factory
        self._path = path
        self._main, self._port = os.openpty()
        tty.setraw(self._port)
        os.set_blocking(self._main, False)
        try:
            _name(os.ttyname(self._port), path)
        except OSError:
            self._close_line()
            raise
        self._session: _TerminalTransport | None = None
        self._again: asyncio.TimerHandle | None = None
        self._closed = False
        self._begin()

    @property
    def address(self) -> str:
        return f"{PREFIX}{self._path}"

    async def close(self) -> None:
        """Remove the port; a running session continues to its end."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        if self._again is not None:
            self._again.cancel()
        if self._session is None:
            self._close_line()

    def cut(self) -> None:
        """Nothing to cut: its session has a protocol."""

    def _begin(self) -> None:
        self._session = _TerminalTransport(self._main, self._factory(), self._ended)
        self._session.begin()

    def _ended(self) -> None:
        self._session = None
        if self._closed:
            self._close_line()
        else:
            self._again = asyncio.get_running_loop().call_later(AGAIN_S, self._begin)

    def _close_line(self) -> None:
        os.close(self._main)
        os.close(self._port)


class _TerminalTransport(asyncio.Transport):
    """One session on our side of a pseudo-terminal."""

    def __init__(self, fd: int, protocol: asyncio.Protocol, ended: Callable[[], None]) -> None:
        super().__init__()
        self._fd = fd
        self._protocol = protocol
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._unread = bytearray()
        self._closing = False

    def begin(self) -> None:
        self._loop.add_reader(self._fd, self._read)
        self._protocol.connection_made(self)

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        if not self._unread:
            self._loop.add_writer(self._fd, self._write)
        self._unread += data
        del self._unread[UNREAD_LIMIT_BYTES:]
        self._write()

    @override
    def close(self) -> None:
        """Stop reading; written bytes are sent as far as there is room."""
        if not self._closing:
            self._write()
            self.abort()

    @override
    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
            self._loop.call_soon(self._lose)

    @override
    def is_closing(self) -> bool:
        return self._closing

    @override
    def get_write_buffer_size(self) -> int:
        return len(self._unread)

    def _lose(self) -> None:
        self._protocol.connection_lost(None)
        self._ended()

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._protocol.data_received(os.read(self._fd, READ_BYTES))

    def _write(self) -> None:
        with contextlib.suppress(BlockingIOError):
            del self._unread[: os.write(self._fd, self._unread)]
        if not self._unread:
            self._loop.remove_writer(self._fd)


def _name(device: str, path: str) -> None:
    """Link `path` to the device. A dangling link belongs to a port that was removed, and is replaced."""
    if os.path.islink(path) and not os.path.exists(path):
        os.unlink(path)
    try:
        os.symlink(device, path)
    except FileExistsError:
        raise OSError(errno.EADDRINUSE, f"{path}: exists already. Name another path") from None
