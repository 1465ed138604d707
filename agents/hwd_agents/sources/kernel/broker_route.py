"""The way from this host to its broker, as the kernel routes it, and which settings of ports would cut it: whoever is cut off cannot be told to put them back."""

import ipaddress
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from hwd_agents.sources.setting_source import Setting
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.offload import Offload

from . import netlink
from .netlink import attributes, encode_attribute
from .netlink_ask import KernelRefusal, NetlinkAsk
from .sockets import Sockets

RTM_GETROUTE: Final = 26
_ROUTE: Final = struct.Struct("=BBBBBBBBI")  # struct rtmsg
_FIB_MATCH: Final = 0x2000  # the entry of the table that was taken, and not what was made of it (Linux 4.13)
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_PRIORITY, _RTA_TABLE = 1, 4, 5, 6, 15
_TABLE_MAIN: Final = 254
_TYPE_LOCAL: Final = 2
_IFLA_LINK, _IFLA_MASTER, _IFLA_LINK_NETNSID = 5, 10, 37

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Way(Protocol):
    """Knows how the agent reaches its broker."""

    async def check(self, interface: str, setting: Setting, value: Json) -> None:
        """Raises RefusedError where `value` at `interface` would cut it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """To one address of the broker. `interfaces`: the one that the route leads out of, and those below it, of a bond or a VLAN; `prefix` and `metric` of the route."""

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
    """A Way on the network that `sockets` opens into; `addresses` tells those of the broker, none where it is on this machine by a Unix socket.

    It is read anew before each change: the routes of a host may change by themselves.
    """

    def __init__(self, sockets: Sockets, offload: Offload, addresses: Callable[[], Awaitable[Sequence[str]]]) -> None:
        self._sockets = sockets
        self._offload = offload
        self._addresses = addresses

    async def check(self, interface: str, setting: Setting, value: Json) -> None:
        for text in await self._addresses():
            way = await self._offload(self._find, ipaddress.ip_address(text.partition("%")[0]))
            if way is not None and (why := _cuts(way, interface, setting, value)):
                raise RefusedError(
                    f"{interface}: {setting} {_words(value)}: {why}: {way}. Nothing was changed. Set it at a port that the broker is not reached by, "
                    "or give the broker an address on a network of its own"
                )

    def _find(self, broker: Address) -> _Way | None:
        """None where no other host is between: the broker is here, or there is no route that a change could take away."""
        with NetlinkAsk(self._sockets.open(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)) as kernel:
            try:
                taken, _ = _route(kernel, broker, 0)
                if taken[7] == _TYPE_LOCAL:
                    return None
                head, found = _route(kernel, broker, _FIB_MATCH)
            except KernelRefusal:  # network unreachable
                return None
            _, used = _route(kernel, broker, 0)
            index = _number(used.get(_RTA_OIF))
            via = used.get(_RTA_GATEWAY)
            return _Way(
                broker=broker,
                interfaces=_with_those_below(kernel, index),
                via=None if via is None else ipaddress.ip_address(via),
                prefix=head[1],
                metric=_number(found.get(_RTA_PRIORITY)),
                main=(_number(found.get(_RTA_TABLE)) or head[4]) == _TABLE_MAIN,
            )


def _cuts(way: _Way, interface: str, setting: Setting, value: Any) -> str:
    """Why it would, in words; empty where it would not."""
    here = interface in way.interfaces
    match setting:
        case Setting.MTU if here:
            return "packets that are too long for the network would be lost without a word"
        case Setting.AUTONEG | Setting.FEC if here:
            return "it takes the link down"
        case Setting.NEIGHBOUR if here and ipaddress.ip_address(value["ip"]) in (way.via, way.broker):
            return "packets to the broker would go to that hardware address"
        case Setting.ADDRESS:
            address = ipaddress.ip_interface(value)
            if address.ip in (way.broker, way.via):
                return "the host would take packets to it for its own"
            if not (here and way.via is None) and _takes(way, address.network, 0):
                return f"packets to the broker would go out of {interface}, where {address.network} would be"
        case Setting.ROUTE:
            to, via = ipaddress.ip_network(value["to"]), value.get("via")
            same = here and (None if via is None else ipaddress.ip_address(via)) == way.via
            if not same and _takes(way, to, value.get("metric") or 0):
                return f"packets to the broker would take this route to {to}"
    return ""


def _takes(way: _Way, to: ipaddress.IPv4Network | ipaddress.IPv6Network, metric: int) -> bool:
    """Whether a route to there would be taken instead. Which of other tables is asked first is not known here, so any that covers the broker counts."""
    if way.broker.version != to.version or way.broker not in to:
        return False
    return not way.main or to.prefixlen > way.prefix or (to.prefixlen == way.prefix and metric <= way.metric)


def _route(kernel: NetlinkAsk, to: Address, flags: int) -> tuple[tuple[int, ...], Mapping[int, bytes]]:
    family, bits = (socket.AF_INET, 32) if to.version == 4 else (socket.AF_INET6, 128)
    payload = _ROUTE.pack(family, bits, 0, 0, 0, 0, 0, 0, flags) + encode_attribute(_RTA_DST, to.packed)
    (answer,) = kernel.ask(f"find the route to {to}", RTM_GETROUTE, 0, payload)
    return _ROUTE.unpack_from(answer.payload), attributes(answer.payload, _ROUTE.size)


def _with_those_below(kernel: NetlinkAsk, index: int) -> frozenset[str]:
    """The interface with this number, those that it is made of, and so on. The other end of a pair in another network is none of them."""
    names: dict[int, str] = {}
    above: dict[int, set[int]] = {}
    payload = netlink.INTERFACE.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
    for message in kernel.ask("read the interfaces", netlink.RTM_GETLINK, netlink.NLM_F_DUMP, payload):
        number = netlink.INTERFACE.unpack_from(message.payload)[2]
        found = attributes(message.payload, netlink.INTERFACE.size)
        names[number] = found[netlink.IFLA_IFNAME].rstrip(b"\0").decode(errors="replace")
        if master := _number(found.get(_IFLA_MASTER)):
            above.setdefault(master, set()).add(number)
        if _IFLA_LINK_NETNSID not in found and (below := _number(found.get(_IFLA_LINK))):
            above.setdefault(number, set()).add(below)
    seen, due = set[int](), [index]
    while due:
        number = due.pop()
        if number not in seen:
            seen.add(number)
            due += above.get(number, ())
    return frozenset(names[number] for number in seen if number in names)


def _number(data: bytes | None) -> int:
    return 0 if data is None else int(struct.unpack("=I", data)[0])


def _words(value: Json) -> str:
    return " ".join(f"{key} {one}" for key, one in value.items()) if isinstance(value, Mapping) else str(value)
