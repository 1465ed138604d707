"""SocketPump: copies bytes between a connection of a Dialer and a socket that another thread reads and writes."""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from typing_extensions import override

CHUNK_BYTES: Final = 65536
HELD_BYTES: Final = 256 * 1024
"""Most bytes that wait for the other thread; above it the connection is not read."""


class SocketPump(asyncio.Protocol):
    """One connection; `theirs` is the socket of the other thread, which closes it at its end.

    `ended` is done when the other thread has closed its socket, `gone` when the connection is lost; `cause` is then the
    reason, None for an orderly end.
    """

    def __init__(self, *, made: Callable[["SocketPump"], None] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._ours, self.theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._made = made
        self._held = bytearray()
        self._transport: asyncio.Transport | None = None
        self._closed = False
        self.connected = False
        self.cause: Exception | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.gone: asyncio.Future[None] = self._loop.create_future()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.connected = True
        self._loop.add_reader(self._ours, self._from_them)
        if self._made is not None:
            self._made(self)

    def peer(self) -> str:
        """Address of the other side, for logs."""
        return "" if self._transport is None else str(self._transport.get_extra_info("peername"))

    def end(self) -> None:
        """End the connection in order: bytes that the other thread has written are still sent."""
        while self.connected and not self._closed and self._from_them():
            pass
        if self._transport is not None:
            self._transport.close()
        self._end_theirs()

    def abort(self) -> None:
        """Cut the connection at once."""
        if self._transport is not None:
            self._transport.abort()
        self._end_theirs()

    def close(self) -> None:
        """Close the sockets of a connection that was never made."""
        if not self.connected:
            self._finish()
            self.theirs.close()
            if self._transport is None and not self.gone.done():
                self.gone.set_result(None)

    @override
    def data_received(self, data: bytes) -> None:
        if self._closed or not self.connected:
            return
        if self._held:
            self._held += data
        elif (sent := self._send(data)) < len(data):
            self._held += data[sent:]
            self._loop.add_writer(self._ours, self._to_them)
        if len(self._held) > HELD_BYTES and self._transport is not None:
            self._transport.pause_reading()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.cause = exc
        self._end_theirs()
        if not self.gone.done():
            self.gone.set_result(None)

    @override
    def pause_writing(self) -> None:
        if not self._closed:
            self._loop.remove_reader(self._ours)

    @override
    def resume_writing(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._ours, self._from_them)

    def _to_them(self) -> None:
        """Send waiting bytes to the other thread."""
        del self._held[: self._send(self._held)]
        if not self._held and not self._closed:
            self._loop.remove_writer(self._ours)
            if not self.connected:
                self._shut()
            elif self._transport is not None:
                self._transport.resume_reading()

    def _send(self, data: bytes | bytearray) -> int:
        """Send to the other thread. Returns how many bytes there was room for, all if it has closed its socket."""
        try:
            return self._ours.send(data)
        except BlockingIOError:
            return 0
        except OSError:  # they have closed theirs: what they do not want to read is dropped, and reading ours ends us
            return len(data)

    def _from_them(self) -> bool:
        """Copy bytes from the other thread; returns whether there were any."""
        try:
            data = self._ours.recv(CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:  # they closed it with unread bytes
            data = b""
        if data and self._transport is not None:
            self._transport.write(data)
        if not data:
            self._finish()
        return bool(data)

    def _end_theirs(self) -> None:
        """Let the other thread read the remaining bytes and the end, and close."""
        self.connected = False
        if self._closed:
            return
        self._loop.add_reader(self._ours, self._from_them)  # reading may be paused for the lost connection
        if not self._held:
            self._shut()

    def _shut(self) -> None:
        """Shut down our writing side: all bytes for the other thread are sent."""
        try:
            self._ours.shutdown(socket.SHUT_WR)
        except OSError:  # they have closed already
            self._finish()

    def _finish(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._ours)
        self._loop.remove_writer(self._ours)
        self._ours.close()
        if self._transport is not None:
            self._transport.close()
        self.ended.set_result(None)
