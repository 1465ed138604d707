"""Finding the daemon: a URL, HWD_URL, or the one daemon of this user on this machine; and finding it again
after a restart.
"""

import os
from collections.abc import Mapping
from typing import Self
from urllib.parse import urlsplit

from hwd.client.find_token import find_token
from hwd.config.run_files.places import DaemonPlace, daemon_at, daemon_of, daemons
from hwd_drivers.core.errors import ConfigError, LinkError


class Whereabouts:
    """Where a daemon listens, and the token for it.

    A daemon that was found in the run directory is looked up there again when it does not answer: it may listen on
    another port by now.
    """

    def __init__(self, url: str, *, testbed: str | None = None, environment: Mapping[str, str] = os.environ) -> None:
        self.url = url
        self._testbed = testbed
        self._environment = environment

    @property
    def token(self) -> str | None:
        """The token of the environment, else that of a daemon of this user which listens at this URL. It is never sent
        to anything else.
        """
        return find_token(daemon_at(lambda place: place.http == self.url, self._environment), self._environment)

    @classmethod
    def find(
        cls, url: str | None = None, environment: Mapping[str, str] = os.environ, *, testbed: str | None = None
    ) -> Self:
        """Raises LinkError where no daemon runs, ConfigError where several do; both say what to do."""
        if named := url or (None if testbed else environment.get("HWD_URL")):
            return cls(_own_name(_checked(named), environment), environment=environment)
        place = _only(environment) if testbed is None else _of(testbed, environment)
        return cls(place.http, testbed=place.testbed, environment=environment)

    def look_again(self) -> bool:
        """Look the daemon up again; True where it listens elsewhere now, at `url`."""
        place = None if self._testbed is None else daemon_of(self._testbed, self._environment)
        if place is None or place.http == self.url:
            return False
        self.url = place.http
        return True


def find_daemon(url: str | None = None, environment: Mapping[str, str] = os.environ) -> str:
    """The daemon's URL. Raises LinkError where none runs, ConfigError where several do; both say what to do."""
    return Whereabouts.find(url, environment).url


def _of(testbed: str, environment: Mapping[str, str]) -> DaemonPlace:
    place = daemon_of(testbed, environment)
    if place is None:
        others = ", ".join(place.testbed for place in daemons(environment)) or "none"
        raise LinkError(
            f"testbed {testbed}: no daemon of it runs here; those that do: {others}. Start it with `hwd serve`"
        )
    return place


def _only(environment: Mapping[str, str]) -> DaemonPlace:
    match daemons(environment):
        case [one]:
            return one
        case []:
            raise LinkError(
                "no daemon of this user runs on this machine. "
                "Start one with `hwd serve TESTBED`, or name one with --url or HWD_URL"
            )
        case several:
            lines = "\n".join(f"  --url {place.http}   {place}" for place in several)
            raise ConfigError(f"{len(several)} daemons run on this machine. Say which with --url or HWD_URL:\n{lines}")


def _own_name(url: str, environment: Mapping[str, str]) -> str:
    """Replace `localhost` by the address on which a daemon of this user listens at that port.

    `localhost` may be an address where somebody else listens.
    """
    asked = urlsplit(url)
    if asked.hostname != "localhost":
        return url
    place = daemon_at(lambda place: urlsplit(place.http).port == asked.port, environment)
    return url if place is None else place.http


def _checked(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"url {url!r}: not the URL of a daemon; write it as http://127.0.0.1:8642")
    try:
        host, _ = urlsplit(url).hostname, urlsplit(url).port
    except ValueError as error:
        raise ConfigError(f"url {url!r}: {error}; write it as http://127.0.0.1:8642") from error
    if not host:
        raise ConfigError(f"url {url!r}: names no host; write it as http://127.0.0.1:8642")
    return url.rstrip("/")
