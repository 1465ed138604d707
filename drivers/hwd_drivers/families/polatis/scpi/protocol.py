"""Polatis SCPI without I/O: headers, and the contents of commands and answers.

Headers as published programs for real units use them (README.md names each). Ports are the unit's own numbers. Readers
raise ProtocolError on an answer of another form.
"""

import re
from collections.abc import Sequence
from typing import Final

from hwd_drivers.codecs.scpi import format_channels, parse_channels, shorten, split
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.values import Identity
from hwd_drivers.families.polatis.numbering import Numbering
from hwd_drivers.transports.serial_line import SerialLine

DEFAULT_PORT: Final = 5025
LINE: Final = SerialLine(baud=38_400)
POWERS_LIMIT: Final = 256
"""Most ports of one power query."""

ADD: Final = ":oxc:swit:conn:add"
ONLY: Final = ":oxc:swit:conn:only"
SUBTRACT: Final = ":oxc:swit:conn:sub"
CONNECTIONS: Final = ":oxc:swit:conn:stat?"
ENABLE: Final = ":oxc:swit:port:enab"
DISABLE: Final = ":oxc:swit:port:dis"
PORT_STATES: Final = ":oxc:swit:port:stat?"
KNOWN_STATES: Final = ("E", "D", "F")
"""Enabled, disabled, failed."""
SIZE: Final = ":oxc:swit:size?"
POWER: Final = ":pmon:pow?"
IDENTITY: Final = "*IDN?"

Pairs = Sequence[tuple[int, int]]


def format_pairs(pairs: Pairs) -> str:
    """`(@1,2),(@17,18)`"""
    return f"{format_channels(one for one, _ in pairs)},{format_channels(other for _, other in pairs)}"


def read_pairs(answer: str) -> tuple[tuple[int, int], ...]:
    """Pairs: the n-th port of the left list with the n-th of the right one."""
    lists = split(answer, ",")
    if len(lists) != 2:
        raise ProtocolError(f"{CONNECTIONS}: {shorten(answer)} is not two lists of ports")
    ones, others = map(parse_channels, lists)
    if len(ones) != len(others):
        raise ProtocolError(f"{CONNECTIONS}: lists of {len(ones)} and {len(others)} ports cannot be pairs")
    return tuple(zip(ones, others, strict=True))


def read_powers(answer: str, ports: Sequence[int]) -> dict[int, float]:
    """dBm by port, from `(-29.55,-30.05)`."""
    values = _members(answer, POWER)
    if len(values) != len(ports) or not all(map(_DECIMAL.fullmatch, values)):
        raise ProtocolError(f"{POWER}: {shorten(answer)} is not {len(ports)} powers")
    return dict(zip(ports, map(float, values), strict=True))


def read_states(answer: str, ports: Sequence[int]) -> dict[int, str]:
    """E, D or F by port, from `(E,D,F)`; another firmware may have more words."""
    states = [state.upper() for state in _members(answer, PORT_STATES)]
    if len(states) != len(ports) or not all(map(_WORD.fullmatch, states)):
        raise ProtocolError(f"{PORT_STATES}: {shorten(answer)} is not {len(ports)} words such as E, D and F")
    return dict(zip(ports, states, strict=True))


def read_identity(answer: str) -> Identity:
    fields = [part.strip() for part in answer.split(",")]
    if len(fields) != 4:
        raise ProtocolError(f"{IDENTITY}: {shorten(answer)} is not vendor,product code,serial,firmware")
    return Identity(vendor=fields[0], model=fields[1], serial=fields[2], firmware=fields[3])


def read_size(answer: str) -> Numbering:
    """`24,24`"""
    found = _SIZE.fullmatch(answer)
    if found is None:
        raise ProtocolError(f"{SIZE}: {shorten(answer)} is not inputs,outputs")
    return Numbering(inputs=int(found[1]), outputs=int(found[2]))


_DECIMAL = re.compile(r"[+-]?[0-9]{1,4}(?:\.[0-9]{1,9})?")
_WORD = re.compile(r"[A-Z]{1,16}")
_SIZE = re.compile(r"\s*([0-9]{1,5})\s*,\s*([0-9]{1,5})\s*")


def _members(answer: str, what: str) -> list[str]:
    text = answer.strip()
    if not text.startswith("(") or not text.endswith(")"):
        raise ProtocolError(f"{what}: {shorten(answer)} is not a list in parentheses")
    return [part.strip() for part in text[1:-1].split(",")] if text[1:-1].strip() else []
