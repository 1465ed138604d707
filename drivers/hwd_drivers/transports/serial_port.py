"""SerialPort: a serial port as an asyncio transport, without threads; it closes even if the other end never reads."""

import asyncio
import errno
import os
import termios
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from typing_extensions import override

from hwd_drivers.transports.serial_line import SerialLine

if TYPE_CHECKING:
    from serial import Serial

ProtoT = TypeVar("ProtoT", bound=asyncio.Protocol)

READ_BYTES: Final = 4096
DRAIN_EVERY_S: Final = 0.002
"""How often a closing port checks whether its last bytes were sent: 23 bytes at 115,200 baud."""

_REMEDIES: Final[Mapping[int | None, str]] = {
    errno.ENOENT: "Is it plugged in? `ls /dev/serial/by-id` shows what there is",
    errno.EACCES: "Add this user to the group that owns it, mostly dialout",
    errno.EAGAIN: "Another program has it open: `fuser -v` with its name shows which",
    errno.EBUSY: "Another program has it open: `fuser -v` with its name shows which",
}


async def open_serial(factory: Callable[[], ProtoT], path: str, line: SerialLine) -> tuple["SerialPort", ProtoT]:
    """Open it for this program alone. Raises OSError, with what to do about it."""
    from serial import Serial, SerialException  # imported here: a rack without serial ports does not need the package

    try:
        port = Serial(
            port=path,
            baudrate=line.baud,
            bytesize=line.bytesize,
            parity=line.parity,
            stopbits=line.stopbits,
            rtscts=line.rtscts,
            timeout=0,
            write_timeout=0,
            exclusive=True,
        )
    except (SerialException, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        text = str(error) if number is None else os.strerror(number)
        raise OSError(
            number, f"{text}. {_REMEDIES.get(number, 'Is it a serial port that knows this speed?')}"
        ) from error
    protocol = factory()
    transport = SerialPort(port, protocol)
    protocol.connection_made(transport)
    transport.resume_reading()
    return transport, protocol


class SerialPort(asyncio.Transport):
    """Made by `open_serial`. A port that is unplugged is `connection_lost` with its OSError."""

    def __init__(self, port: "Serial", protocol: asyncio.BaseProtocol) -> None:
        super().__init__(extra={"serial": port})
        self._loop = asyncio.get_running_loop()
        self._port = port
        self._fd = port.fileno()
        self._protocol = protocol
        self._unsent = bytearray()
        self._closing = False
        self._closed = False
        self._reading = False
        self._paused = False
        self._drain: asyncio.TimerHandle | None = None
        self.set_write_buffer_limits()

    @override
    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"a serial port takes bytes, not {type(data).__name__}")
        if self._closing or not data:
            return
        if not self._unsent:
            data = memoryview(data)[self._send(data) :]
            if self._closed or not data:
                return
            self._loop.add_writer(self._fd, self._write_ready)
        self._unsent += data
        if len(self._unsent) > self._high and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    @override
    def can_write_eof(self) -> bool:
        return False

    @override
    def close(self) -> None:
        """Stop reading; written bytes are still sent, as long as the line takes."""
        if self._closing:
            return
        self._closing = True
        self.pause_reading()
        if not self._unsent:
            self._until_drained()

    @override
    def abort(self) -> None:
        self._end(None)

    @override
    def is_closing(self) -> bool:
        return self._closing

    @override
    def is_reading(self) -> bool:
        return self._reading

    @override
    def pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    @override
    def resume_reading(self) -> None:
        if not self._reading and not self._closing:
            self._reading = True
            self._loop.add_reader(self._fd, self._read_ready)

    @override
    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    @override
    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    @override
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high if high is not None else 64 * 1024 if low is None else 4 * low
        self._low = low if low is not None else self._high // 4

    @override
    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    @override
    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def _read_ready(self) -> None:
        try:
            data = os.read(self._fd, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        if not data:
            self._end(OSError(errno.EIO, "the serial port was removed"))
        elif isinstance(self._protocol, asyncio.Protocol):
            self._protocol.data_received(data)

    def _write_ready(self) -> None:
        del self._unsent[: self._send(self._unsent)]
        if self._closed:
            return
        if self._paused and len(self._unsent) <= self._low:
            self._paused = False
            self._protocol.resume_writing()
        if not self._unsent:
            self._loop.remove_writer(self._fd)
            if self._closing:
                self._until_drained()

    def _send(self, data: "bytes | bytearray | memoryview[Any]") -> int:
        try:
            return os.write(self._fd, data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self._end(error)
            return 0

    def _until_drained(self) -> None:
        """Poll until written bytes are sent: waiting in the kernel would block the loop if the peer never reads."""
        try:
            waiting = self._port.out_waiting
        except OSError:
            waiting = 0  # the port was removed, and its bytes are lost
        if waiting:
            self._drain = self._loop.call_later(DRAIN_EVERY_S, self._until_drained)
        else:
            self._end(None, flush=False)

    def _end(self, error: OSError | None, *, flush: bool = True) -> None:
        if self._closed:
            return
        self.pause_reading()
        self._closing = self._closed = True
        self._loop.remove_writer(self._fd)
        if self._drain is not None:
            self._drain.cancel()
        self._unsent.clear()
        self._loop.call_soon(self._close_port, error, flush)

    def _close_port(self, error: OSError | None, flush: bool) -> None:
        """Close the port. Without a flush the kernel waits in close for unsent bytes, by default half a minute."""
        try:
            if flush:
                self._port.reset_output_buffer()
        except termios.error as gone:
            error = error or OSError(*gone.args)
        self._port.close()
        self._protocol.connection_lost(error)
