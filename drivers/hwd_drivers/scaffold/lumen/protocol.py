"""The line protocol without I/O: frozen requests and answers <-> lines of ASCII that end in a line feed.

    ID                   ->  ID <vendor>,<model>,<serial>,<firmware>
    SIZE                 ->  SIZE <inputs>x<outputs>
    MAP                  ->  MAP [<input>><output> ...]
    SET [-i>o] [+i>o] .. ->  OK
    anything it refuses  ->  NO <code> <text>

A `SET` removes all pairs after a minus, then makes all pairs after a plus: all of them or none.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hwd_drivers.codecs.lines import LineDecoder
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.values import Identity

DEFAULT_PORT: Final = 5000
LINE_MAX: Final = 16_384
"""Limit of a line in bytes: a `SET` of 384 crossconnects, with reserve."""


class Query(StrEnum):
    """A request that changes nothing."""

    IDENTITY = "ID"
    """Vendor, model, serial number and firmware."""
    SIZE = "SIZE"
    """Inputs and outputs."""
    MAP = "MAP"
    """All crossconnects, as pairs of input and output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """SET"""

    remove: tuple[tuple[int, int], ...]
    add: tuple[tuple[int, int], ...]


Request = Query | Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """SIZE"""

    inputs: int
    outputs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """MAP"""

    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """OK"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """NO, with a code and a text of the device's own."""

    code: str
    text: str


Answer = Identity | Size | Map | Done | Refusal


def line_decoder() -> LineDecoder:
    """Cuts bytes into lines. Raises ProtocolError for a line over `LINE_MAX` bytes and for one that is not text."""
    return LineDecoder("Lumen", limit_bytes=LINE_MAX)


class AnswerDecoder:
    """Turns the bytes of a device into answers."""

    def __init__(self) -> None:
        self._lines = line_decoder()

    def feed(self, data: bytes) -> list[Answer]:
        return [parse_answer(line) for line in self._lines.feed(data)]


def encode_request(request: Request) -> bytes:
    if isinstance(request, Query):
        return f"{request}\n".encode()
    words = ["SET", *(f"-{a}>{b}" for a, b in request.remove), *(f"+{a}>{b}" for a, b in request.add)]
    return f"{' '.join(words)}\n".encode()


def parse_request(line: str) -> Request:
    """Raises ProtocolError for an unknown command."""
    match line.split():
        case ["ID" | "SIZE" | "MAP" as query]:
            return Query(query)
        case ["SET", *words] if words:
            signed = [(word[:1], _pair(word[1:])) for word in words]
            if all(sign in ("-", "+") for sign, _ in signed):
                gone = tuple(pair for sign, pair in signed if sign == "-")
                return Change(remove=gone, add=tuple(pair for sign, pair in signed if sign == "+"))
    raise ProtocolError(f"{line[:40]!r} is not a command")


def encode_answer(answer: Answer) -> bytes:
    return f"{_line(answer)}\n".encode("ascii", errors="replace")


def parse_answer(line: str) -> Answer:
    """Raises ProtocolError for a line that is not an answer."""
    verb, _, rest = line.partition(" ")
    match verb:
        case "ID" if len(parts := rest.split(",")) == 4 and all(parts):
            return Identity(vendor=parts[0], model=parts[1], serial=parts[2], firmware=parts[3])
        case "SIZE" if found := _SIZE.fullmatch(rest):
            return Size(inputs=int(found[1]), outputs=int(found[2]))
        case "MAP":
            return Map(pairs=tuple(map(_pair, rest.split())))
        case "OK" if not rest:
            return Done()
        case "NO" if rest:
            code, _, text = rest.partition(" ")
            return Refusal(code=code, text=text)
    raise ProtocolError(f"{line[:40]!r} is not an answer")


def _line(answer: Answer) -> str:
    match answer:
        case Identity(vendor=vendor, model=model, serial=serial, firmware=firmware):
            return f"ID {vendor},{model},{serial},{firmware}"
        case Size(inputs=inputs, outputs=outputs):
            return f"SIZE {inputs}x{outputs}"
        case Map(pairs=pairs):
            return " ".join(["MAP", *(f"{a}>{b}" for a, b in pairs)])
        case Done():
            return "OK"
        case Refusal(code=code, text=text):
            return f"NO {code} {text}".rstrip()


_PAIR: Final = re.compile(r"([0-9]{1,5})>([0-9]{1,5})")
_SIZE: Final = re.compile(r"([0-9]{1,5})x([0-9]{1,5})")


def _pair(word: str) -> tuple[int, int]:
    found = _PAIR.fullmatch(word)
    if found is None:
        raise ProtocolError(f"{word[:20]!r} is not input>output")
    return int(found[1]), int(found[2])
