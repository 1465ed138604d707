"""SshSettings: the settings for reaching a host, from the testbed file and `~/.ssh/config`."""

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import paramiko

from hwd.model.ssh import SshPlace
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.user_file import read_user_file

KEY_NAMES: Final = ("id_ed25519", "id_ecdsa", "id_rsa")
"""As OpenSSH looks for them (ssh(1), -i)."""
MOST_JUMPS: Final = 8
"""In a row; `ProxyJump via-%h` would name another one each time."""
CONFIG_BYTES_MAX: Final = 1_000_000
SYSTEM_KNOWN_HOSTS: Final = Path("/etc/ssh/ssh_known_hosts")


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSettings:
    """The settings of a place in the testbed file, completed by `~/.ssh/config`."""

    address: str
    port: int
    user: str
    keys: tuple[str, ...]
    known_hosts: tuple[Path, ...]
    jump: SshPlace | None

    @property
    def known_as(self) -> str:
        return self.address if self.port == 22 else f"[{self.address}]:{self.port}"

    @classmethod
    def of(cls, place: SshPlace, folder: Path, way: tuple[SshPlace, ...] = ()) -> Self:
        """`folder` is `~/.ssh`; `way`: the hosts that are reached through this one, the last one directly.
        Raises ConfigError.
        """
        found: Mapping[str, str | list[str]] = {}
        config = folder / "config"
        if config.exists():
            try:
                text = read_user_file(config, most_bytes=CONFIG_BYTES_MAX).text()
                found = paramiko.SSHConfig.from_text(text).lookup(place.address)
            except (paramiko.SSHException, paramiko.ConfigParseError) as error:
                raise ConfigError(f"{config}: cannot be read: {reason_of(error)}") from error
        jump: SshPlace | None = place.jump
        named = str(found.get("proxyjump", "none"))
        if jump is None and named != "none":
            if "," in named:
                raise ConfigError(f"{config}: ProxyJump {named}: one jump host is followed, not several")
            jump = SshPlace.parse(named)
            _check_way((*way, place, jump), config)
        elif jump is None and str(found.get("proxycommand", "none")) != "none":
            raise ConfigError(
                f"{config}: ProxyCommand of {place.address} is not supported. "
                f"Name a jump host: ssh: {{address: {place}, jump: user@host}}"
            )
        named_files = str(found.get("userknownhostsfile", folder / "known_hosts")).split()
        files = named_files if place.known_hosts is None else [place.known_hosts]
        return cls(
            address=str(found.get("hostname", place.address)),
            port=place.port or int(str(found.get("port", 22))),
            user=place.user or str(found.get("user", "")) or getpass.getuser(),
            keys=_keys(place, found.get("identityfile", []), folder),
            known_hosts=(*(Path(os.path.expanduser(one)) for one in files), SYSTEM_KNOWN_HOSTS),
            jump=jump,
        )


def _check_way(way: tuple[SshPlace, ...], config: Path) -> None:
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


def _keys(place: SshPlace, named: str | list[str], folder: Path) -> tuple[str, ...]:
    """Existing files with private keys; the one that the testbed file names must exist."""
    if place.key is None:
        candidates = [named] if isinstance(named, str) else named or [str(folder / name) for name in KEY_NAMES]
        return tuple(key for key in candidates if Path(key).exists())
    key = os.path.expanduser(place.key)
    if not Path(key).exists():
        raise ConfigError(f"{place}: there is no key file {key}. Correct `key` in the testbed file")
    return (key,)
