"""BrokerWay: the kernel's route from this host to its broker, and which settings of ports would cut it.

An agent that is cut off cannot be asked to restore them.
"""

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyroute2.netlink import NLM_F_DUMP
from pyroute2.netlink.rtnl import RTM_GETLINK, RTM_GETROUTE, rt_type
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from hwd_agents.sources.setting_source import Setting
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.offload import Offload

from .netlink_requests import KernelRefusal, NetlinkRequests
from .sockets import Sockets

_FIB_MATCH: Final = 0x2000  # return the matched entry of the table instead of the resolved route (Linux 4.13)
_TABLE_MAIN: Final = 254

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """The way to one address of the broker, with `prefix` and `metric` of the route.

    `interfaces`: the one that the route uses, and those below it, of a bond or a VLAN.
    """

    broker: Address
    interfaces: frozenset[str]
    via: Address | None
    prefix: int
    metric: int
    main: bool

    def __str__(self) -> str:
        over = " and ".join(sorted(self.interfaces))
        return (
            f"the agent reaches its broker at {self.broker} over {over}{'' if self.via is None else f' by {self.via}'}"
        )


class BrokerWay:
    """The way of the agent to its broker, on the network that `sockets` opens into.

    `addresses` returns those of the broker; none when the agent reaches it by a Unix socket of this machine.

    The route is read again before each change, because the routes of a host may change at any time.
    """

    def __init__(self, sockets: Sockets, offload: Offload, addresses: Callable[[], Awaitable[Sequence[str]]]) -> None:
        self._sockets = sockets
        self._offload = offload
        self._addresses = addresses

    async def check(self, interface: str, setting: Setting, value: Json) -> None:
        """Raises RefusedError when `value` at `interface` would cut it."""
        for text in await self._addresses():
            way = await self._offload(self._find, ipaddress.ip_address(text.partition("%")[0]))
            if way is not None and (why := _cuts(way, interface, setting, value)):
                raise RefusedError(
                    f"{interface}: {setting} {_words(value)}: {why}: {way}. Nothing was changed. "
                    "Set it at a port that does not lead to the broker, "
                    "or give the broker an address on a network of its own"
                )

    def _find(self, broker: Address) -> _Way | None:
        """Find the way to the broker; None when no change could cut it: the broker is on this host, or no route leads
        to it.
        """
        with NetlinkRequests(self._sockets) as kernel:
            try:
                used = _route(kernel, broker, 0)
                if used["type"] == rt_type["local"]:
                    return None
                entry = _route(kernel, broker, _FIB_MATCH)
            except KernelRefusal:  # network unreachable
                return None
            via = used.get_attr("RTA_GATEWAY")
            return _Way(
                broker=broker,
                interfaces=_with_those_below(kernel, used.get_attr("RTA_OIF")),
                via=None if via is None else ipaddress.ip_address(via),
                prefix=entry["dst_len"],
                metric=entry.get_attr("RTA_PRIORITY") or 0,
                main=(entry.get_attr("RTA_TABLE") or entry["table"]) == _TABLE_MAIN,
            )


def _cuts(way: _Way, interface: str, setting: Setting, value: Any) -> str:
    """Why `value` would cut it, in words; empty when it would not."""
    here = interface in way.interfaces
    match setting:
        case Setting.MTU if here:
            return "packets that are too long for the network would be lost silently"
        case Setting.AUTONEG | Setting.FEC if here:
            return "it takes the link down"
        case Setting.NEIGHBOUR if here and ipaddress.ip_address(value["ip"]) in (way.via, way.broker):
            return "packets to the broker would go to that hardware address"
        case Setting.ADDRESS:
            address = ipaddress.ip_interface(value)
            if address.ip in (way.broker, way.via):
                return "the host would take packets to the broker for its own"
            if not (here and way.via is None) and _takes(way, address.network, 0):
                return f"packets to the broker would leave by {interface}, as if {address.network} were there"
        case Setting.ROUTE:
            to, via = ipaddress.ip_network(value["to"]), value.get("via")
            same = here and (None if via is None else ipaddress.ip_address(via)) == way.via
            if not same and _takes(way, to, value.get("metric") or 0):
                return f"packets to the broker would take this route to {to}"
    return ""


def _takes(way: _Way, to: ipaddress.IPv4Network | ipaddress.IPv6Network, metric: int) -> bool:
    """Whether the kernel would prefer a route to `to`.

    The order of the kernel's other tables is not known here, so any route that covers the broker counts.
    """
    if way.broker.version != to.version or way.broker not in to:
        return False
    return not way.main or to.prefixlen > way.prefix or (to.prefixlen == way.prefix and metric <= way.metric)


def _route(kernel: NetlinkRequests, to: Address, flags: int) -> Any:
    question = rtmsg()
    family = socket.AF_INET if to.version == 4 else socket.AF_INET6
    question.update(family=family, dst_len=to.max_prefixlen, flags=flags)
    question["attrs"].append(("RTA_DST", str(to)))
    (route,) = kernel.ask(f"find the route to {to}", question, RTM_GETROUTE)
    return route


def _with_those_below(kernel: NetlinkRequests, index: int) -> frozenset[str]:
    """The interface with this number, and recursively those that it is built on.

    The other end of a veth pair in another network is not included.
    """
    names: dict[int, str] = {}
    above: dict[int, set[int]] = {}
    for link in kernel.ask("read the interfaces", ifinfmsg(), RTM_GETLINK, NLM_F_DUMP):
        number, name = link["index"], link.get_attr("IFLA_IFNAME")
        names[number] = name.decode(errors="replace") if isinstance(name, bytes) else name  # the kernel takes any bytes
        if master := link.get_attr("IFLA_MASTER"):
            above.setdefault(master, set()).add(number)
        if link.get_attr("IFLA_LINK_NETNSID") is None and (below := link.get_attr("IFLA_LINK")):
            above.setdefault(number, set()).add(below)
    seen, due = set[int](), [index]
    while due:
        number = due.pop()
        if number not in seen:
            seen.add(number)
            due += above.get(number, ())
    return frozenset(names[number] for number in seen if number in names)


def _words(value: Json) -> str:
    return " ".join(f"{key} {one}" for key, one in value.items()) if isinstance(value, Mapping) else str(value)
