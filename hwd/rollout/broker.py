"""The broker's address as a host reaches it."""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hwd_agents.bus.mqtt import BrokerUrl
from hwd_drivers.kit.errors import ConfigError

BROKER_VARIABLE: Final = "HWD_BROKER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """`named`: what the operator said, as hosts reach it. `daemons`: the one of the daemon that runs here, as this machine reaches it."""

    named: str | None
    daemons: str | None

    @classmethod
    def of(cls, option: str | None, daemons: str | None, environment: Mapping[str, str] = os.environ) -> "Brokers":
        """Raises ConfigError for a password on the command line, which everybody on this machine may read."""
        if option is not None and BrokerUrl.parse(option).password is not None:
            raise ConfigError(
                f"--broker {BrokerUrl.parse(option)}: everybody on this machine can read a password that is on a command line. Put the URL into {BROKER_VARIABLE} instead"
            )
        named = option or environment.get(BROKER_VARIABLE) or None
        if named is not None:
            BrokerUrl.parse(named)
        return cls(named=named, daemons=daemons)

    @property
    def from_here(self) -> str:
        """As this machine reaches it. Raises ConfigError where nobody said."""
        url = self.daemons or self.named
        if url is None:
            raise ConfigError(
                f"no broker: no daemon of this testbed runs here. Start it (hwd serve), or name the broker with --broker mqtt://HOST:PORT or {BROKER_VARIABLE}"
            )
        return url

    def for_host(self, name: str, facts: Mapping[str, Any], *, towards: str | None) -> str:
        """As this host reaches it. `facts` are `onhost.look`'s, `towards` is the address of this machine that the host sees.

        Raises ConfigError where that cannot be: an address that leads the host to itself.
        """
        url = self.named or self.from_here
        broker = BrokerUrl.parse(url)
        if same_machine(facts):
            return url
        if broker.transport == "unix" or _only_here(broker.host):
            raise ConfigError(
                f"{name}: it cannot reach the broker at {broker}: on that host this leads to the host itself. Agents elsewhere need a broker with a password, such as Mosquitto: "
                f"start the daemon with it (its URL in HWD_MQTT), or put its URL as hosts reach it into {BROKER_VARIABLE}: mqtt://USER:PASSWORD@{towards or 'ADDRESS'}:1883"
            )
        if _everywhere(broker.host):
            if towards is None:
                raise ConfigError(
                    f"{name}: the broker listens on every address of this machine, and behind a jump host none of them is known to lead here. Name one with --broker mqtt://ADDRESS:{broker.port}"
                )
            shown = f"[{towards}]" if ":" in towards else towards
            return url.replace(f"//{broker.host}", f"//{shown}").replace(f"@{broker.host}", f"@{shown}")
        return url


def same_machine(facts: Mapping[str, Any]) -> bool:
    """Whether a host is this machine, its network included."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    return bool(facts["boot"] == boot and facts["network"] == os.stat("/proc/self/ns/net").st_ino)


def _only_here(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _everywhere(host: str) -> bool:
    address = _address(host)
    return address is not None and address.is_unspecified


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
