"""The broker's address as a host reaches it."""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hwd.bus.broker import Logins
from hwd_agents.bus.mqtt import BrokerUrl
from hwd_drivers.core.errors import ConfigError

BROKER_VARIABLE: Final = "HWD_BROKER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """`named`: what the operator said, as hosts reach it. `daemons`: the one of the daemon that runs here, as this machine reaches it. Where a URL names no user, `logins` has them."""

    named: str | None
    daemons: str | None
    logins: Logins | None = None

    @classmethod
    def of(
        cls,
        option: str | None,
        daemons: str | None,
        environment: Mapping[str, str] = os.environ,
        *,
        logins: Logins | None = None,
    ) -> "Brokers":
        """Raises ConfigError for a password on the command line, which everybody on this machine may read."""
        if option is not None and BrokerUrl.parse(option).password is not None:
            raise ConfigError(
                f"--broker {BrokerUrl.parse(option)}: everybody on this machine can read a password that is on a command line. Put the URL into {BROKER_VARIABLE} instead"
            )
        named = option or environment.get(BROKER_VARIABLE) or None
        if named is not None:
            BrokerUrl.parse(named)
        return cls(named=named, daemons=daemons, logins=logins)

    @property
    def from_here(self) -> str:
        """As this machine reaches it, with the daemon's login. Raises ConfigError where nobody said."""
        url = self.daemons or self.named
        if url is None:
            raise ConfigError(
                f"no broker: no daemon of this testbed runs here. Start it (hwd serve), or name the broker with --broker mqtt://HOST:PORT or {BROKER_VARIABLE}"
            )
        return url if self.logins is None else self.logins.for_daemon(url)

    def login_of(self, host: str) -> str | None:
        """The broker as this machine reaches it, with the login of a host's agent; None where all have the one that the URL names."""
        if self.logins is None:
            return None
        url = self._with_login(host, self.from_here)
        return url if BrokerUrl.parse(url).user == self.logins.access.user(host) else None

    def for_host(self, name: str, facts: Mapping[str, Any], *, towards: str | None) -> str:
        """As this host reaches it, with its login. `facts` are `hwd.rollout.onhost.facts.look`'s, `towards` is the address of this machine that the host sees.

        Raises ConfigError where that cannot be: an address that leads the host to itself.
        """
        url = self._with_login(name, self.named or self.from_here)
        broker = BrokerUrl.parse(url)
        if same_machine(facts):
            return url
        if broker.transport == "unix" or _only_here(broker.host):
            raise ConfigError(
                f"{name}: it cannot reach the broker at {broker}: on that host this leads to the host itself. Let the daemon's broker listen for other machines "
                f"(hwd serve --mqtt embedded:{towards or 'ADDRESS'}:1883), or start the daemon with another broker (its URL in HWD_MQTT), "
                f"or put that one's URL as hosts reach it into {BROKER_VARIABLE}: mqtt://{towards or 'ADDRESS'}:1883"
            )
        if _everywhere(broker.host):
            if towards is None:
                raise ConfigError(
                    f"{name}: the broker listens on every address of this machine, and behind a jump host none of them is known to lead here. Name one with --broker mqtt://ADDRESS:{broker.port}"
                )
            shown = f"[{towards}]" if ":" in towards else towards
            return url.replace(f"//{broker.host}", f"//{shown}").replace(f"@{broker.host}", f"@{shown}")
        return url

    def _with_login(self, host: str, url: str) -> str:
        """A URL that names the daemon's own user, too, gets that of the host."""
        if self.logins is None:
            return url
        access = self.logins.access
        own = f"{access.daemon}:{self.logins.password(access.daemon)}@"
        return self.logins.for_host(host, url.replace(f"//{own}", "//"))


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
