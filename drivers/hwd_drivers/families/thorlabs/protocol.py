"""Bytes of OSW-E switches: commands that end in LF, answers that end in CR LF, errors as `Error nn,text`.

Facts as published programs use them on an OSW22-1310E: `S 1` bar, `S 2` cross, neither answered; `S?`, `T?`, `I?` one
line each.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hwd_drivers.codecs.lines import LineDecoder
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.transports.serial_line import SerialLine

LINE: Final = SerialLine(baud=115_200, rtscts=True)
LIMIT_BYTES: Final = 256
"""Longest line; the longest known one is the name of the board with its firmware."""
POSITIONS: Final = 2


class Query(StrEnum):
    """Queries, each answered by one line."""

    POSITION = "S?"
    """Position: `1` or `2`; the first answer after a set may be the old one."""
    TYPE = "T?"
    """The type of the board."""
    BOARD = "I?"
    """Name of the board and version of the firmware."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """`S 1` is bar on a 2x2 and port 1 on a 1x2, `S 2` is cross and port 2."""

    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A line that is not a command of these switches."""

    text: str


Command = Query | Move | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An answer: a position, a name."""

    text: str

    @property
    def position(self) -> int | None:
        return int(self.text) if self.text in ("1", "2") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """`Error 02,text`: the command was not done."""

    code: str
    text: str


Answer = Line | Failure

_QUERIES = {query.value: query for query in Query}
_FAILURE = re.compile(r"Error\s+(\w+)\s*,\s*(.*)")
_MOVE = re.compile(r"S (-?[0-9]{1,6})")


def encode_command(command: Query | Move) -> bytes:
    return f"{command}\n".encode() if isinstance(command, Query) else f"S {command.position}\n".encode()


def parse_command(line: str) -> Command:
    """The command in a line; lower case and extra spaces are errors."""
    if line in _QUERIES:
        return _QUERIES[line]
    if match := _MOVE.fullmatch(line):
        return Move(position=int(match[1]))
    return Unknown(text=line)


def encode_answer(answer: Answer) -> bytes:
    text = answer.text if isinstance(answer, Line) else f"Error {answer.code},{answer.text}"
    return f"{text}\r\n".encode()


def parse_answer(line: str) -> Answer:
    """Raises ProtocolError for a line with characters that are not text, such as control characters."""
    if not line.isprintable():
        raise ProtocolError(f"{line!r} has characters that are not allowed in an answer")
    if match := _FAILURE.fullmatch(line):
        return Failure(code=match[1], text=match[2])
    return Line(text=line)


class AnswerDecoder:
    """Turns the bytes of a switch into answers."""

    def __init__(self) -> None:
        self._lines = LineDecoder("OSW", limit_bytes=LIMIT_BYTES)

    def feed(self, data: bytes) -> Sequence[Answer]:
        return [parse_answer(line) for line in self._lines.feed(data)]


class CommandDecoder:
    """Turns the bytes of a host into commands."""

    def __init__(self) -> None:
        self._lines = LineDecoder("OSW", limit_bytes=LIMIT_BYTES)

    def feed(self, data: bytes) -> Sequence[Command]:
        return [parse_command(line) for line in self._lines.feed(data)]
