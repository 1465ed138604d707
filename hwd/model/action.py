"""Actions: reversible settings of NIC ports, which a playbook's `host` step asks for and the testbed file has to allow.

parse_actions({"ports": ["h0.eth0"], "set": {"mtu": 4200, "autoneg": "off"}}, testbed)
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Setting, Testbed
from hwd_agents.wire.bounds import SettingState
from hwd_agents.wire.setting import METRIC_MOST, MTU_LEAST, MTU_MOST
from hwd_drivers.core.errors import ConfigError


class Fec(StrEnum):
    """Forward error correction, in the words of `ethtool --show-fec`."""

    AUTO = "auto"
    """What module and speed require."""
    OFF = "off"
    """No error correction."""
    RS = "rs"
    """Reed-Solomon, clause 91 or 134."""
    BASER = "baser"
    """Fire code, clause 74."""
    LLRS = "llrs"
    """Reed-Solomon with low latency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One setting of one NIC port: `port` gets `value`.

    Type of the value, by setting: mtu bytes; autoneg a bool; fec a word of `Fec`; address `10.1.0.1/32`; neighbour {ip,
    mac}; route {to, via (optional), metric (optional)}.
    """

    port: NicPortId
    setting: Setting
    value: SettingState

    def __str__(self) -> str:
        """`h0.eth0 autoneg off`."""
        return f"{self.port} {self.setting} {_words(self.value)}"


def parse_actions(data: object, testbed: Testbed) -> tuple[Action, ...]:
    """Read `{ports: all | h0.eth0 | [...], set: {mtu: 4200, ...}}`: port by port, in the order of `set`.

    Raises ConfigError for an unknown port or setting, for a wrong value, and for a setting that is not in the testbed
    file's `host_actions`.
    """
    ports, settings = _split(data)
    ids = _parse_ports(ports, testbed)
    wanted = parse_settings(settings)
    for setting, _ in wanted:
        if setting not in testbed.host_actions:
            allowed = ", ".join(testbed.host_actions) or "none"
            raise ConfigError(
                f"host: {setting} is not among the host_actions that testbed {testbed.name} allows: {allowed}. "
                f"Write host_actions: [{', '.join([*testbed.host_actions, setting])}] into the testbed file"
            )
    return tuple(Action(port=id, setting=setting, value=value) for id in ids for setting, value in wanted)


def parse_settings(data: object) -> tuple[tuple[Setting, SettingState], ...]:
    """Read the `set` of a host step, without a testbed. A list of addresses, neighbours or routes becomes one setting
    each. Raises ConfigError.
    """
    if not isinstance(data, Mapping) or not data:
        raise ConfigError(f"host: set: name at least one of {', '.join(Setting)}, such as set: {{mtu: 4200}}")
    found: list[tuple[Setting, SettingState]] = []
    for name, value in data.items():
        if not isinstance(name, str) or name not in set(Setting):
            raise ConfigError(f"host: set: {name!r} is no setting; there are {', '.join(Setting)}")
        setting = Setting(name)
        found += [(setting, _parse_value(setting, one)) for one in _each(setting, value)]
    return tuple(found)


def _split(data: object) -> tuple[object, object]:
    if not isinstance(data, Mapping) or data.keys() != {"ports", "set"}:
        raise ConfigError("host: write {ports: all | [h0.eth0, ...], set: {mtu: 4200, ...}}")
    return data["ports"], data["set"]


def _parse_ports(ports: object, testbed: Testbed) -> tuple[NicPortId, ...]:
    if ports == "all":
        return tuple(port.id for port in testbed.ports())
    names = [ports] if isinstance(ports, str) else ports
    if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) for name in names):
        raise ConfigError("host: ports: write all, h0.eth0, or a list of such")
    return tuple(dict.fromkeys(testbed.port(NicPortId.parse(str(name))).id for name in names))


def _each(setting: Setting, value: object) -> Iterable[object]:
    many = setting in (Setting.ADDRESS, Setting.NEIGHBOUR, Setting.ROUTE)
    if many and isinstance(value, list | tuple):
        if not value:
            raise ConfigError(f"host: set: {setting}: the list is empty")
        return value
    return (value,)


def _parse_value(setting: Setting, value: object) -> SettingState:
    match setting:
        case Setting.MTU:
            return _whole(setting, value, least=MTU_LEAST, most=MTU_MOST)
        case Setting.AUTONEG:
            return _switch(value)
        case Setting.FEC:
            word = "off" if value is False else value  # YAML reads a bare off as false
            if not isinstance(word, str) or word not in set(Fec):
                raise ConfigError(f"host: set: fec: {value!r} is none of {', '.join(Fec)}")
            return word
        case Setting.ADDRESS:
            return str(_interface(value))
        case Setting.NEIGHBOUR:
            return _parse_neighbour(value)
        case Setting.ROUTE:
            return _parse_route(value)


def _parse_neighbour(value: object) -> SettingState:
    if not isinstance(value, Mapping) or value.keys() != {"ip", "mac"}:
        raise ConfigError('host: set: neighbour: write {ip: 10.1.0.2, mac: "02:00:00:00:00:01"}')
    mac = value["mac"]
    if not isinstance(mac, str) or not re.fullmatch(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}", mac):
        raise ConfigError(f"host: set: neighbour: mac: {mac!r} is no hardware address; write it in quotes")
    return {"ip": _address("neighbour: ip", value["ip"]), "mac": mac.lower()}


def _parse_route(value: object) -> SettingState:
    if not isinstance(value, Mapping) or not {"to"} <= value.keys() <= {"to", "via", "metric"}:
        raise ConfigError(
            "host: set: route: write {to: 10.2.0.0/24, via: 10.1.0.254, metric: 10}; via and metric may be left out"
        )
    try:
        to = ipaddress.ip_network(str(value["to"]))
    except ValueError as error:
        raise ConfigError(f"host: set: route: to: {error}") from error
    route: dict[str, bool | int | float | str | list[str] | None] = {"to": str(to)}
    if (via := value.get("via")) is not None:
        route["via"] = _address("route: via", via)
        if ipaddress.ip_address(str(via)).version != to.version:
            raise ConfigError(f"host: set: route: {to} via {via}: one is IPv4 and the other IPv6")
    if (metric := value.get("metric")) is not None:
        route["metric"] = _whole("route: metric", metric, least=0, most=METRIC_MOST)
    return route


def _whole(what: str, value: object, *, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigError(f"host: set: {what}: {value!r} is no whole number from {least} to {most}")
    return value


def _switch(value: object) -> bool:
    match value:
        case bool():
            return value
        case "on" | "off":
            return value == "on"
        case _:
            raise ConfigError(f"host: set: autoneg: {value!r} is neither on nor off")


def _interface(value: object) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    try:
        return ipaddress.ip_interface(str(value))
    except ValueError as error:
        raise ConfigError(f"host: set: address: {value!r} is no IP address; write 10.1.0.1/32") from error


def _address(what: str, value: object) -> str:
    try:
        return str(ipaddress.ip_address(str(value)))
    except ValueError as error:
        raise ConfigError(f"host: set: {what}: {value!r} is no IP address") from error


def _words(value: SettingState) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case Mapping():
            return " ".join(f"{key}={one}" for key, one in value.items())
        case _:
            return str(value)
