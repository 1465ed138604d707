"""UDP datagrams through one interface only, with the kernel's receive stamps."""

import asyncio
import errno
import logging
import socket
import struct
from collections.abc import Callable
from typing import Final, Protocol

from hwd_drivers.core.clock import Clock

from .sockets import Sockets

OnDatagram = Callable[[bytes, tuple[str, int], int], None]
"""Called with payload, (ip, port) of the sender, and the receive stamp on the host's monotonic clock."""

SO_TIMESTAMPNS_NEW: Final = 64  # stamps of two 64-bit words on every machine
IP_FREEBIND: Final = 15  # bind to an address that the interface does not have at the moment
_STAMP: Final = struct.Struct("=qq")
_RECEIVE_BYTES: Final = 2048
_CONTROL_BYTES: Final = 128
_DATAGRAMS_A_TURN: Final = 64

_log = logging.getLogger(__name__)


class Datagrams(Protocol):
    """An open port on one interface."""

    @property
    def port(self) -> int:
        """Its UDP port; stays the same until closed."""
        ...

    @property
    def last_failure(self) -> str:
        """Why the latest send returned False; empty when none did."""
        ...

    def send(self, payload: bytes, address: tuple[str, int]) -> bool:
        """Send to (ip, port). False: it was not sent, `last_failure` says why."""
        ...

    def reopen(self) -> bool:
        """Bind again, after the interface was created anew (another ifindex). False: `last_failure` says why."""
        ...

    def close(self) -> None:
        """Stop; no datagram is reported after this."""
        ...


class DatagramSource(Protocol):
    """Opens UDP ports on interfaces."""

    async def open(self, interface: str, ip: str, port: int, on_datagram: OnDatagram) -> Datagrams:
        """A port on `interface` with address `ip`; `port` 0 takes a free one. Raises OSError if it cannot be opened."""
        ...


class InterfaceDatagrams:
    """The DatagramSource of a kernel: sockets bound to their interface."""

    def __init__(self, sockets: Sockets, clock: Clock) -> None:
        self._sockets = sockets
        self._clock = clock

    async def open(self, interface: str, ip: str, port: int, on_datagram: OnDatagram) -> "InterfacePort":
        return InterfacePort(self._sockets, self._clock, interface, ip, port, on_datagram)


class InterfacePort:
    """One UDP port bound to one interface and address; it binds again when the interface was created anew."""

    def __init__(
        self, sockets: Sockets, clock: Clock, interface: str, ip: str, port: int, on_datagram: OnDatagram
    ) -> None:
        self._sockets = sockets
        self._clock = clock
        self._interface = interface
        self._ip = ip
        self._on_datagram = on_datagram
        self._last_failure = ""
        self._port = port
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = self._bind()
        self._closed = False

    @property
    def port(self) -> int:
        return self._port

    @property
    def last_failure(self) -> str:
        return self._last_failure

    def send(self, payload: bytes, address: tuple[str, int]) -> bool:
        """Send to (ip, port); bind again once if the interface was created anew.

        False: it was not sent, `last_failure` says why.
        """
        if self._closed:
            return self._failed("the port is closed")
        if self._socket is None and not self.reopen():
            return False
        error = self._try(payload, address)
        if error is not None and self._is_stale():
            if not self.reopen():
                return False
            error = self._try(payload, address)
        return True if error is None else self._failed(f"cannot send to {address[0]}:{address[1]}: {error.strerror}")

    def reopen(self) -> bool:
        if self._closed:
            return self._failed("the port is closed")
        self._drop()
        try:
            self._socket = self._bind()
        except OSError as error:
            return self._failed(f"cannot bind {self._ip}:{self._port}: {error.strerror}")
        return True

    def close(self) -> None:
        self._closed = True
        self._drop()

    def _try(self, payload: bytes, address: tuple[str, int]) -> OSError | None:
        if self._socket is None:
            return OSError(errno.ENODEV, "not bound")
        try:
            self._socket.sendto(payload, address)
        except (
            OSError
        ) as error:  # ENETDOWN, ENETUNREACH, ENODEV, EINVAL without the address, EAGAIN, ENOBUFS: all temporary
            return error
        return None

    def _is_stale(self) -> bool:
        """Whether the interface that the socket is bound to is gone: a socket is bound to an index, not to a name."""
        if self._socket is None:
            return True
        try:
            bound = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
        except OSError as error:
            if error.errno != errno.ENODEV:
                raise
            return True
        return bound.rstrip(b"\0").decode() != self._interface

    def _failed(self, why: str) -> bool:
        self._last_failure = f"{self._interface}: {why}"
        return False

    def _drop(self) -> None:
        opened, self._socket = self._socket, None
        if opened is not None:
            self._loop.remove_reader(opened)
            opened.close()

    def _bind(self) -> socket.socket:
        opened = self._sockets.open(socket.AF_INET, socket.SOCK_DGRAM, 0)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, self._interface.encode() + b"\0")
            opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS_NEW, 1)
            opened.setsockopt(socket.SOL_IP, IP_FREEBIND, 1)
            opened.bind((self._ip, self._port))
        except OSError:
            opened.close()
            raise
        self._port = opened.getsockname()[1]
        self._loop.add_reader(opened, self._read)
        return opened

    def _read(self) -> None:
        for _ in range(_DATAGRAMS_A_TURN):
            if self._socket is None:  # a callback closed the port
                return
            try:
                payload, control, _flags, address = self._socket.recvmsg(_RECEIVE_BYTES, _CONTROL_BYTES)
            except BlockingIOError:
                return
            except OSError as error:  # an ICMP error or ENETDOWN from an earlier call: reading clears it
                _log.debug("%s: receiving on port %d: %s", self._interface, self._port, error.strerror)
                continue
            self._on_datagram(payload, (address[0], address[1]), self._stamp(control))

    def _stamp(self, control: list[tuple[int, int, bytes]]) -> int:
        for level, kind, data in control:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS_NEW:
                seconds, nanoseconds = _STAMP.unpack(data)
                return self._clock.from_kernel_ns(seconds * 1_000_000_000 + nanoseconds)
        return self._clock.monotonic_ns()  # the first datagrams may have come before the option was set
