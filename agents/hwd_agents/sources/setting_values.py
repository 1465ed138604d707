"""parse_value: checks values of settings that arrive over the bus, by one type per setting, before any change."""

import ipaddress
from typing import Annotated, Literal

import msgspec

from hwd_agents.wire.setting import METRIC_MOST, MTU_LEAST, MTU_MOST, Setting
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_plain

_Mtu = Annotated[int, msgspec.Meta(ge=MTU_LEAST, le=MTU_MOST)]
_Fec = Literal["auto", "off", "rs", "baser", "llrs"]
_Mac = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}\Z")]
_Metric = Annotated[int, msgspec.Meta(ge=0, le=METRIC_MOST)]


class _Neighbour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ip: str
    mac: _Mac


class _Route(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    to: str
    via: str | None = None
    metric: _Metric | None = None


def parse_value(setting: Setting, data: object) -> Json:
    """The value in `data`, in the form of `hwd_agents.sources.setting_source`. Raises RefusedError."""
    try:
        return _parse(setting, data)
    except (msgspec.ValidationError, ValueError) as error:
        raise RefusedError(f"{setting}: no such value: {reason_of(error)}") from error


def _parse(setting: Setting, data: object) -> Json:
    match setting:
        case Setting.MTU:
            return from_plain(data, _Mtu)
        case Setting.AUTONEG:
            return from_plain(data, bool)
        case Setting.FEC:
            fec: str = from_plain(data, _Fec)
            return fec
        case Setting.ADDRESS:
            return str(ipaddress.ip_interface(from_plain(data, str)))
        case Setting.NEIGHBOUR:
            neighbour = from_plain(data, _Neighbour)
            return {"ip": str(ipaddress.ip_address(neighbour.ip)), "mac": neighbour.mac.lower()}
        case Setting.ROUTE:
            return _route(from_plain(data, _Route))


def _route(route: _Route) -> Json:
    to = ipaddress.ip_network(route.to)
    value: dict[str, Json] = {"to": str(to)}
    if route.via is not None:
        via = ipaddress.ip_address(route.via)
        if via.version != to.version:
            raise ValueError(f"{to} via {via}: one is IPv4 and the other IPv6")
        value["via"] = str(via)
    if route.metric is not None:
        value["metric"] = route.metric
    return value
