"""The driver of a network interface, by ethtool's ioctl (linux/ethtool.h): netlink does not report it."""

import array
import errno
import fcntl
import os
import socket
import struct
from typing import Final, Protocol

from hwd_agents.wire import DriverNote
from hwd_drivers.core.errors import LinkError, RefusedError
from hwd_drivers.core.offload import Offload

from .sockets import Sockets

SIOCETHTOOL: Final = 0x8946
ETHTOOL_GDRVINFO: Final = 3
INTERFACE_BYTES: Final = 15
"""Longest name of an interface, without the zero at its end (IFNAMSIZ)."""

_REQUEST: Final = struct.Struct("@16sP16x")  # struct ifreq: name, and the address for the answer
_ANSWER: Final = struct.Struct("=I32s32s32s32s32s12s5I")  # struct ethtool_drvinfo


class DriverSource(Protocol):
    """Drivers of the interfaces of one host.

    An empty text is None. Raises LinkError when the interface does not exist, RefusedError when its driver does not
    report itself.
    """

    async def read_driver(self, interface: str) -> DriverNote: ...


class KernelDrivers:
    """A DriverSource on the network that `sockets` opens into."""

    def __init__(self, sockets: Sockets, offload: Offload) -> None:
        self._sockets = sockets
        self._offload = offload

    async def read_driver(self, interface: str) -> DriverNote:
        return await self._offload(self._read, interface)

    def _read(self, interface: str) -> DriverNote:
        name = os.fsencode(interface)
        if len(name) > INTERFACE_BYTES:
            raise LinkError(f"{interface}: {len(name)} bytes are over the {INTERFACE_BYTES} of an interface's name")
        with self._sockets.open(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            try:
                answer = _ask(asked, name)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    raise LinkError(f"{interface}: cannot read its driver: no such interface") from error
                raise RefusedError(f"{interface}: cannot read its driver: {error.strerror}") from error
        _, driver, version, firmware, bus, *_ = _ANSWER.unpack(answer)
        return DriverNote(name=_text(driver), version=_text(version), firmware=_text(firmware), bus=_text(bus))


def _ask(asked: socket.socket, name: bytes) -> bytes:
    """Ask; the kernel writes its answer to the address in the request. Raises OSError."""
    answer = array.array("B", bytes(_ANSWER.size))
    struct.pack_into("=I", answer, 0, ETHTOOL_GDRVINFO)
    fcntl.ioctl(asked, SIOCETHTOOL, _REQUEST.pack(name, answer.buffer_info()[0]))
    return answer.tobytes()


def _text(padded: bytes) -> str | None:
    return padded.split(b"\0")[0].decode("ascii", "replace") or None
