"""The user of this process: its name and its home, also where passwd has no entry for it, as in containers."""

import getpass
import os
import pwd
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Final

from hwd_drivers.core.errors import ConfigError


def user_name() -> str:
    """`ada`; `uid12345` where no name is known."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError from Python 3.13 on
        return f"uid{os.getuid()}"


NO_HOME: Final = "/nonexistent"
"""The home of users who have none, in Debian."""


def name_user(environment: MutableMapping[str, str] = os.environ) -> None:
    """Put name and home where libraries look for them, such as those of SSH and of figures: where nothing is known,
    some end with a traceback. Entry points do this first.
    """
    try:
        getpass.getuser()
    except (KeyError, OSError):
        environment["LOGNAME"] = user_name()
    try:
        home(environment, remedy="")
    except ConfigError:
        environment["HOME"] = NO_HOME


def home(environment: Mapping[str, str] = os.environ, *, remedy: str) -> Path:
    """The home of this user. Raises ConfigError, with the remedy beside HOME, where none is known."""
    if (named := environment.get("HOME")) and named != NO_HOME:
        return Path(named)
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        raise ConfigError(
            f"the home of user {user_name()} is not known: HOME is not set, and passwd has no entry for user id "
            f"{os.getuid()}. Set HOME{remedy}"
        ) from None


def in_home(path: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The path with the home for a leading `~`. Raises ConfigError where that is not known."""
    first, _, rest = path.partition("/")
    if first == "~":
        return home(environment, remedy=f", or write {path} as a whole path") / rest
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigError(f"{path}: there is no user {first[1:]} here. Write a whole path") from None
