"""The wire of a line bank: lines of text over a byte stream, one request and one answer each.

| request | answer | does |
|---|---|---|
| `info` | `ok lines=64 label=gpio-sim version=1 serial=T1` | returns the identity of the bank |
| `read 2,3` | `ok 2=1,3=0` | reads levels of lines; of an output, the level that it drives |
| `set 0=1,4=0` | `ok` | drives lines, all at once, until they are set again |
| `pulse 0=1,5=0 20000` | `ok` | drives lines for so many microseconds, then at the opposite level; then answers |
| | `error LINE no line 99` | a code and a text; nothing was done |

Levels are those on the wire: 1 is high. This protocol is ours, no vendor's: by it a remote bank of lines, or a twin,
can replace a GPIO chip.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hwd_drivers.codecs.lines import LineDecoder
from hwd_drivers.core.errors import ProtocolError

LINE_BYTES_MAX: Final = 16_384
"""Bytes of one request or answer: enough for `LINES_MAX` lines."""
LINES_MAX: Final = 1024
"""Most lines of one request; more than GPIO chips have."""
PULSE_US_MAX: Final = 1_000_000
"""A coil that is driven for longer burns."""

_WORD = re.compile(r"[!-~]{1,64}")
_NUMBER = re.compile(r"[0-9]{1,6}")
_WIDTH = re.compile(r"[0-9]{1,7}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """Query of the identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Levels of these lines."""

    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """Drive lines at these levels."""

    levels: Mapping[int, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """Drive lines at these levels for so long, then at the opposite ones."""

    levels: Mapping[int, bool]
    width_us: int


Request = Info | Read | Set | Pulse


@dataclass(frozen=True, slots=True, kw_only=True)
class Bank:
    """Identity of a bank; `label`, `version` and `serial` are words without blanks."""

    lines: int
    label: str
    version: str
    serial: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Answer to `Read`."""

    levels: Mapping[int, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Answer to `Set` and `Pulse`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A refusal, and its reason."""

    code: str
    text: str


Answer = Bank | Levels | Done | Refusal


class RequestDecoder:
    """Turns bytes into requests, at the bank's side."""

    def __init__(self) -> None:
        self._lines = LineDecoder("line bank", limit_bytes=LINE_BYTES_MAX)

    def feed(self, data: bytes) -> Sequence[Request]:
        """Raises ProtocolError, after which it must not be used again."""
        return [parse_request(line) for line in self._lines.feed(data)]


class AnswerDecoder:
    """Turns bytes into answers, at the client's side."""

    def __init__(self) -> None:
        self._lines = LineDecoder("line bank", limit_bytes=LINE_BYTES_MAX)

    def feed(self, data: bytes) -> Sequence[Answer]:
        """Raises ProtocolError, after which it must not be used again."""
        return [parse_answer(line) for line in self._lines.feed(data)]


def encode_request(request: Request) -> bytes:
    match request:
        case Info():
            return b"info\n"
        case Read(lines=lines):
            return f"read {','.join(map(str, lines))}\n".encode()
        case Set(levels=levels):
            return f"set {_levels(levels)}\n".encode()
        case Pulse(levels=levels, width_us=width_us):
            return f"pulse {_levels(levels)} {width_us}\n".encode()


def encode_answer(answer: Answer) -> bytes:
    match answer:
        case Bank(lines=lines, label=label, version=version, serial=serial):
            return f"ok lines={lines} label={label} version={version} serial={serial}\n".encode()
        case Levels(levels=levels):
            return f"ok {_levels(levels)}\n".encode()
        case Done():
            return b"ok\n"
        case Refusal(code=code, text=said):
            return f"error {code} {said}".rstrip().encode() + b"\n"


def parse_request(line: str) -> Request:
    """Raises ProtocolError for a line that is not a request."""
    match line.split(" "):
        case ["info"]:
            return Info()
        case ["read", lines]:
            return Read(lines=_numbers(lines))
        case ["set", levels]:
            return Set(levels=_parse_levels(levels))
        case ["pulse", levels, width] if _WIDTH.fullmatch(width):
            if not 0 < int(width) <= PULSE_US_MAX:
                raise ProtocolError(f"line bank: a pulse of {width} us is not between 1 and {PULSE_US_MAX} us")
            return Pulse(levels=_parse_levels(levels), width_us=int(width))
    raise ProtocolError(f"line bank: {line[:40]!r} is not a request")


def parse_answer(line: str) -> Answer:
    """Raises ProtocolError for a line that is not an answer."""
    word, _, rest = line.partition(" ")
    if word == "error":
        code, _, text = rest.partition(" ")
        if _WORD.fullmatch(code):
            return Refusal(code=code, text=text)
    if line == "ok":
        return Done()
    if word == "ok" and rest.startswith("lines="):
        return _parse_bank(rest)
    if word == "ok":
        return Levels(levels=_parse_levels(rest))
    raise ProtocolError(f"line bank: {line[:40]!r} is not an answer")


def _parse_bank(text: str) -> Bank:
    fields = dict(part.partition("=")[::2] for part in text.split(" "))
    if fields.keys() != {"lines", "label", "version", "serial"} or not _NUMBER.fullmatch(fields["lines"]):
        raise ProtocolError(f"line bank: {text[:40]!r} does not say lines, label, version and serial")
    for name in ("label", "version", "serial"):
        if not _WORD.fullmatch(fields[name]):
            raise ProtocolError(f"line bank: {name} {fields[name][:40]!r} is not a word")
    return Bank(lines=int(fields["lines"]), label=fields["label"], version=fields["version"], serial=fields["serial"])


def _levels(levels: Mapping[int, bool]) -> str:
    return ",".join(f"{line}={level:d}" for line, level in levels.items())


def _parts(text: str) -> list[str]:
    parts = text.split(",")
    if len(parts) > LINES_MAX:
        raise ProtocolError(f"line bank: {len(parts)} lines are over the {LINES_MAX} of one request")
    return parts


def _numbers(text: str) -> tuple[int, ...]:
    parts = _parts(text)
    for part in parts:
        if not _NUMBER.fullmatch(part):
            raise ProtocolError(f"line bank: {part[:20]!r} is not the number of a line")
    return tuple(map(int, parts))


def _parse_levels(text: str) -> dict[int, bool]:
    levels: dict[int, bool] = {}
    for part in _parts(text):
        line, _, level = part.partition("=")
        if not _NUMBER.fullmatch(line) or level not in ("0", "1") or int(line) in levels:
            raise ProtocolError(f"line bank: {part[:20]!r} is not the level of a line, or its line is named twice")
        levels[int(line)] = level == "1"
    return levels
