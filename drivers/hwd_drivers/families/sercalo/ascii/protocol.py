"""Bytes of Sercalo USB units: lines that end in CR LF both ways, data lines closed by `:ack` or `:nack`.

Facts of one published program: `:iden?`, `:set-chan-3`, `:get-chan?`. Data comes before the acknowledgement; the
channel is the text between the last colon and the first comma of its last line. The lines of `:iden?` are undocumented.
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
"""Longest line."""
LIMIT_LINES: Final = 32
"""Most data lines of one answer."""
ACK, NACK = ":ack", ":nack"


class Query(StrEnum):
    """The queries of the protocol."""

    IDENTITY = ":iden?"
    """Identity, in several lines."""
    CHANNEL = ":get-chan?"
    """The selected channel, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """`:set-chan-3`"""

    channel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A line that is not a command of these units."""

    text: str


Command = Query | Select | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Data lines, and whether they were closed by `:ack`."""

    lines: tuple[str, ...] = ()
    done: bool = True

    @property
    def channel(self) -> int | None:
        """The channel in its last line."""
        if not self.lines:
            return None
        text = self.lines[-1].rpartition(":")[2].partition(",")[0].strip()
        return int(text) if _NUMBER.fullmatch(text) else None


_NUMBER = re.compile(r"[0-9]{1,4}")
_SELECT = re.compile(r":set-chan-([0-9]{1,4})")
_QUERIES = {query.value: query for query in Query}


def encode_command(command: Query | Select) -> bytes:
    return (f":set-chan-{command.channel}" if isinstance(command, Select) else command).encode() + b"\r\n"


def encode_answer(answer: Answer) -> bytes:
    return b"".join(f"{line}\r\n".encode() for line in (*answer.lines, ACK if answer.done else NACK))


class AnswerDecoder:
    """Turns the bytes of a unit into answers."""

    def __init__(self) -> None:
        self._lines = LineDecoder("Sercalo", limit_bytes=LIMIT_BYTES)
        self._data: list[str] = []

    def feed(self, data: bytes) -> Sequence[Answer]:
        answers: list[Answer] = []
        for line in self._lines.feed(data):
            if line in (ACK, NACK):
                answers.append(Answer(lines=tuple(self._data), done=line == ACK))
                self._data.clear()
                continue
            if not line.isprintable():
                raise ProtocolError(f"{line!r} has characters that are not allowed in an answer")
            self._data.append(line)
            if len(self._data) > LIMIT_LINES:
                raise ProtocolError(f"{len(self._data)} lines without {ACK} or {NACK}, limit {LIMIT_LINES}")
        return answers


class CommandDecoder:
    """Turns the bytes of a host into commands."""

    def __init__(self) -> None:
        self._lines = LineDecoder("Sercalo", limit_bytes=LIMIT_BYTES)

    def feed(self, data: bytes) -> Sequence[Command]:
        return [_command(line) for line in self._lines.feed(data)]


def _command(line: str) -> Command:
    if line in _QUERIES:
        return _QUERIES[line]
    if match := _SELECT.fullmatch(line):
        return Select(channel=int(match[1]))
    return Unknown(text=line)
