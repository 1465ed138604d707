"""What a message of rtnetlink says of a link (linux/if_link.h, linux/if.h)."""

import socket
import sys
from typing import Final

from hwd_agents.sources.link_source import LinkReading, OperState, Origin
from hwd_drivers.core.errors import ProtocolError

from . import netlink

WANTED: Final = (
    netlink.IFLA_ADDRESS,
    netlink.IFLA_IFNAME,
    netlink.IFLA_MTU,
    netlink.IFLA_LINK,
    netlink.IFLA_OPERSTATE,
    netlink.IFLA_CARRIER_CHANGES,
    netlink.IFLA_CARRIER_UP_COUNT,
    netlink.IFLA_CARRIER_DOWN_COUNT,
)
_OPERSTATES: Final = tuple(OperState)


def understand(at_ns: int, raw: bytes) -> LinkReading | None:
    """The reading in a notice that was received at `at_ns`, of which the end may be gone; None where it is not of a link that is there.

    Raises ProtocolError for what no kernel sends.
    """
    kind = netlink.HEADER.unpack_from(raw)[1] if len(raw) >= netlink.HEADER.size else netlink.RTM_NEWLINK
    if kind < netlink.RTM_NEWLINK:
        return None  # netlink's own: the end of a dump, an error
    if len(raw) < netlink.LINK.size:
        raise ProtocolError(f"rtnetlink: a notice of {len(raw)} bytes is no notice of a link")
    _, _, _, _, _, family, _, ifindex, flags, _ = netlink.LINK.unpack_from(raw)
    if kind == netlink.RTM_DELLINK or (kind == netlink.RTM_NEWLINK and family != socket.AF_UNSPEC):
        return None
    found = netlink.attributes(raw, netlink.LINK.size, is_cut=True)
    if kind != netlink.RTM_NEWLINK or netlink.IFLA_IFNAME not in found:
        raise ProtocolError(f"rtnetlink: a notice of kind {kind} and {len(raw)} bytes is none of a named link")
    return reading_of(ifindex, flags, found, Origin.NOTICE, at_ns, None)


def reading_of(
    ifindex: int, flags: int, found: dict[int, bytes], origin: Origin, at_ns: int, earliest_ns: int | None
) -> LinkReading:
    """What flags and attributes say. Raises as `name_of`."""
    operstate = (found.get(netlink.IFLA_OPERSTATE) or b"\0")[0]
    return LinkReading(
        interface=name_of(found),
        ifindex=ifindex,
        present=True,
        admin_up=bool(flags & netlink.IFF_UP),
        carrier=bool(flags & netlink.IFF_LOWER_UP),
        operstate=_OPERSTATES[operstate] if operstate < len(_OPERSTATES) else OperState.UNKNOWN,
        carrier_changes=number_of(found, netlink.IFLA_CARRIER_CHANGES),
        carrier_ups=number_of(found, netlink.IFLA_CARRIER_UP_COUNT),
        carrier_downs=number_of(found, netlink.IFLA_CARRIER_DOWN_COUNT),
        mtu=number_of(found, netlink.IFLA_MTU),
        address=found.get(netlink.IFLA_ADDRESS, b"").hex(":"),
        origin=origin,
        at_ns=at_ns,
        earliest_ns=earliest_ns,
    )


def name_of(found: dict[int, bytes]) -> str:
    """Of the interface; the kernel takes bytes that are no text: each is a U+FFFD here. Raises KeyError where there is none."""
    return found[netlink.IFLA_IFNAME].rstrip(b"\0").decode(errors="replace")


def number_of(found: dict[int, bytes], kind: int) -> int:
    """0 where it is not said."""
    return int.from_bytes(found.get(kind, b""), sys.byteorder)
