"""The line protocol without I/O: what we send and read; lines of ASCII that end in a line feed.

    ID                   ->  ID <vendor>,<model>,<serial>,<firmware>
    SIZE                 ->  SIZE <inputs>x<outputs>
    MAP                  ->  MAP [<input>><output> ...]
    SET [-i>o] [+i>o] .. ->  OK
    anything it refuses  ->  NO <code> <text>

A `SET` removes all pairs after a minus, then makes all pairs after a plus: all of them or none. Readers raise
ProtocolError on any other line.
"""

import re
from typing import Final

from hwd_drivers.codecs.lines import parse_line
from hwd_drivers.core.values import Identity

LINE_MAX: Final = 16_384
"""Limit of a line in bytes: a `SET` of 384 crossconnects, with reserve."""

Pairs = list[tuple[int, int]]
"""Input and output of each crossconnect."""

_PAIR: Final = re.compile(r"([0-9]{1,5})>([0-9]{1,5})")
_MAP: Final = re.compile(r"MAP( .*)?")
_SIZE: Final = re.compile(r"SIZE ([0-9]{1,5})x([0-9]{1,5})")
_IDENTITY: Final = re.compile(r"ID ([^,]+),([^,]+),([^,]+),([^,]+)")


def change(remove: Pairs, add: Pairs) -> str:
    return " ".join(["SET", *(f"-{a}>{b}" for a, b in remove), *(f"+{a}>{b}" for a, b in add)])


def read_identity(line: str) -> Identity:
    found = parse_line(_IDENTITY, line, "an identity")
    return Identity(vendor=found[1], model=found[2], serial=found[3], firmware=found[4])


def read_size(line: str) -> tuple[int, int]:
    found = parse_line(_SIZE, line, "a size")
    return int(found[1]), int(found[2])


def read_pair(word: str) -> tuple[int, int]:
    found = parse_line(_PAIR, word, "input>output")
    return int(found[1]), int(found[2])


def read_map(line: str) -> Pairs:
    return [read_pair(word) for word in (parse_line(_MAP, line, "a map")[1] or "").split()]


def read_done(line: str) -> None:
    parse_line(re.compile("OK"), line, "OK")
