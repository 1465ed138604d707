"""What a port has carried, as its kernel counts it: bytes, packets, drops, errors, pause frames; and the host's TCP retransmissions."""

import socket
import struct
from pathlib import Path
from typing import Final, Protocol

import msgspec

from hwd_drivers.core.errors import LinkError, ProtocolError, RefusedError
from hwd_drivers.core.offload import Offload

from . import netlink
from .ethtool import NAME_IT, Ethtool
from .netlink_ask import KernelRefusal, NetlinkAsk
from .sockets import Sockets

SNMP: Final = Path("/proc/net/snmp")
"""Of the network that this process is in (RFC 4022, tcpRetransSegs)."""

_IFLA_STATS64: Final = 23
_STATS: Final = struct.Struct("=8Q")
"""The head of struct rtnl_link_stats64 (linux/if_link.h): packets, bytes, errors, drops; each received, then sent."""


class PortCounters(msgspec.Struct, frozen=True, kw_only=True):
    """Since the interface was made. Pause frames are None where the NIC does not count them."""

    rx_bytes: int
    tx_bytes: int
    rx_packets: int
    tx_packets: int
    rx_errors: int
    tx_errors: int
    rx_dropped: int
    tx_dropped: int
    rx_pause: int | None
    tx_pause: int | None


class CounterSource(Protocol):
    """Counters of one host."""

    async def read_counters(self, interface: str) -> PortCounters:
        """Raises LinkError where the interface is not there."""
        ...

    async def read_retransmissions(self) -> int | None:
        """Segments that TCP of the whole host sent again, on all ports together; None where they cannot be seen. Raises LinkError, ProtocolError."""
        ...


class KernelCounters:
    """A CounterSource on the network that `sockets` opens into. `snmp`: its TCP counters; None where they are those of another network."""

    def __init__(self, sockets: Sockets, offload: Offload, *, snmp: Path | None = SNMP) -> None:
        self._sockets = sockets
        self._offload = offload
        self._snmp = snmp

    async def read_counters(self, interface: str) -> PortCounters:
        return await self._offload(self._read, interface)

    async def read_retransmissions(self) -> int | None:
        if self._snmp is None:
            return None
        try:
            return parse_retransmissions(self._snmp.read_text())
        except OSError as error:
            raise LinkError(f"{self._snmp}: cannot read the retransmissions: {error.strerror}") from error

    def _read(self, interface: str) -> PortCounters:
        with NetlinkAsk(self._sockets.open(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)) as kernel:
            request = netlink.INTERFACE.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
            request += netlink.encode_text(netlink.IFLA_IFNAME, interface)
            try:
                answers = kernel.ask(f"read the counters of {interface}", netlink.RTM_GETLINK, 0, request)
            except KernelRefusal as error:
                raise LinkError(f"{interface}: {error}. {NAME_IT}") from error
        stats = parse_stats(interface, answers[0].payload if answers else b"")
        rx_pause, tx_pause = self._pause(interface)
        rx_packets, tx_packets, rx_bytes, tx_bytes, rx_errors, tx_errors, rx_dropped, tx_dropped = stats
        return PortCounters(
            rx_bytes=rx_bytes,
            tx_bytes=tx_bytes,
            rx_packets=rx_packets,
            tx_packets=tx_packets,
            rx_errors=rx_errors,
            tx_errors=tx_errors,
            rx_dropped=rx_dropped,
            tx_dropped=tx_dropped,
            rx_pause=rx_pause,
            tx_pause=tx_pause,
        )

    def _pause(self, interface: str) -> tuple[int | None, int | None]:
        opened = self._sockets.open(socket.AF_NETLINK, socket.SOCK_RAW, netlink.NETLINK_GENERIC)
        with NetlinkAsk(opened) as kernel:
            try:
                return Ethtool(kernel).pause_frames(interface)
            except (RefusedError, KernelRefusal):  # most virtual interfaces have none
                return None, None


def parse_stats(interface: str, payload: bytes) -> tuple[int, ...]:
    """The first eight counters of an RTM_NEWLINK. Raises ProtocolError where it has none."""
    stats = netlink.attributes(payload, netlink.INTERFACE.size).get(_IFLA_STATS64, b"")
    if len(stats) < _STATS.size:
        raise ProtocolError(f"{interface}: the kernel answered with {len(stats)} bytes of counters, not {_STATS.size}")
    return _STATS.unpack_from(stats)


def parse_retransmissions(text: str) -> int:
    """RetransSegs of /proc/net/snmp: a line of names, then a line of numbers. Raises ProtocolError where it is not there."""
    lines = [line.split() for line in text.splitlines() if line.startswith("Tcp:")]
    if len(lines) == 2 and len(lines[0]) == len(lines[1]):
        found = dict(zip(*lines, strict=True)).get("RetransSegs", "")
        if found.isascii() and found.isdigit():
            return int(found)
    raise ProtocolError(f"{SNMP}: has no RetransSegs under Tcp: {text[:80]!r}")
