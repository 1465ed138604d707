"""Reads secrets from the places that a testbed file names. Messages name the place, never the secret."""

import logging
import stat
from collections.abc import Mapping

from hwd.model.testbed import SecretRef
from hwd_drivers.core.errors import BugError, ConfigError
from hwd_drivers.core.user import in_home
from hwd_drivers.core.user_file import SECRET_BYTES_MAX, read_user_file

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
    file = read_user_file(path, most_bytes=SECRET_BYTES_MAX, what=f"secret {reference}")
    if file.mode & (stat.S_IRGRP | stat.S_IROTH):
        _log.warning("secret %s may be read by others (mode %o); chmod 600 it", reference, file.mode)
    return file.text().rstrip("\r\n")
