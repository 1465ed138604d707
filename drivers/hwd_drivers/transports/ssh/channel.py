"""ChannelTransport: a channel of an SSH connection as an asyncio.Transport, for any asyncio.Protocol."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import paramiko
from typing_extensions import override

from hwd_drivers.core.errors import LinkError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.transports.ssh.workers import SshWorkers

CHUNK_BYTES: Final = 32768
OUT_BYTES: Final = 1 << 20
"""Most bytes that wait for the other side to read them; above it reading from the other side pauses."""
FULL_S: Final = 0.02
"""How long to wait for room where the other side does not read."""


class ChannelTransport(asyncio.Transport):
    """One channel; its protocol gets the output, and `errors` is called with the error output.

    `finish(status)` ends it like the end of a command. `abort` calls `cut`: at a server it cuts the whole connection,
    at a client the channel.
    """

    def __init__(
        self,
        channel: paramiko.Channel,
        *,
        workers: SshWorkers,
        extra: Mapping[str, Any],
        cut: Callable[[], None] | None = None,
        errors: Callable[[bytes], None] | None = None,
    ) -> None:
        super().__init__(dict(extra))
        self.channel = channel
        self._loop = asyncio.get_running_loop()
        self._workers = workers
        self._cut = cut
        self._errors = errors
        self._protocol: asyncio.Protocol | None = None
        self._out = bytearray()
        self._errors_out = bytearray()
        self._writing: asyncio.Task[None] | None = None
        self._status: int | None = None
        self._paused = False
        self._ended = False
        self._closing = False
        self._lost = False

    def start(self, protocol: asyncio.Protocol) -> None:
        """Deliver received bytes to `protocol` from now on."""
        self._protocol = protocol
        self.channel.settimeout(0.0)
        protocol.connection_made(self)
        wake = _Wake(self._loop, self._receive)
        self.channel.in_buffer.set_event(wake)
        self.channel.in_stderr_buffer.set_event(wake)
        self._receive()

    @override
    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        if not self._closing:
            self._out += data
            self._write_on()

    def write_errors(self, data: bytes) -> None:
        """Send error output."""
        if not self._closing:
            self._errors_out += data
            self._write_on()

    def finish(self, status: int) -> None:
        """Send the exit status after all output, and close."""
        self._status = status
        self.close()

    @override
    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._write_on()

    @override
    def abort(self) -> None:
        self._closing = True
        self._out.clear()
        self._errors_out.clear()
        if self._cut is not None:
            self._cut()
        self._write_on()
        self._lose(None)

    @override
    def is_closing(self) -> bool:
        return self._closing

    @override
    def get_write_buffer_size(self) -> int:
        return len(self._out) + len(self._errors_out)

    @override
    def is_reading(self) -> bool:
        return not self._paused and not self._closing

    @override
    def pause_reading(self) -> None:
        self._paused = True

    @override
    def resume_reading(self) -> None:
        self._paused = False
        self._loop.call_soon(self._receive)

    @override
    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    @override
    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def _receive(self) -> None:
        """Deliver received bytes; called when bytes come, at their end, and when there is room again."""
        channel, protocol = self.channel, self._protocol
        assert protocol is not None
        while not self._lost and not self._paused and self.get_write_buffer_size() <= OUT_BYTES:
            if channel.in_stderr_buffer.read_ready():
                data = channel.recv_stderr(CHUNK_BYTES)
                if self._errors is not None:
                    self._errors(data)
            elif channel.in_buffer.read_ready():
                protocol.data_received(channel.recv(CHUNK_BYTES))
            else:
                break
        else:
            return
        if channel.eof_received and not self._ended:
            self._ended = True
            if not protocol.eof_received():
                self.close()
        if channel.closed:
            self._closing = True
            self._lose(None)

    def _write_on(self) -> None:
        if self._writing is None or self._writing.done():
            self._writing = self._workers.spawn(self._write(), name="hwd:ssh/write")

    async def _write(self) -> None:
        """Send the written bytes, then end the channel if that was asked for."""
        try:
            while (size := self.get_write_buffer_size()) and not self.channel.closed:
                buffer, send = (
                    (self._out, self.channel.send) if self._out else (self._errors_out, self.channel.send_stderr)
                )
                sent = await self._workers(_send, send, bytes(buffer[:CHUNK_BYTES]))
                del buffer[:sent]
                if not sent:
                    await asyncio.sleep(FULL_S)
                if size > OUT_BYTES:
                    self._receive()
            if self._closing:
                await self._workers(_end, self.channel, self._status)
                self._lose(None)
        except (OSError, paramiko.SSHException) as error:
            self._closing = True
            self._lose(LinkError(f"SSH channel: cannot send: {reason_of(error)}"))
        except asyncio.CancelledError:
            if not self._lost:
                self._lose(None)
            raise

    def _lose(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            assert self._protocol is not None
            self._loop.call_soon(self._protocol.connection_lost, error)


class _Wake(threading.Event):
    """The event that paramiko's thread sets when bytes came, or their end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        super().__init__()
        self._loop = loop
        self._callback = callback

    @override
    def set(self) -> None:
        super().set()
        try:
            self._loop.call_soon_threadsafe(self._callback)
        except RuntimeError:  # the loop is closed
            return


def _send(send: Callable[[bytes], int], data: bytes) -> int:
    """Send, and return how many bytes there was room for."""
    try:
        return send(data)
    except TimeoutError:
        return 0


def _end(channel: paramiko.Channel, status: int | None) -> None:
    if status is not None and not channel.closed:
        channel.send_exit_status(status)
    channel.close()
