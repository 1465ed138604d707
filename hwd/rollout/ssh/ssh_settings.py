"""SshSettings: the settings for reaching a host, from the testbed file and the configuration of `ssh`."""

import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from hwd.model.ssh import SshPlace
from hwd.rollout.ssh.ssh_config import SshConfig, user_home
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.user import in_home, user_name

MOST_JUMPS: Final = 8
"""In a row; `ProxyJump via-%h` would name another one each time."""
FAMILIES: Final = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}
"""The values of AddressFamily; any other value is any family."""
RSA_LEAST_BITS: Final = 1024
"""The default of RequiredRSASize."""
AGENT_VARIABLE: Final = "SSH_AUTH_SOCK"


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithms:
    """The algorithms that a configuration allows; an empty list allows what the library has."""

    kex: tuple[str, ...] = ()
    ciphers: tuple[str, ...] = ()
    macs: tuple[str, ...] = ()
    host_keys: tuple[str, ...] = ()
    user_keys: tuple[str, ...] = ()
    rsa_least_bits: int = RSA_LEAST_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSettings:
    """The settings of a place in the testbed file, completed by what `ssh` is configured to do.

    `known_as`: the name of the host in files of host keys. `keys`: files with private or public keys. `agent`: the
    socket of the SSH agent. `keys_only`: the agent's other keys are not tried (IdentitiesOnly).
    """

    address: str
    port: int
    user: str
    known_as: str
    known_hosts: tuple[Path, ...]
    keys: tuple[str, ...]
    keys_only: bool
    agent: str | None
    family: socket.AddressFamily
    bind_address: str | None
    algorithms: Algorithms
    jump: SshPlace | None

    @classmethod
    def of(cls, place: SshPlace, home: Path | None, way: tuple[SshPlace, ...] = ()) -> Self:
        """`home` has `.ssh`, None for the user's; `way`: the hosts that are reached through this one, the last one
        directly. Blocking; raises ConfigError.
        """
        config = SshConfig.read(place, home)
        ways = config.first("preferredauthentications", "publickey").split(",")
        if "publickey" not in ways:
            raise config.refusal("preferredauthentications", place, "We log in by a key alone: add publickey")
        if config.first("pubkeyauthentication", "yes") in ("no", "false"):
            raise config.refusal("pubkeyauthentication", place, "We log in by a key alone: remove it for this host")
        address = config.first("hostname", place.address)
        port = int(config.first("port", str(place.port or 22)))
        alias = config.first("hostkeyalias", address if port == 22 else f"[{address}]:{port}")
        family = config.first("addressfamily", "any")
        return cls(
            address=address,
            port=port,
            user=config.first("user", place.user or "") or user_name(),
            known_as=alias,
            known_hosts=_known_hosts(place, config, home),
            keys=_keys(place, config, home),
            keys_only=place.key is not None or config.first("identitiesonly") == "yes",
            agent=_agent(config.first("identityagent", AGENT_VARIABLE)),
            family=FAMILIES.get(family, socket.AF_UNSPEC),
            bind_address=config.first("bindaddress") or None,
            algorithms=Algorithms(
                kex=config.names("kexalgorithms"),
                ciphers=config.names("ciphers"),
                macs=config.names("macs"),
                host_keys=config.names("hostkeyalgorithms"),
                user_keys=config.names("pubkeyacceptedalgorithms"),
                rsa_least_bits=int(config.first("requiredrsasize", str(RSA_LEAST_BITS))),
            ),
            jump=_jump(place, config, way),
        )


def _jump(place: SshPlace, config: SshConfig, way: tuple[SshPlace, ...]) -> SshPlace | None:
    """The last of the jump hosts, which is reached through those before it."""
    named = config.first("proxyjump", "none")
    if place.jump is not None or named == "none":
        return place.jump
    jump: SshPlace | None = None
    for hop in named.split(","):
        jump = replace(SshPlace.parse(hop.removeprefix("ssh://").rstrip("/")), jump=jump)
    assert jump is not None
    _check_way((*way, place, jump), config.shown)
    return jump


def _check_way(way: tuple[SshPlace, ...], config: str) -> None:
    """Raise ConfigError for a jump host that is reached through itself, as by `Host *`, which would loop forever."""
    *before, last = way
    shown = " -> ".join(str(place) for place in way)
    if any((one.address, one.port, one.user) == (last.address, last.port, last.user) for one in before):
        raise ConfigError(
            f"{config}: ProxyJump leads in a circle: {shown}. "
            f"Exclude the jump host where it is named: Host * !{last.address}"
        )
    if len(before) > MOST_JUMPS:
        raise ConfigError(f"{config}: ProxyJump: {shown}: more than {MOST_JUMPS} jump hosts in a row. Name fewer")


def _known_hosts(place: SshPlace, config: SshConfig, home: Path | None) -> tuple[Path, ...]:
    own = config.files("userknownhostsfile")
    if place.known_hosts is not None:
        own = (in_home(place.known_hosts),)
    elif home is not None:  # as if it were that of the user, whose files `ssh` names
        folder, users = home / ".ssh", user_home() / ".ssh"
        own = tuple(folder / one.relative_to(users) if one.is_relative_to(users) else one for one in own)
    return (*own, *config.files("globalknownhostsfile"))


def _keys(place: SshPlace, config: SshConfig, home: Path | None) -> tuple[str, ...]:
    """Files with keys, and files beside which there is a public key; what the testbed file names must exist."""
    if place.key is not None:
        key = str(in_home(place.key))
        if not Path(key).exists():
            raise ConfigError(f"{place}: there is no key file {key}. Correct `key` in the testbed file")
        return (key,)
    above = home or user_home()
    named = [one for one in config.values.get("identityfile", ()) if one != "none"]
    at_home = [str(above / one[2:]) if one.startswith("~/") else one for one in named]
    found = [config.expand(one, place.address) for one in at_home]
    return tuple(key for key in dict.fromkeys(found) if Path(key).exists() or Path(f"{key}.pub").exists())


def _agent(named: str) -> str | None:
    """The path of its socket; None where there is none, or it is not to be used."""
    if named == AGENT_VARIABLE or named.startswith("$"):
        return os.environ.get(named.removeprefix("$")) or None
    return None if named == "none" else named
