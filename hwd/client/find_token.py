"""Finds the token with which a client authenticates itself to a daemon."""

from collections.abc import Mapping
from pathlib import Path

from hwd.config.run_files.places import DaemonPlace
from hwd.model.plural import plural
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.user_file import SECRET_BYTES_MAX, read_user_file


def find_token(place: DaemonPlace | None, environment: Mapping[str, str]) -> str | None:
    """HWD_TOKEN, else the content of the file HWD_TOKEN_FILE, else the token file of a daemon of this user. None
    without any.

    Raises ConfigError where a named file cannot be read.
    """
    if token := environment.get("HWD_TOKEN"):
        return token
    if name := environment.get("HWD_TOKEN_FILE"):
        return _read(Path(name), f"HWD_TOKEN_FILE {name}")
    if place is not None and place.token_file:
        return _read(Path(place.token_file), f"token of the daemon of testbed {place.testbed}, {place.token_file}")
    return None


def _read(path: Path, what: str) -> str:
    words = read_user_file(path, most_bytes=SECRET_BYTES_MAX, what=what, pipes=True).text().split()
    if len(words) != 1:
        raise ConfigError(f"{what}: holds {plural(len(words), 'word')}; one token is expected")
    return words[0]
