"""Settings of real kernel interfaces: MTU, addresses, neighbours and routes over rtnetlink, auto-negotiation and FEC over ethtool netlink."""

import errno
import ipaddress
import socket
import struct
from collections.abc import Mapping
from typing import Any, Final

from hwd_agents.sources.setting_source import NUD_LASTING, Setting
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import LinkError, RefusedError
from hwd_drivers.core.offload import Offload

from . import netlink
from .ethtool import Ethtool
from .netlink import attributes, encode_attribute, encode_text, encode_u32
from .netlink_ask import KernelRefusal, NetlinkAsk
from .sockets import Sockets

IPV6_MTU_LEAST: Final = 1280
"""Below it the kernel takes the IPv6 addresses of an interface away, and does not bring them back (RFC 8200, section 5)."""

RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
RTM_NEWNEIGH, RTM_DELNEIGH, RTM_GETNEIGH = 28, 29, 30

_ADDRESS: Final = struct.Struct("=BBBBI")  # struct ifaddrmsg: family, prefix length, flags, scope, index
_NEIGHBOUR: Final = struct.Struct("=BxxxiHBB")  # struct ndmsg: family, index, state, flags, type
_ROUTE: Final = struct.Struct(
    "=BBBBBBBBI"
)  # struct rtmsg: family, lengths of both prefixes, tos, table, protocol, scope, type, flags
_REPLACE: Final = netlink.NLM_F_CREATE | netlink.NLM_F_REPLACE
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_IFA_F_NODAD: Final = 0x02  # a dark link would keep the address tentative
_NDA_DST, _NDA_LLADDR = 1, 2
_NUD_STALE, _NUD_PERMANENT = 0x04, 0x80
_NUD_NOTHING: Final = 0x01 | 0x20  # incomplete, failed: no hardware address is known
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_PRIORITY, _RTA_CACHEINFO, _RTA_TABLE = 1, 4, 5, 6, 12, 15
_RT_TABLE_MAIN, _RTPROT_STATIC, _RTN_UNICAST = 254, 4, 1
_RTNH_F_ONLINK: Final = 4  # of a route's flags the one that is a wish; others say how its interface is
_SCOPE_WORLD, _SCOPE_LINK = 0, 253
_IPV6_METRIC: Final = 1024  # what the kernel takes where none is stated
_GONE: Final = frozenset({errno.ENODEV, errno.ENXIO})


class KernelSettings:
    """A SettingSource on the network that `sockets` opens into. Each call has a socket of its own, in a thread: a NIC's firmware may take seconds.

    settings = KernelSettings(HostSockets(), offload)
    await settings.write("eth0", Setting.MTU, 4200)
    """

    def __init__(self, sockets: Sockets, offload: Offload) -> None:
        self._sockets = sockets
        self._offload = offload

    async def read(self, interface: str, setting: Setting, value: Json) -> Json:
        return await self._offload(self._read, interface, setting, value)

    async def write(self, interface: str, setting: Setting, value: Json) -> None:
        await self._offload(self._write, interface, setting, value)

    async def restore(self, interface: str, setting: Setting, value: Json, state: Json) -> None:
        await self._offload(self._restore, interface, setting, value, state)

    def _read(self, interface: str, setting: Setting, value: Any) -> Json:
        match setting:
            case Setting.AUTONEG | Setting.FEC:
                with self._open(netlink.NETLINK_GENERIC) as kernel:
                    ethtool = Ethtool(kernel)
                    return ethtool.autoneg(interface) if setting is Setting.AUTONEG else ethtool.fec(interface)
            case _:
                with self._open(socket.NETLINK_ROUTE) as kernel:
                    return _Interface(kernel, interface).read(setting, value)

    def _write(self, interface: str, setting: Setting, value: Any) -> None:
        match setting:
            case Setting.AUTONEG:
                with self._open(netlink.NETLINK_GENERIC) as kernel:
                    ethtool = Ethtool(kernel)
                    ethtool.set_autoneg(interface, {**ethtool.autoneg(interface), "autoneg": value})
            case Setting.FEC:
                auto = value == "auto"
                with self._open(netlink.NETLINK_GENERIC) as kernel:
                    ethtool = Ethtool(kernel)
                    now = ethtool.fec(interface)
                    if not now["auto"] and not now["modes"]:
                        raise RefusedError(
                            f"{interface}: the NIC tells of no FEC that is set, so it could not be put back as it was"
                        )
                    ethtool.set_fec(interface, {"auto": auto, "modes": [] if auto else [value]})
            case _:
                with self._open(socket.NETLINK_ROUTE) as kernel:
                    _Interface(kernel, interface).write(setting, value)

    def _restore(self, interface: str, setting: Setting, value: Any, state: Any) -> None:
        match setting:
            case Setting.AUTONEG:
                with self._open(netlink.NETLINK_GENERIC) as kernel:
                    Ethtool(kernel).set_autoneg(interface, state)
            case Setting.FEC:
                with self._open(netlink.NETLINK_GENERIC) as kernel:
                    Ethtool(kernel).set_fec(interface, state)
            case _:
                with self._open(socket.NETLINK_ROUTE) as kernel:
                    _Interface(kernel, interface).restore(setting, value, state)

    def _open(self, protocol: int) -> NetlinkAsk:
        return NetlinkAsk(self._sockets.open(socket.AF_NETLINK, socket.SOCK_RAW, protocol))


class _Interface:
    """One interface over rtnetlink."""

    def __init__(self, kernel: NetlinkAsk, name: str) -> None:
        self._kernel = kernel
        self._name = name
        payload = netlink.INTERFACE.pack(socket.AF_UNSPEC, 0, 0, 0, 0) + encode_text(netlink.IFLA_IFNAME, name)
        try:
            (link,) = kernel.ask(f"read {name}", netlink.RTM_GETLINK, 0, payload)
        except KernelRefusal as error:
            if error.number in _GONE:
                raise LinkError(f"{name}: no such interface here") from error
            raise
        self._index: int = netlink.INTERFACE.unpack_from(link.payload)[2]
        (self._mtu,) = struct.unpack("=I", attributes(link.payload, netlink.INTERFACE.size)[netlink.IFLA_MTU])

    def read(self, setting: Setting, value: Any) -> Json:
        match setting:
            case Setting.ADDRESS:
                return ipaddress.ip_interface(value) in self._addresses(_family(value))
            case Setting.NEIGHBOUR:
                return self._neighbour(value["ip"])
            case Setting.ROUTE:
                return self._route(value)
            case _:
                return int(self._mtu)

    def write(self, setting: Setting, value: Any) -> None:
        match setting:
            case Setting.ADDRESS:
                self._set_address(value, there=True)
            case Setting.NEIGHBOUR:
                self._set_neighbour(value["ip"], value["mac"], _NUD_PERMANENT)
            case Setting.ROUTE:
                self._add_route(value)
            case _:
                self._set_mtu(value)

    def restore(self, setting: Setting, value: Any, state: Any) -> None:
        match setting:
            case Setting.ADDRESS:
                self._set_address(value, there=state)
            case Setting.NEIGHBOUR if state is None:
                self._forget_neighbour(value["ip"])
            case Setting.NEIGHBOUR:
                lasting = state["nud"] & NUD_LASTING
                self._set_neighbour(value["ip"], state["mac"], lasting or _NUD_STALE)
            case Setting.ROUTE if state is None:
                self._delete_route(value)
            case Setting.ROUTE:
                self._bring_route_back(value, state)
            case _:
                self._set_mtu(state)

    # --- MTU

    def _set_mtu(self, mtu: int) -> None:
        if mtu < IPV6_MTU_LEAST:
            kept = [str(one) for one in self._addresses(socket.AF_INET6) if not one.is_link_local]
            if kept:
                raise RefusedError(
                    f"{self._name}: MTU {mtu} is below {IPV6_MTU_LEAST}: the kernel would take {', '.join(kept)} away for good"
                )
        payload = netlink.INTERFACE.pack(socket.AF_UNSPEC, 0, self._index, 0, 0) + encode_u32(netlink.IFLA_MTU, mtu)
        self._ask(f"set the MTU of {self._name} to {mtu}", netlink.RTM_NEWLINK, 0, payload)

    # --- addresses

    def _addresses(self, family: int) -> list[ipaddress.IPv4Interface | ipaddress.IPv6Interface]:
        payload = _ADDRESS.pack(family, 0, 0, 0, 0)
        found = []
        for message in self._ask(f"read the addresses of {self._name}", RTM_GETADDR, netlink.NLM_F_DUMP, payload):
            _family, length, _flags, _scope, index = _ADDRESS.unpack_from(message.payload)
            inner = attributes(message.payload, _ADDRESS.size)
            packed = inner.get(_IFA_LOCAL) or inner.get(_IFA_ADDRESS)
            if index == self._index and packed is not None:
                found.append(ipaddress.ip_interface((packed, length)))
        return found

    def _set_address(self, text: str, *, there: bool) -> None:
        address = ipaddress.ip_interface(text)
        if (address in self._addresses(_family(text))) is there:
            return
        flags = _IFA_F_NODAD if address.version == 6 and there else 0
        payload = _ADDRESS.pack(_family(text), address.network.prefixlen, flags, 0, self._index)
        payload += encode_attribute(_IFA_LOCAL, address.packed) + encode_attribute(_IFA_ADDRESS, address.packed)
        if there:
            create = netlink.NLM_F_CREATE | netlink.NLM_F_EXCL
            self._ask(f"give {text} to {self._name}", RTM_NEWADDR, create, payload)
        else:
            self._ask(f"take {text} from {self._name}", RTM_DELADDR, 0, payload)

    # --- neighbours

    def _neighbour(self, ip: str) -> Json:
        payload = _NEIGHBOUR.pack(_family(ip), 0, 0, 0, 0)
        packed = ipaddress.ip_address(ip).packed
        for message in self._ask(f"read the neighbours of {self._name}", RTM_GETNEIGH, netlink.NLM_F_DUMP, payload):
            _, index, state, _, _ = _NEIGHBOUR.unpack_from(message.payload)
            found = attributes(message.payload, _NEIGHBOUR.size)
            if index == self._index and found.get(_NDA_DST) == packed:
                mac = found.get(_NDA_LLADDR)
                return None if mac is None or state & _NUD_NOTHING else {"mac": mac.hex(":"), "nud": state}
        return None

    def _set_neighbour(self, ip: str, mac: str, state: int) -> None:
        payload = _NEIGHBOUR.pack(_family(ip), self._index, state, 0, _RTN_UNICAST)
        payload += encode_attribute(_NDA_DST, ipaddress.ip_address(ip).packed)
        payload += encode_attribute(_NDA_LLADDR, bytes.fromhex(mac.replace(":", "")))
        self._ask(f"know {ip} as {mac} at {self._name}", RTM_NEWNEIGH, _REPLACE, payload)

    def _forget_neighbour(self, ip: str) -> None:
        payload = _NEIGHBOUR.pack(_family(ip), self._index, 0, 0, 0)
        payload += encode_attribute(_NDA_DST, ipaddress.ip_address(ip).packed)
        accepted = frozenset({errno.ENOENT, errno.ENXIO})
        self._ask(f"forget {ip} at {self._name}", RTM_DELNEIGH, 0, payload, accepted=accepted)

    # --- routes, of the main table

    def _route(self, value: Mapping[str, Any]) -> Json:
        """The route to the same prefix with the same metric, by whichever interface."""
        to = ipaddress.ip_network(value["to"])
        payload = _ROUTE.pack(_family(value["to"]), 0, 0, 0, 0, 0, 0, 0, 0)
        for message in self._ask("read the routes", RTM_GETROUTE, netlink.NLM_F_DUMP, payload):
            head = _ROUTE.unpack_from(message.payload)
            found = attributes(message.payload, _ROUTE.size)
            table = _number(found.get(_RTA_TABLE)) or head[4]
            packed = found.get(_RTA_DST, bytes(len(to.network_address.packed)))
            same = (table, head[1], packed) == (_RT_TABLE_MAIN, to.prefixlen, to.network_address.packed)
            if not same or (_number(found.get(_RTA_PRIORITY)) or 0) != _metric(value):
                continue
            via = found.get(_RTA_GATEWAY)
            kept = {kind: data for kind, data in found.items() if kind not in (_RTA_OIF, _RTA_CACHEINFO)}
            return {
                "via": None if via is None else str(ipaddress.ip_address(via)),
                "ours": _number(found.get(_RTA_OIF)) == self._index,
                "oif": _number(found.get(_RTA_OIF)),
                "head": _ROUTE.pack(*head[:-1], head[-1] & _RTNH_F_ONLINK).hex(),
                "attributes": b"".join(encode_attribute(kind, data) for kind, data in kept.items()).hex(),
            }
        return None

    def _add_route(self, value: Mapping[str, Any]) -> None:
        to, via = ipaddress.ip_network(value["to"]), value.get("via")
        scope = _SCOPE_WORLD if via is not None or to.version == 6 else _SCOPE_LINK
        payload = self._route_payload(value, scope=scope, protocol=_RTPROT_STATIC)
        if via is not None:
            payload += encode_attribute(_RTA_GATEWAY, ipaddress.ip_address(via).packed)
        self._ask(f"reach {to} over {self._name}", RTM_NEWROUTE, _REPLACE, payload)

    def _delete_route(self, value: Mapping[str, Any]) -> None:
        payload = self._route_payload(value, scope=255, protocol=0)  # scope nowhere: any will do
        accepted = frozenset({errno.ESRCH})
        self._ask(f"forget {value['to']} over {self._name}", RTM_DELROUTE, 0, payload, accepted=accepted)

    def _bring_route_back(self, value: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Just as it was; where it led out of this interface, it does so again, though the interface may have been made anew."""
        payload = bytes.fromhex(state["head"] + state["attributes"])
        oif = self._index if state["ours"] else state["oif"]
        if oif is not None:
            payload += encode_u32(_RTA_OIF, oif)
        self._ask(f"bring the route to {value['to']} back", RTM_NEWROUTE, _REPLACE, payload)

    def _route_payload(self, value: Mapping[str, Any], *, scope: int, protocol: int) -> bytes:
        to = ipaddress.ip_network(value["to"])
        head = (_family(value["to"]), to.prefixlen, 0, 0, _RT_TABLE_MAIN, protocol, scope, _RTN_UNICAST, 0)
        payload = _ROUTE.pack(*head)
        if to.prefixlen:
            payload += encode_attribute(_RTA_DST, to.network_address.packed)
        if (metric := _metric(value)) != 0:
            payload += encode_u32(_RTA_PRIORITY, metric)
        return payload + encode_u32(_RTA_OIF, self._index)

    def _ask(
        self, says: str, kind: int, flags: int, payload: bytes, *, accepted: frozenset[int] = frozenset()
    ) -> list[netlink.Message]:
        try:
            return self._kernel.ask(says, kind, flags, payload)
        except KernelRefusal as error:
            if error.number in accepted:
                return []
            if error.number in _GONE:
                raise LinkError(f"{self._name}: {error}") from error
            if error.number == errno.EOPNOTSUPP:
                raise RefusedError(f"{self._name}: {error}") from error
            raise


def _family(text: str) -> int:
    return socket.AF_INET if ipaddress.ip_interface(text).version == 4 else socket.AF_INET6


def _metric(value: Mapping[str, Any]) -> int:
    metric = value.get("metric")
    if metric is None:
        return 0 if ipaddress.ip_network(value["to"]).version == 4 else _IPV6_METRIC
    return int(metric)


def _number(data: bytes | None) -> int | None:
    return None if data is None else int(struct.unpack("=I", data)[0])
