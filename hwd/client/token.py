"""The token with which a client talks to a daemon, and where it is found."""

from collections.abc import Mapping
from pathlib import Path

from hwd.config.run_files.places import DaemonPlace
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.reason import reason_of


def find_token(place: DaemonPlace | None, environment: Mapping[str, str]) -> str | None:
    """HWD_TOKEN, else what the file HWD_TOKEN_FILE holds, else the file that a daemon of this user says of itself; None where there is none.

    Raises ConfigError where a file that is named cannot be read.
    """
    if token := environment.get("HWD_TOKEN"):
        return token
    if name := environment.get("HWD_TOKEN_FILE"):
        return _read(Path(name), f"HWD_TOKEN_FILE {name}")
    if place is not None and place.token_file:
        return _read(Path(place.token_file), f"token of the daemon of testbed {place.testbed}, {place.token_file}")
    return None


def _read(path: Path, what: str) -> str:
    try:
        words = path.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{what}: cannot be read: {reason_of(error)}") from error
    if len(words) != 1:
        raise ConfigError(f"{what}: holds {len(words)} words, and one token is wanted")
    return words[0]
