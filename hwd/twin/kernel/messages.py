"""The rtnetlink requests that a twin rack needs, in the messages of pyroute2 (linux/rtnetlink.h, pkt_cls.h)."""

import errno
import ipaddress
import socket
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from pyroute2.netlink import NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE
from pyroute2.netlink.rtnl import (
    RTM_DELLINK,
    RTM_DELTFILTER,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWNEIGH,
    RTM_NEWQDISC,
    RTM_NEWROUTE,
    RTM_NEWTFILTER,
    rt_proto,
    rt_scope,
    rt_type,
)
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import IFF_UP, ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg
from pyroute2.netlink.rtnl.tcmsg import act_mirred, sched_tbf, tcmsg

from hwd_agents.sources.kernel.netlink_requests import NetlinkRequests, Request, encode

from .keeper import Keeper

_CREATE: Final = NLM_F_CREATE | NLM_F_EXCL
_REPLACE: Final = NLM_F_CREATE | NLM_F_REPLACE

_LONGEST: Final = 65_535  # ETH_MAX_MTU, what a veth takes at most

_CLSACT_HANDLE: Final = 0xFFFF0000
_CLSACT: Final = 0xFFFFFFF1
_CLSACT_INGRESS: Final = 0xFFFFFFF2
_EVERY_PROTOCOL: Final = 1 << 16 | socket.htons(3)  # preference 1, ETH_P_ALL
_THE_FILTER: Final = 0x80000001  # 800::1: always the same, so that a new one replaces it in one step
_INDEX_AT: Final = 20  # of the interface in a struct tcmsg that follows a struct nlmsghdr
_ENCODED_MOST: Final = 4096
"""Redirects and states that are encoded once: pyroute2 takes 0.2 ms for a redirect, 0.03 ms for a state."""

_ROOT: Final = 0xFFFFFFFF  # TC_H_ROOT
_RATE_HANDLE: Final = 0x00010000
_BURST_S: Final = 0.001
"""A port that was idle sends so much at once: the shortest time over which its rate holds."""
_BURST_LEAST_BYTES: Final = 65_536 + 18
"""One packet as long as the kernel makes them: a longer one than the burst would be cut into frames first, which costs
time.
"""
_QUEUE_S: Final = 0.05
"""What waits longer at a port is dropped: the deep buffer of a data-centre switch at 1 Gbit/s, 6 MB."""

_NUD_PERMANENT: Final = 0x80
_RT_TABLE_MAIN: Final = 254
_RTNH_F_ONLINK: Final = 4
RACK_METRIC: Final = 1000
"""The metric of the routes that a rack sets by its light: a route of an operator, or of an agent, goes before them."""


def requests_to(keeper: Keeper, namespace: str) -> NetlinkRequests:
    """A socket for the requests below.

    It never waits: the kernel works them off inside the call that sends them, in 10 to 300 us each.
    """
    return NetlinkRequests(keeper.sockets(namespace), answer_within_s=0, subject="kernel")


def add_pair(
    *, near: str, near_index: int, far: str, far_index: int, far_namespace: int, address: str, mtu: int, says: str
) -> Request:
    """A veth pair, both ends down: `near` here, `far` in another namespace with a hardware address and an MTU.

    `near` is a fibre: it takes packets of any length. The indexes must differ: then the kernel sends the notice of each
    carrier change at once (link_watch.c compares them).
    """
    peer = {
        "index": far_index,
        "attrs": [
            ("IFLA_IFNAME", far),
            ("IFLA_ADDRESS", address),
            ("IFLA_MTU", mtu),
            ("IFLA_NET_NS_FD", far_namespace),
        ],
    }
    message = ifinfmsg()
    message["index"] = near_index
    message["attrs"] += [
        ("IFLA_IFNAME", near),
        ("IFLA_MTU", _LONGEST),
        (
            "IFLA_LINKINFO",
            {"attrs": [("IFLA_INFO_KIND", "veth"), ("IFLA_INFO_DATA", {"attrs": [("VETH_INFO_PEER", peer)]})]},
        ),
    ]
    return Request(says=says, data=encode(message, RTM_NEWLINK, _CREATE))


def delete_interface(ifindex: int, *, says: str) -> Request:
    """Remove an interface, or both of a pair; no error where it does not exist."""
    message = ifinfmsg()
    message["index"] = ifindex
    return Request(says=says, data=encode(message, RTM_DELLINK), accepted=frozenset({errno.ENODEV}))


def set_up(ifindex: int, *, up: bool, says: str) -> Request:
    """Switch an interface on or off."""
    return Request(says=says, data=_encode_state(ifindex, up))


def add_bridge(name: str, ifindex: int, *, says: str) -> Request:
    """A bridge without ports, up. It has no spanning tree, which would hold each new port for 30 s."""
    message = ifinfmsg()
    message.update(index=ifindex, flags=IFF_UP, change=IFF_UP)
    settings = {"attrs": [("IFLA_BR_STP_STATE", 0), ("IFLA_BR_MCAST_SNOOPING", 0)]}
    information = {"attrs": [("IFLA_INFO_KIND", "bridge"), ("IFLA_INFO_DATA", settings)]}
    message["attrs"] += [("IFLA_IFNAME", name), ("IFLA_LINKINFO", information)]
    return Request(says=says, data=encode(message, RTM_NEWLINK, _CREATE))


def join_bridge(ifindex: int, bridge_index: int, *, says: str) -> Request:
    """Make an interface a port of a bridge."""
    message = ifinfmsg()
    message["index"] = ifindex
    message["attrs"].append(("IFLA_MASTER", bridge_index))
    return Request(says=says, data=encode(message, RTM_NEWLINK))


RATE_MOST_MBIT_S: Final = 34_000
"""What a token bucket filter counts in 32 bits of bytes a second."""


def limit_rate(ifindex: int, mbit_s: float, *, says: str) -> Request:
    """Send at most so much out of an interface (a token bucket filter); what does not fit is queued, then dropped."""
    rate = int(mbit_s * 1e6 / 8)
    burst = max(int(rate * _BURST_S), _BURST_LEAST_BYTES)
    parameters = sched_tbf.get_parameters({"rate": rate, "burst": burst, "limit": burst + int(rate * _QUEUE_S)})
    message = tcmsg()
    message.update(index=ifindex, handle=_RATE_HANDLE, parent=_ROOT)
    message["attrs"] += [("TCA_KIND", "tbf"), ("TCA_OPTIONS", parameters)]
    return Request(says=says, data=encode(message, RTM_NEWQDISC, _REPLACE))


def add_clsact(ifindex: int, *, says: str) -> Request:
    """Add the queueing discipline that redirects are attached to."""
    message = tcmsg()
    message.update(index=ifindex, handle=_CLSACT_HANDLE, parent=_CLSACT)
    message["attrs"].append(("TCA_KIND", "clsact"))
    return Request(says=says, data=encode(message, RTM_NEWQDISC, _CREATE))


def redirect(ifindex: int, targets: Sequence[int], *, says: str) -> Request:
    """Send all packets that arrive at `ifindex` out at each of `targets`; replaces an earlier redirect in one step."""
    data = bytearray(encode_redirect(tuple(targets)))
    struct.pack_into("=i", data, _INDEX_AT, ifindex)
    return Request(says=says, data=bytes(data))


@lru_cache(_ENCODED_MOST)
def encode_redirect(targets: tuple[int, ...]) -> bytes:
    """The message of `redirect`, for an interface with the index 0."""
    actions = [
        (f"TCA_ACT_PRIO_{order}", _mirred(target, last=order == len(targets)))
        for order, target in enumerate(targets, start=1)
    ]
    message = _filter(0)
    options = [("TCA_U32_SEL", {"keys": ["0x0/0x0+0"]}), ("TCA_U32_ACT", {"attrs": actions})]  # one key matches all
    message["attrs"].append(("TCA_OPTIONS", {"attrs": options}))
    return encode(message, RTM_NEWTFILTER, _REPLACE)


def end_redirect(ifindex: int, *, says: str) -> Request:
    """Remove the redirect of `ifindex`; no error where there is none."""
    data = encode(_filter(ifindex), RTM_DELTFILTER)
    return Request(says=says, data=data, accepted=frozenset({errno.ENOENT}))


def add_address(ifindex: int, address: ipaddress.IPv4Interface, *, says: str) -> Request:
    """Add an IPv4 address to an interface; no error where it has it."""
    message = ifaddrmsg()
    message.update(family=socket.AF_INET, prefixlen=address.network.prefixlen, index=ifindex)
    message["attrs"] += [("IFA_ADDRESS", str(address.ip)), ("IFA_LOCAL", str(address.ip))]
    return Request(says=says, data=encode(message, RTM_NEWADDR, _REPLACE))


def set_neighbour(ifindex: int, ip: ipaddress.IPv4Address, address: str, *, says: str) -> Request:
    """A permanent neighbour: without it each dark time costs about a second of ARP."""
    message = _neighbour(ifindex, ip)
    message.update(state=_NUD_PERMANENT, ndm_type=rt_type["unicast"])
    message["attrs"].append(("NDA_LLADDR", address))
    return Request(says=says, data=encode(message, RTM_NEWNEIGH, _REPLACE))


def set_route(
    ip: ipaddress.IPv4Address,
    ifindex: int,
    source: ipaddress.IPv4Address | None,
    *,
    via: ipaddress.IPv4Address | None = None,
    says: str,
) -> Request:
    """A /32 route out of an interface, straight to its end or `via` a neighbour there; replaces the one that was set
    before.
    """
    message = _route(ip, ifindex)
    if source is not None:
        message["attrs"].append(("RTA_PREFSRC", str(source)))
    if via is not None:
        message.update(scope=rt_scope["universe"], flags=_RTNH_F_ONLINK)
        message["attrs"].append(("RTA_GATEWAY", str(via)))
    return Request(says=says, data=encode(message, RTM_NEWROUTE, _REPLACE))


@lru_cache(_ENCODED_MOST)
def _encode_state(ifindex: int, up: bool) -> bytes:
    message = ifinfmsg()
    message.update(index=ifindex, flags=IFF_UP if up else 0, change=IFF_UP)
    return encode(message, RTM_NEWLINK)


def _filter(ifindex: int) -> tcmsg:
    message = tcmsg()
    message.update(index=ifindex, handle=_THE_FILTER, parent=_CLSACT_INGRESS, info=_EVERY_PROTOCOL)
    message["attrs"].append(("TCA_KIND", "u32"))
    return message


def _mirred(target: int, *, last: bool) -> dict[str, Any]:
    """A copy of the packet goes out at `target`; at the last one the packet itself."""
    parameters = act_mirred.get_parameters(
        {"direction": "egress", "action": "redirect" if last else "mirror", "ifindex": target}
    )
    return {"attrs": [("TCA_ACT_KIND", "mirred"), ("TCA_ACT_OPTIONS", parameters)]}


def _neighbour(ifindex: int, ip: ipaddress.IPv4Address) -> ndmsg:
    message = ndmsg()
    message.update(family=socket.AF_INET, ifindex=ifindex)
    message["attrs"].append(("NDA_DST", str(ip)))
    return message


def _route(ip: ipaddress.IPv4Address, ifindex: int) -> rtmsg:
    message = rtmsg()
    message.update(
        family=socket.AF_INET,
        dst_len=32,
        table=_RT_TABLE_MAIN,
        proto=rt_proto["static"],
        scope=rt_scope["link"],
        type=rt_type["unicast"],
    )
    message["attrs"] += [("RTA_DST", str(ip)), ("RTA_OIF", ifindex), ("RTA_PRIORITY", RACK_METRIC)]
    return message
