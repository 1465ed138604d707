"""The rtnetlink requests that a twin rack needs, as bytes (linux/rtnetlink.h, pkt_cls.h, tc_act/tc_mirred.h)."""

import errno
import ipaddress
import socket
import struct
from collections.abc import Sequence
from typing import Final

from hwd_agents.sources.kernel import netlink
from hwd_agents.sources.kernel.netlink import encode_attribute, encode_text, encode_u32

from .route import Request

RTM_NEWADDR: Final = 20
RTM_DELADDR: Final = 21
RTM_NEWROUTE: Final = 24
RTM_DELROUTE: Final = 25
RTM_NEWNEIGH: Final = 28
RTM_DELNEIGH: Final = 29
RTM_NEWQDISC: Final = 36
RTM_NEWTFILTER: Final = 44
RTM_DELTFILTER: Final = 45

_CREATE: Final = netlink.NLM_F_CREATE | netlink.NLM_F_EXCL
_REPLACE: Final = netlink.NLM_F_CREATE | netlink.NLM_F_REPLACE

_IFLA_INFO_KIND: Final = 1
_IFLA_INFO_DATA: Final = 2
_VETH_INFO_PEER: Final = 1
_LONGEST: Final = 65_535  # ETH_MAX_MTU, what a veth takes at most

_TC_MESSAGE: Final = struct.Struct("=BxxxiIII")  # struct tcmsg: family, ifindex, handle, parent, info
_TCA_KIND: Final = 1
_TCA_OPTIONS: Final = 2
_CLSACT_HANDLE: Final = 0xFFFF0000
_CLSACT: Final = 0xFFFFFFF1
_CLSACT_INGRESS: Final = 0xFFFFFFF2
_EVERY_PROTOCOL: Final = 1 << 16 | socket.htons(3)  # preference 1, ETH_P_ALL
_THE_FILTER: Final = 0x80000001  # 800::1: always the same, so that a new one replaces it in one step
_TCA_U32_SEL: Final = 5
_TCA_U32_ACT: Final = 7
_TCA_ACT_KIND: Final = 1
_TCA_ACT_OPTIONS: Final = 2
_TCA_MIRRED_PARMS: Final = 2
_MIRRED: Final = struct.Struct("=IIiiiiI")  # index, capability, verdict, references, bindings, action, ifindex
_TC_ACT_PIPE: Final = 3
_TC_ACT_STOLEN: Final = 4
_EGRESS_REDIRECT: Final = 1
_EGRESS_MIRROR: Final = 2
# struct tc_u32_sel that ends the search, with one key that matches all
_MATCH_ALL: Final = struct.pack("=BBBxHHhhI", 1, 0, 1, 0, 0, 0, 0, 0) + struct.pack("=IIii", 0, 0, 0, 0)

_NUD_PERMANENT: Final = 0x80
_RT_TABLE_MAIN: Final = 254
_RTPROT_STATIC: Final = 4
_RT_SCOPE_LINK: Final = 253
_RTN_UNICAST: Final = 1


def add_pair(
    *, near: str, near_index: int, far: str, far_index: int, far_namespace: int, address: bytes, mtu: int, says: str
) -> Request:
    """A veth pair: `near` here, `far` in another namespace and with a hardware address and an MTU, both down. `near` is a fibre: it takes packets of any length.

    Different indexes are what makes the kernel tell each carrier change at once (link_watch.c compares them).
    """
    peer = (
        netlink.INTERFACE.pack(socket.AF_UNSPEC, 0, far_index, 0, 0)
        + encode_text(netlink.IFLA_IFNAME, far)
        + encode_attribute(netlink.IFLA_ADDRESS, address)
        + encode_u32(netlink.IFLA_MTU, mtu)
        + encode_u32(netlink.IFLA_NET_NS_FD, far_namespace)
    )
    kind = encode_text(_IFLA_INFO_KIND, "veth") + encode_attribute(
        _IFLA_INFO_DATA, encode_attribute(_VETH_INFO_PEER, peer)
    )
    payload = (
        netlink.INTERFACE.pack(socket.AF_UNSPEC, 0, near_index, 0, 0)
        + encode_text(netlink.IFLA_IFNAME, near)
        + encode_u32(netlink.IFLA_MTU, _LONGEST)
        + encode_attribute(netlink.IFLA_LINKINFO, kind)
    )
    return Request(says=says, type=netlink.RTM_NEWLINK, flags=_CREATE, payload=payload)


def delete_interface(ifindex: int, *, says: str) -> Request:
    """Remove an interface, of a pair both; one that is gone already is well."""
    payload = netlink.INTERFACE.pack(socket.AF_UNSPEC, 0, ifindex, 0, 0)
    return Request(says=says, type=netlink.RTM_DELLINK, flags=0, payload=payload, accepted=frozenset({errno.ENODEV}))


def set_up(ifindex: int, *, up: bool, says: str) -> Request:
    """Switch an interface on or off."""
    payload = netlink.INTERFACE.pack(socket.AF_UNSPEC, 0, ifindex, netlink.IFF_UP if up else 0, netlink.IFF_UP)
    return Request(says=says, type=netlink.RTM_NEWLINK, flags=0, payload=payload)


def add_clsact(ifindex: int, *, says: str) -> Request:
    """The place where redirects hang."""
    payload = _TC_MESSAGE.pack(socket.AF_UNSPEC, ifindex, _CLSACT_HANDLE, _CLSACT, 0) + encode_text(_TCA_KIND, "clsact")
    return Request(says=says, type=RTM_NEWQDISC, flags=_CREATE, payload=payload)


def redirect(ifindex: int, targets: Sequence[int], *, says: str) -> Request:
    """All that comes in at `ifindex` goes out at each of `targets`; replaces what was there in one step."""
    actions = b"".join(
        encode_attribute(order, _mirred(target, last=order == len(targets)))
        for order, target in enumerate(targets, start=1)
    )
    options = encode_attribute(_TCA_U32_SEL, _MATCH_ALL) + encode_attribute(_TCA_U32_ACT, actions)
    payload = (
        _TC_MESSAGE.pack(socket.AF_UNSPEC, ifindex, _THE_FILTER, _CLSACT_INGRESS, _EVERY_PROTOCOL)
        + encode_text(_TCA_KIND, "u32")
        + encode_attribute(_TCA_OPTIONS, options)
    )
    return Request(says=says, type=RTM_NEWTFILTER, flags=_REPLACE, payload=payload)


def end_redirect(ifindex: int, *, says: str) -> Request:
    """What comes in at `ifindex` goes nowhere; well where it did so already."""
    payload = _TC_MESSAGE.pack(socket.AF_UNSPEC, ifindex, _THE_FILTER, _CLSACT_INGRESS, _EVERY_PROTOCOL)
    payload += encode_text(_TCA_KIND, "u32")
    return Request(says=says, type=RTM_DELTFILTER, flags=0, payload=payload, accepted=frozenset({errno.ENOENT}))


def add_address(ifindex: int, address: ipaddress.IPv4Interface, *, says: str) -> Request:
    """An IPv4 address of an interface; well where it is there."""
    packed = address.ip.packed
    payload = struct.pack("=BBBBI", socket.AF_INET, address.network.prefixlen, 0, 0, ifindex)
    payload += encode_attribute(1, packed) + encode_attribute(2, packed)  # IFA_ADDRESS, IFA_LOCAL
    return Request(says=says, type=RTM_NEWADDR, flags=_REPLACE, payload=payload)


def set_neighbour(ifindex: int, ip: ipaddress.IPv4Address, address: bytes, *, says: str) -> Request:
    """A permanent neighbour: without it each dark time costs about a second of ARP."""
    payload = struct.pack("=BxxxiHBB", socket.AF_INET, ifindex, _NUD_PERMANENT, 0, _RTN_UNICAST)
    payload += encode_attribute(1, ip.packed) + encode_attribute(2, address)  # NDA_DST, NDA_LLADDR
    return Request(says=says, type=RTM_NEWNEIGH, flags=_REPLACE, payload=payload)


def delete_neighbour(ifindex: int, ip: ipaddress.IPv4Address, *, says: str) -> Request:
    """Forget a neighbour; well where it is not known."""
    payload = struct.pack("=BxxxiHBB", socket.AF_INET, ifindex, 0, 0, 0) + encode_attribute(1, ip.packed)
    accepted = frozenset({errno.ENOENT, errno.ENODEV, errno.ENXIO})
    return Request(says=says, type=RTM_DELNEIGH, flags=0, payload=payload, accepted=accepted)


def set_route(ip: ipaddress.IPv4Address, ifindex: int, source: ipaddress.IPv4Address | None, *, says: str) -> Request:
    """A /32 route straight out of an interface; replaces the one by another interface."""
    payload = _route(ip) + encode_u32(4, ifindex)  # RTA_OIF
    if source is not None:
        payload += encode_attribute(7, source.packed)  # RTA_PREFSRC
    return Request(says=says, type=RTM_NEWROUTE, flags=_REPLACE, payload=payload)


def delete_route(ip: ipaddress.IPv4Address, ifindex: int, *, says: str) -> Request:
    """Forget a route; well where there is none."""
    payload = _route(ip) + encode_u32(4, ifindex)
    accepted = frozenset({errno.ESRCH, errno.ENODEV})
    return Request(says=says, type=RTM_DELROUTE, flags=0, payload=payload, accepted=accepted)


def _route(ip: ipaddress.IPv4Address) -> bytes:
    head = struct.pack(
        "=BBBBBBBBI", socket.AF_INET, 32, 0, 0, _RT_TABLE_MAIN, _RTPROT_STATIC, _RT_SCOPE_LINK, _RTN_UNICAST, 0
    )
    return head + encode_attribute(1, ip.packed)  # RTA_DST


def _mirred(target: int, *, last: bool) -> bytes:
    verdict, action = (_TC_ACT_STOLEN, _EGRESS_REDIRECT) if last else (_TC_ACT_PIPE, _EGRESS_MIRROR)
    parameters = encode_attribute(_TCA_MIRRED_PARMS, _MIRRED.pack(0, 0, verdict, 0, 0, action, target))
    return encode_text(_TCA_ACT_KIND, "mirred") + encode_attribute(_TCA_ACT_OPTIONS, parameters)
