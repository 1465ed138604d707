"""SerialLine: how bytes go over a serial port, and the address that says which port and how."""

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
    """Speed and frame of a serial port: `SerialLine(baud=115200, rtscts=True)`; left out, it is 8N1 without flow control."""

    baud: int
    bytesize: ByteSize = 8
    parity: Parity = "N"
    stopbits: StopBits = 1
    rtscts: bool = False

    def complete(self, address: str) -> str:
        """The address with all of this line that it does not say itself; one that is no serial port is left alone.

        Raises ValueError for settings that there are not.
        """
        if not is_serial(address):
            return address
        path, settings = _split(address)
        return f"{PREFIX}{path}?{urlencode({**_texts(self), **settings})}"

    @classmethod
    def parse(cls, address: str) -> tuple[str, Self]:
        """The device and its line, of `serial:/dev/ttyUSB0?baud=115200&rtscts=1`. Raises ValueError for one that cannot be used."""
        path, settings = _split(address)
        if "baud" not in settings:
            raise ValueError(f"{address!r}: how fast is the line? Write serial:{path}?baud=115200")
        values: dict[str, Any] = {}
        for key, text in settings.items():
            if key != "parity" and not re.fullmatch(r"[0-9]{1,8}", text):
                raise ValueError(f"{address!r}: {key}={text} is no number")
            value = text if key == "parity" else int(text)
            if key in _CHOICES and value not in _CHOICES[key]:
                raise ValueError(f"{address!r}: {key}={text} is not one of {', '.join(map(str, _CHOICES[key]))}")
            values[key] = value
        if values["baud"] == 0:
            raise ValueError(f"{address!r}: baud=0 hangs up. Write the speed of the line, such as baud=115200")
        return path, cls(**{**values, "rtscts": bool(values.get("rtscts", 0))})


def is_serial(address: str) -> bool:
    """Whether an address is a serial port's: `/dev/ttyUSB0`, `serial:/dev/ttyUSB0`."""
    return address.startswith((PREFIX, "/"))


def _split(address: str) -> tuple[str, dict[str, str]]:
    path, _, query = address.removeprefix(PREFIX).partition("?")
    settings = dict(parse_qsl(query, keep_blank_values=True))
    known = [field.name for field in fields(SerialLine)]
    if unknown := [key for key in settings if key not in known]:
        raise ValueError(
            f"{address!r}: {', '.join(unknown)}: no setting of a serial line. There are: {', '.join(known)}"
        )
    if not path.startswith("/"):
        raise ValueError(f"{address!r}: no serial port. Write its device, such as serial:/dev/ttyUSB0")
    return path, settings


def _texts(line: SerialLine) -> dict[str, str]:
    return {key: str(int(value)) if isinstance(value, bool | int) else value for key, value in asdict(line).items()}
