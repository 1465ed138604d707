"""DiCon MXS-9100 without I/O: its headers and answers; manual 91592 rev A2 (2019), pages 17, 22 and 25.

Inputs and outputs each count from 1. Readers raise ProtocolError on any other answer than the documented ones.
"""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from hwd_drivers.codecs.scpi import shorten
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.values import Identity
from hwd_drivers.transports.serial_line import SerialLine

DEFAULT_PORT: Final = 0
"""The manual's pages that we have name no TCP port: an address must name it."""
LINE: Final = SerialLine(baud=9_600)
"""The speed is not in the pages that we have; an address can state another."""
LINE_END: Final = "\r"
LINE_CHARACTERS: Final = 200
"""Longest line that we send: the limit of the unit is not known."""
QUEUE_LIMIT: Final = 8
"""Size of the unit's error queue."""
OPEN: Final = 0
"""Output number for no output."""

IDENTITY: Final = "*IDN?"
STATUS: Final = ":STAT?"


class Status(StrEnum):
    """The answer to `STATus?`."""

    UNINITIALIZED = "UNINITIALIZED"
    """Just switched on."""
    STARTING = "INITINPROGRESS"
    """Getting ready."""
    READY = "READY"
    """At rest."""
    BUSY = "BUSY"
    """Its mirrors move."""
    DISCONNECTED = "DISCONNECTED"
    """The switch module cannot be reached."""
    DEFECTIVE = "DEFECTIVE"
    """The switch module does not work."""
    UNCONFIGURED = "UNCONFIGURED"
    """Not configured by the factory."""


def connect(near: int, far: int) -> str:
    return f":ROUT{near}:SCAN {far}"


def connected(near: int) -> str:
    return f":ROUT{near}:SCAN?"


def disconnect(near: int) -> str:
    return f":ROUT{near}:OPEN"


def lines(commands: Iterable[str], limit: int = LINE_CHARACTERS) -> list[tuple[str, int]]:
    """Join commands by `;` into lines of at most `limit` characters; each with its number of queries."""
    made: list[tuple[str, int]] = []
    for command in commands:
        query = int("?" in command)
        if made and len(made[-1][0]) + 1 + len(command) <= limit:
            line, queries = made[-1]
            made[-1] = f"{line};{command}", queries + query
        else:
            made.append((command, query))
    return made


def read_output(answer: str, outputs: int) -> int:
    """The number of an output, or OPEN."""
    if not _NUMBER.fullmatch(answer) or int(answer) > outputs:
        raise ProtocolError(f"ROUTe:SCAN?: {shorten(answer)} is not 0 to {outputs}")
    return int(answer)


def read_status(answer: str) -> Status | str:
    """A text: one that is not known here, and is not ready."""
    word = answer.upper()
    return Status(word) if word in {*Status} else f"in the state {shorten(answer)}, which is not known here"


def read_identity(answer: str) -> Identity:
    fields = [part.strip() for part in answer.split(",")]
    if len(fields) != 4:
        raise ProtocolError(f"{IDENTITY}: {shorten(answer)} is not vendor,model,serial,firmware")
    return Identity(vendor=fields[0], model=fields[1], serial=fields[2], firmware=fields[3])


def read_outputs(answers: Sequence[str], outputs: int) -> tuple[int, ...]:
    """The output of each input, from input 1 on; OPEN is none."""
    found = tuple(read_output(answer, outputs) for answer in answers)
    used = [output for output in found if output != OPEN]
    if len(set(used)) != len(used):
        raise ProtocolError(f"ROUTe:SCAN?: two inputs go to one output: {shorten(' '.join(map(str, found)))}")
    return found


_NUMBER = re.compile(r"[0-9]{1,5}")
