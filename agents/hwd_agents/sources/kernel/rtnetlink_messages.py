"""Neighbour and Route: rtnetlink messages whose attributes are the kernel's bytes (linux/rtnetlink.h, neighbour.h).

So a state is restored exactly as it was read. pyroute2's own messages turn attributes to text: they support no hardware
address of 20 bytes (InfiniBand), and no attribute of a newer kernel.
"""

import struct
from typing import Final

from pyroute2.netlink import nlmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

_HEADER: Final = struct.Struct("=I12x")  # struct nlmsghdr, of which only the length counts here
_HEAD_BYTES: Final = 12  # struct rtmsg
_ROUTE_ATTRIBUTES: Final = 64  # RTA_MAX was 30 in Linux 6.18
_NAMES: Final = {1: "RTA_DST", 4: "RTA_OIF", 5: "RTA_GATEWAY", 6: "RTA_PRIORITY", 12: "RTA_CACHEINFO", 15: "RTA_TABLE"}
_NUMBERS: Final = frozenset({4, 6, 15})


class Neighbour(nlmsg):
    """RTM_NEWNEIGH, RTM_DELNEIGH, RTM_GETNEIGH."""

    fields = ndmsg.fields
    nla_map = ((1, "NDA_DST", "cdata"), (2, "NDA_LLADDR", "cdata"))


class Route(nlmsg):
    """RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE. An attribute without a name is called by its type: `RTA_20`."""

    fields = rtmsg.fields
    nla_map = tuple(
        (kind, _NAMES.get(kind, f"RTA_{kind}"), "uint32" if kind in _NUMBERS else "cdata")
        for kind in range(_ROUTE_ATTRIBUTES)
    )

    @classmethod
    def of(cls, head: bytes, attributes: bytes) -> "Route":
        """Read a route from struct rtmsg and its attributes."""
        route = cls(_HEADER.pack(_HEADER.size + len(head) + len(attributes)) + head + attributes)
        route.decode()
        route.reset()
        return route

    def parts(self) -> tuple[bytes, bytes]:
        """The arguments of `of` for this message, which is encoded by the call."""
        self.reset()
        self.encode()
        begin = _HEADER.size + _HEAD_BYTES
        return bytes(self.data[_HEADER.size : begin]), bytes(self.data[begin:])
