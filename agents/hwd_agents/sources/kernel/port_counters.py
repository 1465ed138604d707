"""The kernel's counters of a port: bytes, packets, drops, errors, pause frames.

TCP retransmissions of the host are read here, too.
"""

import errno
from collections.abc import Collection
from pathlib import Path
from typing import Final, Protocol

from pyroute2.netlink import NETLINK_GENERIC
from pyroute2.netlink.rtnl import RTM_GETLINK, RTM_GETSTATS
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ifstatsmsg import ifstatsmsg

from hwd_agents.wire import PortBytes
from hwd_agents.wire.events import CounterData
from hwd_drivers.core.errors import LinkError, ProtocolError, RefusedError
from hwd_drivers.core.offload import Offload

from .ethtool import NAME_IT, Ethtool
from .netlink_requests import KernelRefusal, NetlinkRequests, Request, encode
from .sockets import Sockets

SNMP: Final = Path("/proc/net/snmp")
"""TCP counters of the network that this process is in (RFC 4022, tcpRetransSegs)."""

IFLA_STATS_LINK_64: Final = 1
"""The number in linux/if_link.h; a question names attributes by bits of their numbers."""
_ABSENT: Final = frozenset({errno.ENODEV})


class CounterSource(Protocol):
    """Counters of one host."""

    async def read_counters(self, interface: str) -> CounterData:
        """Counters since the interface was created, without retransmissions. Pause frames are None when the NIC does
        not count them. Raises LinkError when the interface does not exist.
        """
        ...

    async def read_retransmissions(self) -> int | None:
        """Segments that TCP of the whole host sent again, on all ports together; None when they cannot be read.

        Raises LinkError, ProtocolError.
        """
        ...


class KernelBytes:
    """Bytes that the interfaces of the network which `sockets` opens into have received and sent, read at once:
    RTM_GETSTATS (linux/rtnetlink.h), a third of the time of RTM_GETLINK, on one socket.
    """

    def __init__(self, sockets: Sockets) -> None:
        self._sockets = sockets
        self._netlink: NetlinkRequests | None = None
        self._index: dict[str, int] = {}

    def read_bytes(self, interfaces: Collection[str]) -> dict[str, PortBytes]:
        """Read the bytes of interfaces by name; one that does not exist is not there. Takes 0.1 ms, and does not wait.

        Raises LinkError.
        """
        try:
            found = self._read(interfaces)
            if absent := {*interfaces} - found.keys():  # new ones, or made anew with another index
                self._find(absent)
                found |= self._read(absent)
        except BaseException:
            self.close()
            raise
        return found

    def close(self) -> None:
        """The next reading opens it again."""
        netlink, self._netlink = self._netlink, None
        if netlink is not None:
            netlink.close()

    def _read(self, interfaces: Collection[str]) -> dict[str, PortBytes]:
        names = {index: name for name, index in self._index.items() if name in interfaces}
        requests = [
            Request(says=f"read the bytes of {name}", data=encode(_of_index(index), RTM_GETSTATS), accepted=_ABSENT)
            for index, name in names.items()
        ]
        found = {}
        for answer in self._kernel().do(requests):
            stats = answer.get_attr("IFLA_STATS_LINK_64")
            index = answer["ifindex"]
            if stats is not None and index in names:
                found[names[index]] = PortBytes(interface=index, rx=stats["rx_bytes"], tx=stats["tx_bytes"])
        return found

    def _find(self, interfaces: Collection[str]) -> None:
        requests = [
            Request(says=f"find {name}", data=encode(_named(name), RTM_GETLINK), accepted=_ABSENT)
            for name in interfaces
        ]
        for link in self._kernel().do(requests):
            self._index[link.get_attr("IFLA_IFNAME")] = link["index"]

    def _kernel(self) -> NetlinkRequests:
        if self._netlink is None:
            self._netlink = NetlinkRequests(self._sockets)
        return self._netlink


def _of_index(index: int) -> ifstatsmsg:
    question = ifstatsmsg()
    question["ifindex"], question["filter_mask"] = index, 1 << (IFLA_STATS_LINK_64 - 1)
    return question


def _named(interface: str) -> ifinfmsg:
    question = ifinfmsg()
    question["attrs"].append(("IFLA_IFNAME", interface))
    return question


class KernelCounters:
    """A CounterSource on the network that `sockets` opens into.

    `snmp`: the file of TCP counters of that network; None when there is none.
    """

    def __init__(self, sockets: Sockets, offload: Offload, *, snmp: Path | None = SNMP) -> None:
        self._sockets = sockets
        self._offload = offload
        self._snmp = snmp

    async def read_counters(self, interface: str) -> CounterData:
        return await self._offload(self._read, interface)

    async def read_retransmissions(self) -> int | None:
        if self._snmp is None:
            return None
        try:
            return parse_retransmissions(self._snmp.read_text())
        except OSError as error:
            raise LinkError(f"{self._snmp}: cannot read the retransmissions: {error.strerror}") from error

    def _read(self, interface: str) -> CounterData:
        with NetlinkRequests(self._sockets) as kernel:
            try:
                (link,) = kernel.ask(f"read the counters of {interface}", _named(interface), RTM_GETLINK)
            except KernelRefusal as error:
                raise LinkError(f"{interface}: {error}. {NAME_IT}") from error
        stats = link.get_attr("IFLA_STATS64")
        if stats is None:
            raise ProtocolError(f"{interface}: the kernel answered without counters")
        rx_pause, tx_pause = self._pause(interface)
        return CounterData(
            rx_bytes=stats["rx_bytes"],
            tx_bytes=stats["tx_bytes"],
            rx_packets=stats["rx_packets"],
            tx_packets=stats["tx_packets"],
            rx_errors=stats["rx_errors"],
            tx_errors=stats["tx_errors"],
            rx_dropped=stats["rx_dropped"],
            tx_dropped=stats["tx_dropped"],
            rx_pause=rx_pause,
            tx_pause=tx_pause,
        )

    def _pause(self, interface: str) -> tuple[int | None, int | None]:
        with NetlinkRequests(self._sockets, NETLINK_GENERIC) as kernel:
            try:
                return Ethtool(kernel).pause_frames(interface)
            except (RefusedError, KernelRefusal):  # most virtual interfaces have none
                return None, None


def parse_retransmissions(text: str) -> int:
    """RetransSegs of /proc/net/snmp: a line of names, then one of numbers. Raises ProtocolError without it."""
    lines = [line.split() for line in text.splitlines() if line.startswith("Tcp:")]
    if len(lines) == 2 and len(lines[0]) == len(lines[1]):
        found = dict(zip(*lines, strict=True)).get("RetransSegs", "")
        if found.isascii() and found.isdigit():
            return int(found)
    raise ProtocolError(f"{SNMP}: has no RetransSegs under Tcp: {text[:80]!r}")
