"""Bytes of Leoni `eol 1xN` switches: lines that end in CR LF both ways.

Facts as several published programs use them, over serial lines and TCP: `type?` is answered `eol 1x8` or `mol 1x8`,
`ch?` by a number, `firmware?` by a line; `ch3` has no answer. The answer to an unknown channel is undocumented.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hwd_drivers.codecs.lines import LineDecoder
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.transports.serial_line import SerialLine

LINE: Final = SerialLine(baud=57_600)
PORT: Final = 10_001
"""TCP port of switches with Ethernet."""
LIMIT_BYTES: Final = 256


class Query(StrEnum):
    """Queries, each answered by one line."""

    TYPE = "type?"
    """`eol 1x8`: family and size."""
    CHANNEL = "ch?"
    """The selected channel, from 1."""
    FIRMWARE = "firmware?"
    """Version of the firmware."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """`ch3`"""

    channel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A line that is not a command of these switches."""

    text: str


Command = Query | Select | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An answer."""

    text: str

    @property
    def channel(self) -> int | None:
        return int(self.text) if _NUMBER.fullmatch(self.text) else None

    @property
    def channels(self) -> int | None:
        """Number of channels in a type."""
        match = _TYPE.fullmatch(self.text)
        return int(match[1]) if match else None


_NUMBER = re.compile(r"[0-9]{1,4}")
_TYPE = re.compile(r"[em]ol 1x([0-9]{1,4})")
_SELECT = re.compile(r"ch([0-9]{1,4})")
_QUERIES = {query.value: query for query in Query}


def encode_command(command: Query | Select) -> bytes:
    return (f"ch{command.channel}" if isinstance(command, Select) else command).encode() + b"\r\n"


def encode_answer(text: str) -> bytes:
    return f"{text}\r\n".encode()


class AnswerDecoder:
    """Turns the bytes of a switch into answers."""

    def __init__(self) -> None:
        self._lines = LineDecoder("Leoni", limit_bytes=LIMIT_BYTES)

    def feed(self, data: bytes) -> Sequence[Line]:
        lines = self._lines.feed(data)
        if wrong := [line for line in lines if not line.isprintable()]:
            raise ProtocolError(f"{wrong[0]!r} has characters that are not allowed in an answer")
        return [Line(text=line) for line in lines]


class CommandDecoder:
    """Turns the bytes of a host into commands."""

    def __init__(self) -> None:
        self._lines = LineDecoder("Leoni", limit_bytes=LIMIT_BYTES)

    def feed(self, data: bytes) -> Sequence[Command]:
        return [_command(line) for line in self._lines.feed(data)]


def _command(line: str) -> Command:
    if line in _QUERIES:
        return _QUERIES[line]
    if match := _SELECT.fullmatch(line):
        return Select(channel=int(match[1]))
    return Unknown(text=line)
