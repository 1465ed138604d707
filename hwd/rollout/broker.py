"""The address at which a host reaches the broker."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hwd.bus.broker import Logins
from hwd_agents.bus.mqtt import BrokerUrl
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ip_address import ip_address_of, is_loopback

BROKER_VARIABLE: Final = "HWD_BROKER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """The brokers that a rollout can give to hosts. `named`: the operator's choice, as hosts reach it. `daemons`: the
    broker of the daemon on this machine, as this machine reaches it. `logins` are for URLs without a user.
    """

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
        """Raises ConfigError for a password on the command line, which everybody on this machine can read."""
        if option is not None and BrokerUrl.parse(option).password is not None:
            raise ConfigError(
                f"--broker {BrokerUrl.parse(option)}: everybody on this machine can read a password on a command line. "
                f"Put the URL into {BROKER_VARIABLE} instead"
            )
        named = option or environment.get(BROKER_VARIABLE) or None
        if named is not None:
            BrokerUrl.parse(named)
        return cls(named=named, daemons=daemons, logins=logins)

    @property
    def from_here(self) -> str:
        """The URL for this machine, with the daemon's login. Raises ConfigError where no broker is known."""
        url = self.daemons or self.named
        if url is None:
            raise ConfigError(
                "no broker: no daemon of this testbed runs here. "
                f"Start it (hwd serve), or name the broker with --broker mqtt://HOST:PORT or {BROKER_VARIABLE}"
            )
        return url if self.logins is None else self.logins.for_daemon(url)

    def login_of(self, host: str) -> str | None:
        """The URL for this machine, with the login of a host's agent; None where all have the one in the URL."""
        if self.logins is None:
            return None
        url = self._with_login(host, self.from_here)
        return url if BrokerUrl.parse(url).user == self.logins.rights.user(host) else None

    def for_host(self, name: str, facts: Mapping[str, Any], *, towards: str | None) -> str:
        """The URL for this host, with its login. `facts` are those of `hwd.rollout.onhost.facts.look`; `towards` is the
        address of this machine as the host sees it.

        Raises ConfigError where there is none: an address that leads the host to itself.
        """
        url = self._with_login(name, self.named or self.from_here)
        broker = BrokerUrl.parse(url)
        if same_machine(facts):
            return url
        if broker.transport == "unix" or is_loopback(broker.host):
            raise ConfigError(
                f"{name}: it cannot reach the broker at {broker}: on that host the address means the host itself. "
                "Let the daemon's broker listen for other machines "
                f"(hwd serve --mqtt embedded:{towards or 'ADDRESS'}:1883), "
                "or start the daemon with another broker (its URL in HWD_MQTT), "
                f"or put that one's URL as hosts reach it into {BROKER_VARIABLE}: mqtt://{towards or 'ADDRESS'}:1883"
            )
        if _everywhere(broker.host):
            if towards is None:
                raise ConfigError(
                    f"{name}: the broker listens on every address of this machine, and behind a jump host "
                    f"it is unknown which of them leads here. Name one with --broker mqtt://ADDRESS:{broker.port}"
                )
            shown = f"[{towards}]" if ":" in towards else towards
            return url.replace(f"//{broker.host}", f"//{shown}").replace(f"@{broker.host}", f"@{shown}")
        return url

    def _with_login(self, host: str, url: str) -> str:
        """A URL with the host's login in place of the daemon's own."""
        if self.logins is None:
            return url
        rights = self.logins.rights
        own = f"{rights.daemon}:{self.logins.password(rights.daemon)}@"
        return self.logins.for_host(host, url.replace(f"//{own}", "//"))


def same_machine(facts: Mapping[str, Any]) -> bool:
    """Whether a host is this machine, with the same network."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    return bool(facts["boot"] == boot and facts["network"] == os.stat("/proc/self/ns/net").st_ino)


def _everywhere(host: str) -> bool:
    address = ip_address_of(host)
    return address is not None and address.is_unspecified
