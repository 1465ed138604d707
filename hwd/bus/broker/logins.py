"""Logins: user and password of the daemon and of each host at the broker, derived from one secret in a data folder."""

import hmac
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

from hwd.bus.broker.user_rights import UserRights
from hwd.config.run_files.secret_file import draw_once
from hwd_agents.bus.mqtt import BrokerUrl
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import Ids

FILE: Final = "broker-secret"
WHAT: Final = "secret of the broker's passwords"


class Logins:
    """A password is HMAC-SHA256 of its user under the secret, 160 bits in hexadecimal. One password reveals no
    other one, and a new host has its password at once.

    logins = Logins.from_folder(UserRights.of(testbed), data_folder, ids)
    logins.for_host("h0", "mqtt://10.0.0.1:1883")       # mqtt://lab.h0:5f0c...@10.0.0.1:1883
    """

    def __init__(self, rights: UserRights, secret: str) -> None:
        self.rights = rights
        self._secret = secret.encode()

    @classmethod
    def from_folder(cls, rights: UserRights, data: Path, ids: Ids, *, for_owner: bool = False) -> Self:
        """Read the secret in a data folder, or create it. Raises ConfigError where others may read it.

        `for_owner`: root works for the owner of the folder, who then owns the secret too.
        """
        try:
            data.mkdir(mode=0o700, parents=True, exist_ok=True)
            owner = data.stat().st_uid if for_owner and os.geteuid() == 0 else None
        except OSError as error:
            raise ConfigError(f"{data}: cannot be used as data directory: {error.strerror}") from error
        return cls(rights, draw_once(data / FILE, ids, what=WHAT, owner=owner))

    @property
    def users(self) -> Mapping[str, str]:
        """All passwords by user, that of the daemon first."""
        names = (self.rights.daemon, *(self.rights.user(host) for host in sorted(self.rights.hosts)))
        return {name: self.password(name) for name in names}

    def password(self, user: str) -> str:
        return hmac.new(self._secret, user.encode(), sha256).hexdigest()[:40]

    def for_daemon(self, url: str) -> str:
        """The broker's URL with the daemon's login; as it is where it names a user already, or a Unix socket."""
        return self._with(self.rights.daemon, url)

    def for_host(self, host: str, url: str) -> str:
        return self._with(self.rights.user(host), url)

    def _with(self, user: str, url: str) -> str:
        broker = BrokerUrl.parse(url)
        if broker.user is not None or broker.transport == "unix":
            return url
        scheme, _, rest = url.partition("://")
        return f"{scheme}://{user}:{self.password(user)}@{rest}"
