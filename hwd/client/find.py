"""Which daemon is meant: the URL that was given, HWD_URL, or the one daemon of this user on this machine."""

import os
from collections.abc import Mapping

from hwd.config.places import daemons
from hwd_drivers.kit.errors import ConfigError, LinkError


def find_daemon(url: str | None = None, environment: Mapping[str, str] = os.environ) -> str:
    """The daemon's URL. Raises LinkError where none runs, ConfigError where several do; both say what to do."""
    if named := url or environment.get("HWD_URL"):
        return _checked(named)
    found = daemons(environment)
    match found:
        case [one]:
            return one.http
        case []:
            raise LinkError(
                "no daemon of this user runs on this machine. Start one with `hwd serve TESTBED`, or name one with --url or HWD_URL"
            )
        case several:
            lines = "\n".join(f"  --url {place.http}   {place}" for place in several)
            raise ConfigError(f"{len(several)} daemons run on this machine. Say which with --url or HWD_URL:\n{lines}")


def _checked(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"url {url!r}: not the URL of a daemon; write it as http://127.0.0.1:8642")
    return url.rstrip("/")
