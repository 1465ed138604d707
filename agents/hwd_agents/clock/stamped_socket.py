"""ClockSocket: a UDP socket with kernel stamps of receipt and sending, converted to the host's monotonic clock."""

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

from hwd_drivers.core.clock import Clock

Address = tuple[Any, ...]
"""The address of a socket, as its family has it."""
OnDatagram = Callable[[bytes, Address, int], None]
"""Called with payload, sender, and a time of the host's clock at or after the receipt."""

SO_TIMESTAMPING_NEW: Final = 65  # stamps of two 64-bit words on every machine (Linux 5.1)
SOF_TX_SOFTWARE: Final = 1 << 1
SOF_RX_SOFTWARE: Final = 1 << 3
SOF_SOFTWARE: Final = 1 << 4
SOF_OPT_TSONLY: Final = 1 << 11
_STAMP: Final = struct.Struct("=qq")
_RECEIVE_BYTES: Final = 512
_CONTROL_BYTES: Final = 512
_DATAGRAMS_A_TURN: Final = 16

_log = logging.getLogger(__name__)


class ClockSocket:
    """Owns `opened`, which is bound or connected already.

    A kernel stamp is of the wall clock. Its conversion uses bounds, so that a receipt is never stamped too early and a
    sending never too late. Without kernel stamps the times before and after the calls are used.
    """

    def __init__(self, opened: socket.socket, clock: Clock, on_datagram: OnDatagram) -> None:
        self._socket: socket.socket | None = opened
        self._clock = clock
        self._on_datagram = on_datagram
        self.why_no_stamps = ""
        """Why the kernel makes no stamps; empty when it does."""
        flags = SOF_TX_SOFTWARE | SOF_RX_SOFTWARE | SOF_SOFTWARE | SOF_OPT_TSONLY
        try:
            opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING_NEW, flags)
        except OSError as error:
            self.why_no_stamps = f"the kernel stamps no datagrams: {error.strerror}"
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(opened, self._read)

    @property
    def address(self) -> Address:
        """The address of our socket."""
        assert self._socket is not None
        found: Address = self._socket.getsockname()
        return found

    def send(self, payload: bytes, address: Address | None = None) -> int | None:
        """Send, and return a time before it left; None when it was not sent."""
        if self._socket is None:
            return None
        self._stamp_of_leaving()  # discard late stamps of earlier datagrams
        called_ns = self._clock.monotonic_ns()
        try:
            if address is None:
                self._socket.send(payload)
            else:
                self._socket.sendto(payload, address)
        except OSError as error:  # temporary: no route, no room, or the previous datagram was refused
            _log.debug("clock: cannot send to %s: %s", address or "its agent", error.strerror)
            return None
        stamp_ns = self._stamp_of_leaving()
        return called_ns if stamp_ns is None else max(called_ns, self._clock.kernel_bounds_ns(stamp_ns)[0])

    def close(self) -> None:
        """Nothing comes after."""
        opened, self._socket = self._socket, None
        if opened is not None:
            self._loop.remove_reader(opened)
            opened.close()

    def _read(self) -> None:
        for _ in range(_DATAGRAMS_A_TURN):
            if self._socket is None:  # a callback closed the socket
                return
            try:
                payload, control, _flags, address = self._socket.recvmsg(_RECEIVE_BYTES, _CONTROL_BYTES)
            except BlockingIOError:
                break
            except ConnectionRefusedError:  # nobody listens at the other end
                continue
            except OSError as error:  # a network error of an earlier call: reading clears it
                _log.debug("clock: cannot receive: %s", error.strerror)
                continue
            stamp_ns = _stamp(control)
            now_ns = self._clock.monotonic_ns()
            self._on_datagram(payload, address, now_ns if stamp_ns is None else self._clock.from_kernel_ns(stamp_ns))
        if self._socket is not None:
            self._stamp_of_leaving()  # a waiting stamp would wake us again and again

    def _stamp_of_leaving(self) -> int | None:
        """The newest stamp of sending. With most drivers the kernel makes it before the call that sends returns."""
        newest_ns = None
        while self._socket is not None:
            try:
                _, control, _flags, _address = self._socket.recvmsg(1, _CONTROL_BYTES, socket.MSG_ERRQUEUE)
            except OSError:  # EAGAIN: there are no more
                break
            newest_ns = _stamp(control) or newest_ns
        return newest_ns


def _stamp(control: list[tuple[int, int, bytes]]) -> int | None:
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPING_NEW:
            seconds, nanoseconds = _STAMP.unpack_from(data)
            # the first datagrams may have come before stamps were switched on
            return seconds * 1_000_000_000 + nanoseconds or None
    return None
