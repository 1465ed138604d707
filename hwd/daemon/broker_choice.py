"""The choice of the broker, from places where others cannot read its password."""

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hwd.model.plural import plural
from hwd_agents.bus.mqtt import BrokerUrl
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.user_file import SECRET_BYTES_MAX, read_user_file

EMBEDDED: Final = "embedded"
URL_VARIABLE: Final = "HWD_MQTT"
FILE_VARIABLE: Final = "HWD_MQTT_FILE"


def chosen_broker(option: str | None, environment: Mapping[str, str]) -> str:
    """What `--mqtt` says, else HWD_MQTT, else the file that HWD_MQTT_FILE names, else `embedded`.

    Raises ConfigError for an invalid URL, for a password on the command line or in a file that others can read, and
    for a file that cannot be read.
    """
    if option is not None:
        if not _is_embedded(option) and BrokerUrl.parse(option).password is not None:
            raise ConfigError(
                f"--mqtt {BrokerUrl.parse(option)}: everybody on this machine can read a password that is on a command "
                "line, and this one has been there now: change it. "
                f"Put the URL into {URL_VARIABLE}, or into a file of your own that {FILE_VARIABLE} names, and leave "
                "--mqtt out"
            )
        return option
    if url := environment.get(URL_VARIABLE):
        return _checked(url)
    if name := environment.get(FILE_VARIABLE):
        return _checked(_read(Path(name)))
    return EMBEDDED


def _is_embedded(text: str) -> bool:
    return text.partition(":")[0] == EMBEDDED


def _checked(text: str) -> str:
    if not _is_embedded(text):
        BrokerUrl.parse(text)
    return text


def _read(path: Path) -> str:
    file = read_user_file(path, most_bytes=SECRET_BYTES_MAX, what=f"{FILE_VARIABLE} {path}", pipes=True)
    text = file.text().strip()
    if not text or len(text.split()) != 1:
        raise ConfigError(
            f"{FILE_VARIABLE} {path}: holds {plural(len(text.split()), 'word')}, and one URL of a broker is wanted"
        )
    if (
        not _is_embedded(text)
        and BrokerUrl.parse(text).password is not None
        and file.mode & (stat.S_IRGRP | stat.S_IROTH)
    ):
        raise ConfigError(
            f"{FILE_VARIABLE} {path}: others can read it (mode {file.mode:o}), and a password is in it: "
            f"chmod 600 {path}"
        )
    return text
