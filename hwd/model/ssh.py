"""SshPlace: the SSH address of a host."""

import re
from dataclasses import dataclass
from typing import Final, Self

from hwd_drivers.core.errors import ConfigError

_PLACE: Final = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[\w.-]+))(?::(?P<port>[0-9]{1,6}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class SshPlace:
    """Fields that are None come from `~/.ssh/config`, else from OpenSSH's defaults.

    `key`: a file with a private key. `known_hosts`: a file with the host's own key. `jump`: the host to connect
    through.
    """

    address: str
    port: int | None = None
    user: str | None = None
    key: str | None = None
    known_hosts: str | None = None
    jump: Self | None = None

    def __str__(self) -> str:
        """The place as OpenSSH's own commands write it, `root@10.0.0.10`."""
        at = f"{self.user}@" if self.user else ""
        if self.port is None:
            return f"{at}{self.address}"
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{at}{host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """`host`, `user@host`, `user@host:port`, `[fe80::1]:22`. Raises ConfigError on anything else."""
        user, _, place = text.rpartition("@")
        found = _PLACE.fullmatch(place)
        if found is None or (not user and text.startswith("@")) or any(one.isspace() for one in user):
            raise ConfigError(f"{text!r} is no SSH place: write user@host or user@host:port, such as root@10.0.0.10")
        port = None if found["port"] is None else int(found["port"])
        if port is not None and not 1 <= port <= 65535:
            raise ConfigError(f"{text!r}: {port} is no port: they go from 1 to 65535")
        return cls(address=found["v6"] or found["host"], port=port, user=user or None)
