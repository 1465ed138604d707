"""KernelSettings: reads and sets settings of real kernel interfaces.

MTU, addresses, neighbours and routes go over rtnetlink, auto-negotiation and FEC over ethtool netlink.
"""

import errno
import ipaddress
import socket
from collections.abc import Mapping
from typing import Any, Final

from pyroute2.netlink import (
    NETLINK_GENERIC,
    NLM_F_CREATE,
    NLM_F_DUMP,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    nlmsg,
)
from pyroute2.netlink.rtnl import (
    RTM_DELADDR,
    RTM_DELNEIGH,
    RTM_DELROUTE,
    RTM_GETADDR,
    RTM_GETLINK,
    RTM_GETNEIGH,
    RTM_GETROUTE,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWNEIGH,
    RTM_NEWROUTE,
    rt_proto,
    rt_scope,
    rt_type,
)
from pyroute2.netlink.rtnl.ifaddrmsg import IFA_F_NODAD, ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from hwd_agents.sources.setting_source import NUD_LASTING, Setting
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import LinkError, RefusedError
from hwd_drivers.core.offload import Offload

from .ethtool import Ethtool
from .netlink_requests import KernelRefusal, NetlinkRequests
from .rtnetlink_messages import Neighbour, Route
from .sockets import Sockets

IPV6_MTU_LEAST: Final = 1280
"""Below this MTU the kernel removes an interface's IPv6 addresses, and does not restore them (RFC 8200, section 5)."""

_REPLACE: Final = NLM_F_CREATE | NLM_F_REPLACE
_NUD_STALE, _NUD_PERMANENT = 0x04, 0x80
_NUD_NOTHING: Final = 0x01 | 0x20  # incomplete, failed: no hardware address is known
_RT_TABLE_MAIN: Final = 254
_RTNH_F_ONLINK: Final = 4  # the only flag of a route that is a setting; the others report the interface's state
_IPV6_METRIC: Final = 1024  # the kernel's default
_GONE: Final = frozenset({errno.ENODEV, errno.ENXIO})
_ANSWERS: Final = {RTM_NEWNEIGH: Neighbour, RTM_NEWROUTE: Route}


class KernelSettings:
    """A SettingSource on the network that `sockets` opens into.

    Each call has a socket of its own, in a thread: a NIC's firmware may take seconds.

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
                with NetlinkRequests(self._sockets, NETLINK_GENERIC) as kernel:
                    ethtool = Ethtool(kernel)
                    return ethtool.autoneg(interface) if setting is Setting.AUTONEG else ethtool.fec(interface)
            case _:
                with NetlinkRequests(self._sockets, answers=_ANSWERS) as kernel:
                    return _Interface(kernel, interface).read(setting, value)

    def _write(self, interface: str, setting: Setting, value: Any) -> None:
        match setting:
            case Setting.AUTONEG:
                with NetlinkRequests(self._sockets, NETLINK_GENERIC) as kernel:
                    ethtool = Ethtool(kernel)
                    ethtool.set_autoneg(interface, {**ethtool.autoneg(interface), "autoneg": value})
            case Setting.FEC:
                auto = value == "auto"
                with NetlinkRequests(self._sockets, NETLINK_GENERIC) as kernel:
                    ethtool = Ethtool(kernel)
                    now = ethtool.fec(interface)
                    if not now["auto"] and not now["modes"]:
                        raise RefusedError(
                            f"{interface}: the NIC reports no configured FEC, so the FEC could not be put back"
                        )
                    ethtool.set_fec(interface, {"auto": auto, "modes": [] if auto else [value]})
            case _:
                with NetlinkRequests(self._sockets, answers=_ANSWERS) as kernel:
                    _Interface(kernel, interface).write(setting, value)

    def _restore(self, interface: str, setting: Setting, value: Any, state: Any) -> None:
        match setting:
            case Setting.AUTONEG:
                with NetlinkRequests(self._sockets, NETLINK_GENERIC) as kernel:
                    Ethtool(kernel).set_autoneg(interface, state)
            case Setting.FEC:
                with NetlinkRequests(self._sockets, NETLINK_GENERIC) as kernel:
                    Ethtool(kernel).set_fec(interface, state)
            case _:
                with NetlinkRequests(self._sockets, answers=_ANSWERS) as kernel:
                    _Interface(kernel, interface).restore(setting, value, state)


class _Interface:
    """One interface over rtnetlink."""

    def __init__(self, kernel: NetlinkRequests, name: str) -> None:
        self._kernel = kernel
        self._name = name
        question = ifinfmsg()
        question["attrs"].append(("IFLA_IFNAME", name))
        try:
            (link,) = kernel.ask(f"read {name}", question, RTM_GETLINK)
        except KernelRefusal as error:
            if error.number in _GONE:
                raise LinkError(f"{name}: no such interface here") from error
            raise
        self._index: int = link["index"]
        self._mtu: int = link.get_attr("IFLA_MTU")

    def read(self, setting: Setting, value: Any) -> Json:
        match setting:
            case Setting.ADDRESS:
                return ipaddress.ip_interface(value) in self._addresses(_family(value))
            case Setting.NEIGHBOUR:
                return self._neighbour(value["ip"])
            case Setting.ROUTE:
                return self._route(value)
            case _:
                return self._mtu

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
            lost = [str(one) for one in self._addresses(socket.AF_INET6) if not one.is_link_local]
            if lost:
                raise RefusedError(
                    f"{self._name}: MTU {mtu} is below {IPV6_MTU_LEAST}: "
                    f"the kernel would remove {', '.join(lost)} for good"
                )
        message = ifinfmsg()
        message["index"] = self._index
        message["attrs"].append(("IFLA_MTU", mtu))
        self._ask(f"set the MTU of {self._name} to {mtu}", message, RTM_NEWLINK)

    # --- addresses

    def _addresses(self, family: int) -> list[ipaddress.IPv4Interface | ipaddress.IPv6Interface]:
        question = ifaddrmsg()
        question["family"] = family
        found = []
        for message in self._ask(f"read the addresses of {self._name}", question, RTM_GETADDR, NLM_F_DUMP):
            address = message.get_attr("IFA_LOCAL") or message.get_attr("IFA_ADDRESS")
            if message["index"] == self._index and address is not None:
                found.append(ipaddress.ip_interface((address, message["prefixlen"])))
        return found

    def _set_address(self, text: str, *, there: bool) -> None:
        address = ipaddress.ip_interface(text)
        if (address in self._addresses(_family(text))) is there:
            return
        message = ifaddrmsg()
        message.update(family=_family(text), prefixlen=address.network.prefixlen, index=self._index)
        message["attrs"] += [("IFA_LOCAL", str(address.ip)), ("IFA_ADDRESS", str(address.ip))]
        if there:
            if address.version == 6:
                message["flags"] = IFA_F_NODAD  # a dark link would keep the address tentative
            self._ask(f"give {text} to {self._name}", message, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL)
        else:
            self._ask(f"take {text} from {self._name}", message, RTM_DELADDR)

    # --- neighbours

    def _neighbour(self, ip: str) -> Json:
        question = Neighbour()
        question["family"] = _family(ip)
        packed = ipaddress.ip_address(ip).packed
        for message in self._ask(f"read the neighbours of {self._name}", question, RTM_GETNEIGH, NLM_F_DUMP):
            if message["ifindex"] == self._index and message.get_attr("NDA_DST") == packed:
                mac, state = message.get_attr("NDA_LLADDR"), message["state"]
                return None if mac is None or state & _NUD_NOTHING else {"mac": mac.hex(":"), "nud": state}
        return None

    def _set_neighbour(self, ip: str, mac: str, state: int) -> None:
        message = self._neighbour_message(ip)
        message.update(state=state, ndm_type=rt_type["unicast"])
        message["attrs"].append(("NDA_LLADDR", bytes.fromhex(mac.replace(":", ""))))
        self._ask(f"know {ip} as {mac} at {self._name}", message, RTM_NEWNEIGH, _REPLACE)

    def _forget_neighbour(self, ip: str) -> None:
        accepted = frozenset({errno.ENOENT, errno.ENXIO})
        self._ask(f"forget {ip} at {self._name}", self._neighbour_message(ip), RTM_DELNEIGH, accepted=accepted)

    def _neighbour_message(self, ip: str) -> Neighbour:
        message = Neighbour()
        message.update(family=_family(ip), ifindex=self._index)
        message["attrs"].append(("NDA_DST", ipaddress.ip_address(ip).packed))
        return message

    # --- routes, of the main table

    def _route(self, value: Mapping[str, Any]) -> Json:
        """The route to the same prefix with the same metric, on any interface."""
        to = ipaddress.ip_network(value["to"])
        question = Route()
        question["family"] = _family(value["to"])
        for route in self._ask("read the routes", question, RTM_GETROUTE, NLM_F_DUMP):
            table = route.get_attr("RTA_TABLE") or route["table"]
            packed = route.get_attr("RTA_DST") or bytes(len(to.network_address.packed))
            same = (table, route["dst_len"], packed) == (_RT_TABLE_MAIN, to.prefixlen, to.network_address.packed)
            if not same or (route.get_attr("RTA_PRIORITY") or 0) != _metric(value):
                continue
            via, oif = route.get_attr("RTA_GATEWAY"), route.get_attr("RTA_OIF")
            route["flags"] &= _RTNH_F_ONLINK
            head, attributes = route.strip(("RTA_OIF", "RTA_CACHEINFO")).parts()
            return {
                "via": None if via is None else str(ipaddress.ip_address(via)),
                "ours": oif == self._index,
                "oif": oif,
                "head": head.hex(),
                "attributes": attributes.hex(),
            }
        return None

    def _add_route(self, value: Mapping[str, Any]) -> None:
        to, via = ipaddress.ip_network(value["to"]), value.get("via")
        message = self._route_message(value)
        straight = via is None and to.version == 4
        message.update(proto=rt_proto["static"], scope=rt_scope["link" if straight else "universe"])
        if via is not None:
            message["attrs"].append(("RTA_GATEWAY", ipaddress.ip_address(via).packed))
        self._ask(f"reach {to} over {self._name}", message, RTM_NEWROUTE, _REPLACE)

    def _delete_route(self, value: Mapping[str, Any]) -> None:
        message = self._route_message(value)
        message["scope"] = rt_scope["nowhere"]  # matches any scope
        accepted = frozenset({errno.ESRCH})
        self._ask(f"forget {value['to']} over {self._name}", message, RTM_DELROUTE, accepted=accepted)

    def _bring_route_back(self, value: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Restore it exactly. A route out of this interface leads out of it again, even after it was created anew."""
        message = Route.of(bytes.fromhex(state["head"]), bytes.fromhex(state["attributes"]))
        oif = self._index if state["ours"] else state["oif"]
        if oif is not None:
            message["attrs"].append(("RTA_OIF", oif))
        self._ask(f"bring the route to {value['to']} back", message, RTM_NEWROUTE, _REPLACE)

    def _route_message(self, value: Mapping[str, Any]) -> Route:
        to = ipaddress.ip_network(value["to"])
        message = Route()
        message.update(family=_family(value["to"]), dst_len=to.prefixlen, table=_RT_TABLE_MAIN, type=rt_type["unicast"])
        if to.prefixlen:
            message["attrs"].append(("RTA_DST", to.network_address.packed))
        if (metric := _metric(value)) != 0:
            message["attrs"].append(("RTA_PRIORITY", metric))
        message["attrs"].append(("RTA_OIF", self._index))
        return message

    def _ask(
        self, says: str, message: nlmsg, kind: int, flags: int = 0, *, accepted: frozenset[int] = frozenset()
    ) -> list[Any]:
        try:
            return self._kernel.ask(says, message, kind, flags)
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
