"""Bytes of DiCon MEMS 1xN modules: commands end in CR, answers begin with a newline.

Facts of one published program, which others copied: `I1 3` selects, `I1 0` and `PK` park, `I1?` reports the channel,
`CF?` the configuration, whose second field is the number of channels, `ID?` the identity, `EO 0` and `EO 1` stop and
start the echo of commands. That program reads no answer to `I1 3` and `PK`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hwd_drivers.codecs.lines import LineDecoder
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.transports.serial_line import SerialLine

LINE: Final = SerialLine(baud=115_200)
LIMIT_BYTES: Final = 256
PARKED: Final = 0
"""Channel number for no channel."""


class Plain(StrEnum):
    """Commands without a parameter."""

    CHANNEL = "I1?"
    """The selected channel; 0 is none."""
    CONFIGURATION = "CF?"
    """Fields between commas, the second of which is the number of channels."""
    IDENTITY = "ID?"
    """Identity, in one line."""
    PARK = "PK"
    """Select none."""
    ECHO_OFF = "EO 0"
    """Do not repeat commands."""
    ECHO_ON = "EO 1"
    """Repeat each command as received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """`I1 3`"""

    channel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A line that is not a command of these modules."""

    text: str


Command = Plain | Select | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An answer."""

    text: str

    @property
    def channel(self) -> int | None:
        return int(self.text) if _NUMBER.fullmatch(self.text) else None

    @property
    def channels(self) -> int | None:
        """Number of channels in a configuration."""
        fields = [field.strip() for field in self.text.split(",")]
        return int(fields[1]) if len(fields) > 1 and _NUMBER.fullmatch(fields[1]) else None


_NUMBER = re.compile(r"[0-9]{1,4}")
_SELECT = re.compile(r"I1 ([0-9]{1,4})")
_PLAIN = {command.value: command for command in Plain}


def text_of(command: Command) -> str:
    match command:
        case Select(channel=channel):
            return f"I1 {channel}"
        case Unknown(text=text):
            return text
        case _:
            return command


def encode_command(command: Plain | Select) -> bytes:
    return f"{text_of(command)}\r".encode()


def encode_answer(text: str) -> bytes:
    return f"\n{text}\r\n".encode()


def parse_command(line: str) -> Command:
    if line in _PLAIN:
        return _PLAIN[line]
    if match := _SELECT.fullmatch(line):
        return Select(channel=int(match[1]))
    return Unknown(text=line)


class AnswerDecoder:
    """Turns the bytes of a module into answers, without echoed commands."""

    def __init__(self) -> None:
        self._lines = LineDecoder("DiCon MEMS", limit_bytes=LIMIT_BYTES)

    def feed(self, data: bytes) -> Sequence[Line]:
        answers: list[Line] = []
        for line in self._lines.feed(data):
            if not line.isprintable():
                raise ProtocolError(f"{line!r} has characters that are not allowed in an answer")
            if isinstance(parse_command(line), Unknown):
                answers.append(Line(text=line))
        return answers


class CommandDecoder:
    """Turns the bytes of a host into commands."""

    def __init__(self) -> None:
        self._lines = LineDecoder("DiCon MEMS", limit_bytes=LIMIT_BYTES)

    def feed(self, data: bytes) -> Sequence[Command]:
        return [parse_command(line) for line in self._lines.feed(data)]
