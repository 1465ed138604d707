"""SCPI without I/O: lines, commands and their parameters, answers and the error queue, from and to text.

Grammar of SCPI-99 (volume 1) and IEEE 488.2, as far as optical switches use it. The meaning of a vendor's headers is in
that vendor's `protocol.py`. `scpi_server` executes commands in twins, `scpi_client` sends them for drivers.

    for line in LineDecoder().feed(b":oxc:swit:conn:add (@1),(@9);stat?\\r\\n"):
        for command in parse_line(line): ...
    # Command(header=":oxc:swit:conn:add", parameters=("(@1)", "(@9)")), Command(header="stat?")
"""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from hwd_drivers.codecs import lines as text_lines
from hwd_drivers.core.errors import ProtocolError

LINE_LIMIT_BYTES: Final = 1 << 16
"""Longest line: 640 ports named one by one make 3 kB."""
CHANNEL_LIMIT: Final = 65_536
"""Most members of one channel list: `(@1:999999999)` is a mistake."""
COMMAND_LIMIT: Final = 1_024
"""Most commands in one line."""

NO_ERROR: Final = 0
SYNTAX_ERROR: Final = -102
DATA_TYPE_ERROR: Final = -104
PARAMETER_NOT_ALLOWED: Final = -108
MISSING_PARAMETER: Final = -109
UNDEFINED_HEADER: Final = -113
EXECUTION_ERROR: Final = -200
SETTINGS_CONFLICT: Final = -221
OUT_OF_RANGE: Final = -222
TOO_MUCH_DATA: Final = -223
ILLEGAL_VALUE: Final = -224
HARDWARE_MISSING: Final = -241
QUEUE_OVERFLOW: Final = -350
INPUT_OVERRUN: Final = -363

OPERATION_COMPLETE_EVENT: Final = 1
QUERY_ERROR_EVENT: Final = 4
DEVICE_ERROR_EVENT: Final = 8
EXECUTION_ERROR_EVENT: Final = 16
COMMAND_ERROR_EVENT: Final = 32
POWER_ON_EVENT: Final = 128
"""Bits of the standard event status register (IEEE 488.2, 11.5.1)."""
ERRORS_STATUS: Final = 4
EVENTS_STATUS: Final = 32
REQUEST_STATUS: Final = 64
"""Bits of the status byte: errors in the queue, an enabled event, and an enabled one of both (IEEE 488.2, 11.2)."""

TEXTS: Final = {
    NO_ERROR: "No error",
    SYNTAX_ERROR: "Syntax error",
    DATA_TYPE_ERROR: "Data type error",
    PARAMETER_NOT_ALLOWED: "Parameter not allowed",
    MISSING_PARAMETER: "Missing parameter",
    UNDEFINED_HEADER: "Undefined header",
    EXECUTION_ERROR: "Execution error",
    SETTINGS_CONFLICT: "Settings conflict",
    OUT_OF_RANGE: "Data out of range",
    TOO_MUCH_DATA: "Too much data",
    ILLEGAL_VALUE: "Illegal parameter value",
    HARDWARE_MISSING: "Hardware missing",
    QUEUE_OVERFLOW: "Queue overflow",
    INPUT_OVERRUN: "Input buffer overrun",
}
"""The standard's texts for its codes."""


class ScpiError(ProtocolError):
    """An entry of a device's error queue: a code of the standard (negative) or its own, and a text."""

    def __init__(self, code: int, text: str = "") -> None:
        self.code = code
        self.text = TEXTS.get(code, "") + (f";{text}" if code in TEXTS and text else text)
        super().__init__(f"{code} {self.text}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of a line: its header as written, and its parameters as texts."""

    header: str
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedError:
    """The answer to `SYSTem:ERRor?`; 0 is no error."""

    code: int
    text: str

    def __str__(self) -> str:
        return f"{self.code} {self.text}".rstrip()


class LineDecoder(text_lines.LineDecoder):
    """Lines of SCPI."""

    def __init__(self, *, limit_bytes: int = LINE_LIMIT_BYTES) -> None:
        super().__init__("SCPI", limit_bytes=limit_bytes)


class ErrorQueue:
    """First in, first out. When it is full, its last entry becomes the overflow error.

    `events` are the bits of the event register that errors set.
    """

    def __init__(self, *, limit: int) -> None:
        self.events = 0
        self._limit = limit
        self._errors: deque[QueuedError] = deque()

    def __len__(self) -> int:
        return len(self._errors)

    def push(self, error: ScpiError) -> None:
        self.events |= event_of(error.code)
        if len(self._errors) < self._limit:
            self._errors.append(QueuedError(code=error.code, text=error.text))
        else:
            self._errors[-1] = QueuedError(code=QUEUE_OVERFLOW, text=TEXTS[QUEUE_OVERFLOW])

    def pop(self) -> QueuedError:
        """Remove and return the oldest error; 0 where there is none."""
        return self._errors.popleft() if self._errors else QueuedError(code=NO_ERROR, text=TEXTS[NO_ERROR])

    def pop_all(self) -> list[QueuedError]:
        """Remove and return all errors; one 0 where there is none."""
        return [self.pop() for _ in range(max(1, len(self._errors)))]

    def clear(self) -> None:
        self._errors.clear()
        self.events = 0


def event_of(code: int) -> int:
    """The event register bit that an error sets (SCPI-99, volume 2, 21.8; IEEE 488.2, 11.5.1)."""
    if code >= 0:
        return DEVICE_ERROR_EVENT
    return {1: COMMAND_ERROR_EVENT, 2: EXECUTION_ERROR_EVENT, 3: DEVICE_ERROR_EVENT, 4: QUERY_ERROR_EVENT}.get(
        -code // 100, 0
    )


def parse_line(line: str) -> list[Command]:
    """The commands of a line, separated by `;`.

    Raises ScpiError on an open quote or parenthesis, and over the limit.
    """
    commands = []
    for part in split(line.replace("\t", " "), ";"):
        header, _, rest = part.strip().partition(" ")
        if header:
            parameters = tuple(value.strip() for value in split(rest, ",")) if rest.strip() else ()
            commands.append(Command(header=header, parameters=parameters))
    if len(commands) > COMMAND_LIMIT:
        raise ScpiError(INPUT_OVERRUN, f"{len(commands)} commands in a line, limit {COMMAND_LIMIT}")
    return commands


def split(text: str, separator: str) -> list[str]:
    """The parts between separators outside quotes and parentheses.

    Raises ScpiError where one of those is not closed.
    """
    if '"' not in text and "'" not in text and "(" not in text and ")" not in text:
        return text.split(separator)
    parts: list[str] = []
    start, depth, quote = 0, 0, ""
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth < 0:
                break
        elif character == separator and not depth:
            parts.append(text[start:place])
            start = place + 1
    if quote or depth:
        raise ScpiError(SYNTAX_ERROR, "a quote or a parenthesis has no partner")
    return [*parts, text[start:]]


def parse_channels(text: str) -> tuple[int, ...]:
    """Members of a channel list in order: `(@1,3:5)` is 1, 3, 4, 5. Raises ScpiError on any other text."""
    found = _LIST.fullmatch(text.strip())
    if found is None:
        raise ScpiError(DATA_TYPE_ERROR, f"{shorten(text)} is not a list such as (@1,2)")
    channels: list[int] = []
    for part in filter(None, (part.strip() for part in found[1].split(","))):
        first, colon, last = part.partition(":")
        if not _NUMBER.fullmatch(first) or (colon and not _NUMBER.fullmatch(last)):
            raise ScpiError(DATA_TYPE_ERROR, f"{shorten(part)} in a list is not a number")
        step = 1 if not colon or int(last) >= int(first) else -1
        members = range(int(first), int(last) + step, step) if colon else (int(first),)
        if len(channels) + len(members) > CHANNEL_LIMIT:
            raise ScpiError(OUT_OF_RANGE, f"more than {CHANNEL_LIMIT} members in a list")
        channels += members
    return tuple(channels)


def format_channels(channels: Iterable[int]) -> str:
    """`(@1,2,3)`, each number written out, as not every device is known to accept ranges."""
    return f"(@{','.join(map(str, channels))})"


def format_string(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def parse_error(text: str) -> QueuedError | None:
    """The error in an answer to `SYSTem:ERRor?`, `-222,"Data out of range"`; None for any other text."""
    found = _ERROR.fullmatch(text.strip())
    return None if found is None else QueuedError(code=int(found[1]), text=found[2].replace('""', '"'))


def format_error(error: QueuedError) -> str:
    return f"{error.code}, {format_string(error.text)}"


def split_answers(line: str) -> list[str]:
    """The answers in a line: answers to one line's queries may be joined by `;`. Raises ProtocolError."""
    return [answer for part in split(line, ";") if (answer := part.strip())]


def shorten(text: str) -> str:
    """The text cut to one line, without quotes, for error messages."""
    return "".join(character if character.isprintable() and character not in "\"';" else "?" for character in text[:40])


def expect(parameters: Sequence[str], least: int, most: int) -> None:
    """Raises ScpiError where the number of parameters is outside these limits."""
    if len(parameters) < least:
        raise ScpiError(MISSING_PARAMETER)
    if len(parameters) > most:
        raise ScpiError(PARAMETER_NOT_ALLOWED)


_LIST = re.compile(r"\(@([0-9,:\s]*)\)")
_NUMBER = re.compile(r"[0-9]{1,9}")
_ERROR = re.compile(r'([+-]?[0-9]{1,6})\s*,\s*"((?:[^"]|"")*)"')
