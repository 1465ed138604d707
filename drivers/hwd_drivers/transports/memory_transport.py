"""MemoryTransport: one end of a connection in memory, with the buffers and the flow control of a socket."""

import asyncio
import contextvars
import errno
import os
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from typing_extensions import override

SOCKET_BUFFER_BYTES = 64 * 1024
"""Most bytes in flight one way before the writer's own buffer fills; about the size of a kernel's socket buffer."""
WRITE_HIGH_BYTES = 64 * 1024
"""Default of the limit above which a protocol is asked to pause, as in asyncio's own transports."""


class Net(Protocol):
    """The network that the connection is in (`memory.MemoryNet`)."""

    latency_s: float
    """The time that bytes take one way."""
    chunk_bytes: int | None
    """The most that one `data_received` gets; None keeps every write whole."""

    def holds(self, address: str) -> bool:
        """Whether bytes to and from `address` wait."""

    def forget(self, end: "MemoryTransport") -> None:
        """Take note that this end is closed."""


class MemoryTransport(asyncio.Transport):
    """One end of a connection. Its callbacks run in the context in which it was made, and stop with their node.

    Unlike TCP, closing with unread bytes ends the peer's stream in order instead of resetting it.
    """

    def __init__(
        self,
        net: Net,
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context,
        address: str,
        node: str | None,
        sockname: str,
        peername: str,
    ) -> None:
        super().__init__({"sockname": sockname, "peername": peername})
        self.node = node
        self._net = net
        self._at = loop
        self._context = context
        self._address = address
        self._peer = self
        self._protocol: asyncio.Protocol | None = None
        self.started = False
        self._waiting: deque[bytes] = deque()  # the writer's own buffer
        self._waiting_bytes = 0
        self._low_bytes, self._high_bytes = WRITE_HIGH_BYTES // 4, WRITE_HIGH_BYTES
        self._writer_paused = False
        self._flying: deque[tuple[float, bytes]] = deque()  # to this end, with the time it is due; b"" ends the stream
        self._flying_bytes = 0
        self._pump_handle: asyncio.Handle | None = None
        self._paused = False
        self._ended = False  # no more writes
        self._end_sent = False
        self._closing = False
        self._closed = False  # the socket is closed; connection_lost was called or will be soon

    def join(self, peer: "MemoryTransport") -> None:
        self._peer, peer._peer = peer, self

    def start_with(self, factory: Callable[[], asyncio.Protocol]) -> None:
        """Make the protocol and call its `connection_made`; bytes that came earlier have waited."""
        if self._closed:
            return
        try:
            self._protocol = factory()
            self.started = True
            self._protocol.connection_made(self)
        except Exception:
            self._close_socket(None)
            raise
        self.pump_soon()

    @override
    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    @override
    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        if not isinstance(protocol, asyncio.Protocol):
            raise TypeError(f"{self}: {protocol!r} is no asyncio.Protocol")
        self._protocol = protocol

    @override
    def is_closing(self) -> bool:
        return self._closing

    @override
    def is_reading(self) -> bool:
        return not self._paused and not self._closing

    @override
    def pause_reading(self) -> None:
        self._paused = True

    @override
    def resume_reading(self) -> None:
        if self._paused and not self._closing:
            self._paused = False
            self.pump_soon()

    @override
    def get_write_buffer_size(self) -> int:
        return self._waiting_bytes

    @override
    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_bytes, self._high_bytes

    @override
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = WRITE_HIGH_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._low_bytes, self._high_bytes = low, high
        self._control_writer()

    @override
    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data: a bytes-like object is needed, not {type(data).__name__!r}")
        if self._ended:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._closing or not data:
            return
        self._waiting.append(bytes(data))
        self._waiting_bytes += len(self._waiting[-1])
        self._launch()
        self._control_writer()

    @override
    def can_write_eof(self) -> bool:
        return True

    @override
    def write_eof(self) -> None:
        if not self._closing and not self._ended:
            self._ended = True
            self._launch()

    @override
    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._launch()

    @override
    def abort(self) -> None:
        self._close_socket(None)

    def reset(self) -> None:
        """Break as by a reset from the peer or the network."""
        self._flying.clear()
        self._close_socket(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))

    def stop(self) -> None:
        """Close without calling the protocol, whose process was killed."""
        self._protocol = None
        self._close_socket(None)

    def pump_soon(self) -> None:
        """Deliver the next chunk to this end when it is due."""
        if not self._flying or self._pump_handle is not None or self._is_deaf():
            return
        due_s = self._flying[0][0]
        if due_s <= self._at.time():
            self._pump_handle = self._at.call_soon(self._pump, context=self._context)
        else:
            self._pump_handle = self._at.call_at(due_s, self._pump, context=self._context)

    def _is_deaf(self) -> bool:
        return not self.started or self._paused or self._closing or self._net.holds(self._address)

    def _pump(self) -> None:
        self._pump_handle = None
        if self._is_deaf() or not self._flying:
            return
        assert self._protocol is not None
        _, data = self._flying.popleft()
        self._flying_bytes -= len(data)
        self._notify_room()
        try:
            if data:
                self._protocol.data_received(data)
            elif not self._protocol.eof_received():
                self.close()
        except Exception as error:  # noqa: BLE001 - as asyncio's own transports: it ends the connection
            what = "data_received" if data else "eof_received"
            message = f"Fatal error: protocol.{what}() call failed."
            context = {"message": message, "exception": error, "transport": self, "protocol": self._protocol}
            self._at.call_exception_handler(context)
            self._close_socket(error)
        self.pump_soon()

    def _notify_room(self) -> None:
        if self._peer._waiting:
            self._at.call_soon(self._peer._landed, context=self._peer._context)

    def _landed(self) -> None:
        """The peer received bytes of ours: there is room for more."""
        self._launch()
        if not self._closed:
            self._control_writer()

    def _control_writer(self) -> None:
        """Ask the protocol to pause or to resume, where a limit of the buffer is crossed."""
        pause = self._waiting_bytes > (self._low_bytes if self._writer_paused else self._high_bytes)
        if pause is self._writer_paused or self._protocol is None:
            return
        self._writer_paused = pause
        try:
            if pause:
                self._protocol.pause_writing()
            else:
                self._protocol.resume_writing()
        except Exception as error:  # noqa: BLE001 - as asyncio's own transports do: the connection goes on
            what = "pause_writing" if pause else "resume_writing"
            message = f"protocol.{what}() failed"
            context = {"message": message, "exception": error, "transport": self, "protocol": self._protocol}
            self._at.call_exception_handler(context)

    def _launch(self) -> None:
        """Send as many bytes as fit, then the end of the stream if it was asked for."""
        if self._closed:
            return
        peer = self._peer
        due_s = self._at.time() + self._net.latency_s
        while self._waiting and peer._flying_bytes < SOCKET_BUFFER_BYTES:
            data = self._waiting.popleft()
            self._waiting_bytes -= len(data)
            if peer._closed:
                self._at.call_at(due_s + self._net.latency_s, self.reset, context=self._context)
                continue
            step = self._net.chunk_bytes or len(data)
            peer._flying.extend((due_s, data[at : at + step]) for at in range(0, len(data), step))
            peer._flying_bytes += len(data)
        if not self._waiting and self._closing:
            self._close_socket(None)
        elif not self._waiting and self._ended:
            self._send_end()
        peer.pump_soon()

    def _send_end(self) -> None:
        if not self._end_sent:
            self._end_sent = True
            self._peer._flying.append((self._at.time() + self._net.latency_s, b""))

    def _close_socket(self, error: Exception | None) -> None:
        if self._closed:
            return
        self._closed = self._closing = True
        self._waiting.clear()
        self._waiting_bytes = 0
        self._flying.clear()
        self._flying_bytes = 0
        self._net.forget(self)
        if not self._peer._closed:
            self._send_end()
            self._peer.pump_soon()
            self._notify_room()
        if self._protocol is not None:
            self._at.call_soon(self._protocol.connection_lost, error, context=self._context)
