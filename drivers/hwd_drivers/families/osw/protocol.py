"""Bytes of Lfiber's LF-OSW controllers: messages in angle brackets, two digits for the channel of each selector.

Facts as three published programs use them, one of them written from the vendor's manual: `<OSW_OUT_01_02>` sets both
selectors and is answered `<OSW_OUT_OK>`. `<OSW_OUT_?>` is answered in the form of the set, `<OSW_OUT_03>` on one
selector; channel 00 is none. An unknown channel is answered `<OSW_OUT_OVERFLOW>`; any other word counts as a refusal
too. `<OSW_TYPE_?>` is answered with the part number, `<OSW_TYPE_LF-OSW-1X16-1550-PMF...>`.
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hwd_drivers.core.errors import ProtocolError

COUNT_MOST: Final = 64
"""Most selectors of one controller."""
CHANNELS_MOST: Final = 99
"""Highest number of two digits."""
LIMIT_BYTES: Final = 256
"""Longest message: 64 selectors take 202 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Query of all positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeQuery:
    """Query of the part number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """The vendor's part number, such as `LF-OSW-1X16-1550-PMF`."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """The channel of each selector: a set from the host, an answer from the controller."""

    channels: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """Another answer: `OK`, or a refusal."""

    text: str


Command = Query | TypeQuery | Type | Positions | Word
Answer = Type | Positions | Word

OVERFLOW: Final = "OVERFLOW"
"""Word for an unknown channel."""

_POSITIONS = re.compile(r"[0-9]{2}(_[0-9]{2})*")
_HEAD = "OSW_OUT_"
_TYPE = "OSW_TYPE_"
_DIGITS = tuple(f"{channel:02d}" for channel in range(CHANNELS_MOST + 1))


def encode(message: Command) -> bytes:
    head = _TYPE if isinstance(message, TypeQuery | Type) else _HEAD
    return f"<{head}{_body(message)}>".encode()


@functools.lru_cache(maxsize=4096)
def parse(text: str) -> Command:
    """Parse the text between the brackets. Raises ProtocolError for one that is not a message of these controllers."""
    if text.startswith(_TYPE):
        part = text.removeprefix(_TYPE)
        if not part or not part.isprintable():
            raise ProtocolError(f"<{text}>: no part")
        return TypeQuery() if part == "?" else Type(text=part)
    if not text.startswith(_HEAD):
        raise ProtocolError(f"<{text}>: not a message of an OSW controller, they begin with <{_HEAD} or <{_TYPE}")
    body = text.removeprefix(_HEAD)
    if body == "?":
        return Query()
    if _POSITIONS.fullmatch(body):
        return Positions(channels=tuple(map(int, body.split("_"))))
    if body.isalnum():
        return Word(text=body)
    raise ProtocolError(f"<{text}>: neither channels nor a word")


class Decoder:
    """Turns bytes into messages; space between them is dropped. Both sides use it."""

    def __init__(self) -> None:
        self._begun = b""

    def feed(self, data: bytes) -> Sequence[Command]:
        """Raises ProtocolError for bytes that are not a message, and over `LIMIT_BYTES` without an end."""
        *ended, rest = (self._begun + data).split(b">")
        messages = [parse(_inside(part)) for part in ended]
        self._begun = rest.lstrip()
        if self._begun:
            _inside(self._begun)
        return messages


class AnswerDecoder:
    """Turns the bytes of a controller into answers; a query from there is an error."""

    def __init__(self) -> None:
        self._decoder = Decoder()

    def feed(self, data: bytes) -> Sequence[Answer]:
        answers: list[Answer] = []
        for message in self._decoder.feed(data):
            if isinstance(message, Query | TypeQuery):
                raise ProtocolError("the controller asks a question: does it echo?")
            answers.append(message)
        return answers


def _body(message: Command) -> str:
    match message:
        case Query() | TypeQuery():
            return "?"
        case Positions(channels=channels):
            return "_".join([_DIGITS[channel] for channel in channels])
        case Type(text=text) | Word(text=text):
            return text


def _inside(message: bytes) -> str:
    """The text after the bracket of a message, complete or not."""
    text = message.lstrip()
    if text[:1] != b"<" or not text.isascii():
        raise ProtocolError(f"{message[:16]!r}: not a message, they are <{_HEAD}..> and <{_TYPE}..>")
    if len(text) > LIMIT_BYTES:
        raise ProtocolError(f"{len(text)} bytes without >, limit {LIMIT_BYTES} bytes")
    return text[1:].decode()
