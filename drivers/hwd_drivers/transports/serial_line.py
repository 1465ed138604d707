"""SerialLine: the settings of a serial port, and its address."""

import re
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal, Self, get_args
from urllib.parse import parse_qsl, urlencode

PREFIX: Final = "serial:"

ByteSize = Literal[5, 6, 7, 8]
Parity = Literal["N", "E", "O", "M", "S"]
StopBits = Literal[1, 2]

_CHOICES: Final = {"bytesize": get_args(ByteSize), "parity": get_args(Parity), "stopbits": get_args(StopBits)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialLine:
    """Speed and framing of a serial port: `SerialLine(baud=115200, rtscts=True)`.

    By default 8N1 without flow control.
    """

    baud: int
    bytesize: ByteSize = 8
    parity: Parity = "N"
    stopbits: StopBits = 1
    rtscts: bool = False

    def complete(self, address: str) -> str:
        """The address with the settings of this line that it lacks; an address that is no serial port stays unchanged.

        Raises ValueError for settings that do not exist.
        """
        if not is_serial(address):
            return address
        path, settings = _split(address)
        return f"{PREFIX}{path}?{urlencode({**_texts(self), **settings})}"

    @classmethod
    def parse(cls, address: str) -> tuple[str, Self]:
        """The device and its line, of `serial:/dev/ttyUSB0?baud=115200&rtscts=1`.

        Raises ValueError for an unusable address.
        """
        path, settings = _split(address)
        if "baud" not in settings:
            raise ValueError(f"{address!r}: has no speed. Write serial:{path}?baud=115200")
        values: dict[str, Any] = {}
        for key, text in settings.items():
            if key != "parity" and not re.fullmatch(r"[0-9]{1,8}", text):
                raise ValueError(f"{address!r}: {key}={text} is not a number")
            value = text if key == "parity" else int(text)
            if key in _CHOICES and value not in _CHOICES[key]:
                raise ValueError(f"{address!r}: {key}={text} is not one of {', '.join(map(str, _CHOICES[key]))}")
            values[key] = value
        if values["baud"] == 0:
            raise ValueError(f"{address!r}: baud=0 would hang up. Write the speed of the line, such as baud=115200")
        return path, cls(**{**values, "rtscts": bool(values.get("rtscts", 0))})


def is_serial(address: str) -> bool:
    """Whether an address names a serial port: `/dev/ttyUSB0`, `serial:/dev/ttyUSB0`."""
    return address.startswith((PREFIX, "/"))


def _split(address: str) -> tuple[str, dict[str, str]]:
    path, _, query = address.removeprefix(PREFIX).partition("?")
    settings = dict(parse_qsl(query, keep_blank_values=True))
    known = [field.name for field in fields(SerialLine)]
    if unknown := [key for key in settings if key not in known]:
        raise ValueError(
            f"{address!r}: {', '.join(unknown)}: not a setting of a serial line. Known are: {', '.join(known)}"
        )
    if not path.startswith("/"):
        raise ValueError(f"{address!r}: not a serial port. Write its device, such as serial:/dev/ttyUSB0")
    return path, settings


def _texts(line: SerialLine) -> dict[str, str]:
    return {key: str(int(value)) if isinstance(value, bool | int) else value for key, value in asdict(line).items()}
