"""Reads secrets from the places that a testbed file names. Messages name the place, never the secret."""

import logging
import stat
from collections.abc import Mapping

from hwd.model.testbed import SecretRef
from hwd_drivers.core.errors import BugError, ConfigError
from hwd_drivers.core.user import in_home

_log = logging.getLogger(__name__)


def resolve(reference: SecretRef, *, environment: Mapping[str, str]) -> str:
    """The secret; raises ConfigError where it does not exist or is empty. Warns of a file that others may read."""
    match reference.kind:
        case "env":
            secret = environment.get(reference.name, "")
        case "file":
            secret = _read(reference)
        case _:
            raise BugError(f"secret {reference}: kind {reference.kind!r} is neither env nor file")
    if not secret:
        what = "the environment variable is not set" if reference.kind == "env" else "the file is empty"
        raise ConfigError(f"secret {reference}: {what}")
    return secret


def _read(reference: SecretRef) -> str:
    try:
        path = in_home(reference.name)
    except ConfigError as error:
        raise ConfigError(f"secret {reference}: {error}") from error
    try:
        mode = path.stat().st_mode
        secret = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"secret {reference}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:  # its own message contains the bytes
        raise ConfigError(f"secret {reference}: not UTF-8 text") from error.__cause__
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        _log.warning("secret %s may be read by others (mode %o); chmod 600 it", reference, stat.S_IMODE(mode))
    return secret.rstrip("\r\n")
