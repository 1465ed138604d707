"""Bytes of Sercalo RSC 1xN modules: binary frames with a checksum.

Facts of one published program: `EF EF len FF cmd [data] sum` to the module, `FE FE len addr cmd err [data] sum` back;
`len` counts the bytes after it, `sum` is the lower byte of the sum of all before it. Commands: 01 information, 02
position, 03 reset, 04 select. Errors: 0 none, 1 command, 2 parameter, 3 failed, 4 checksum.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.values import NOT_REPORTED, Identity

BROADCAST: Final = 0xFF
"""The address in commands: any module."""
_TO_MODULE: Final = b"\xef\xef"
_FROM_MODULE: Final = b"\xfe\xfe"
_COMMAND_LEAST: Final = 3
_ANSWER_LEAST: Final = 4
_INFO_BYTES: Final = 29
"""Vendor (10), type (10), one unknown byte, hardware (2), firmware (2), date (4); then the serial number."""


class Code(IntEnum):
    """The commands of the protocol."""

    INFO = 1
    """Vendor, type, versions, date, serial number."""
    WHERE = 2
    """The selected channel, one byte."""
    RESET = 3
    """Restart the module."""
    SELECT = 4
    """Select the channel of one byte."""


ERRORS: Final[Mapping[int, str]] = {
    1: "invalid command",
    2: "invalid parameter",
    3: "command failed",
    4: "checksum error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A frame to a module; `intact` is False where its checksum is wrong."""

    code: int
    data: bytes = b""
    intact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A frame from a module."""

    code: int
    error: int = 0
    data: bytes = b""
    address: int = 1


def encode_command(command: Command) -> bytes:
    return _frame(_TO_MODULE, bytes([BROADCAST, command.code]) + command.data)


def encode_answer(answer: Answer) -> bytes:
    return _frame(_FROM_MODULE, bytes([answer.address, answer.code, answer.error]) + answer.data)


def is_info(data: bytes) -> bool:
    """Whether `read_info` can read it."""
    return len(data) >= _INFO_BYTES and data[:20].isascii() and data[_INFO_BYTES:].isascii()


def read_info(data: bytes) -> Identity:
    """Raises ProtocolError for data that is shorter than its fixed part, or has other bytes where text belongs."""
    if not is_info(data):
        raise ProtocolError(f"{data.hex(' ')}: not information, which has texts and {_INFO_BYTES} bytes at least")
    vendor, kind, serial = (part.decode().strip("; \0") for part in (data[:10], data[10:20], data[_INFO_BYTES:]))
    return Identity(
        vendor=vendor or "Sercalo",
        model=kind or NOT_REPORTED,
        serial=serial or NOT_REPORTED,
        firmware=f"{data[23]}.{data[24]}",
    )


def write_info(kind: str, serial: str) -> bytes:
    """Information of a unit with hardware 1.0 and firmware 1.2: padded with semicolons, its date with zeros."""
    return b"Sercalo;;;" + kind.encode().ljust(10, b";") + bytes([0, 1, 0, 1, 2, 0, 0, 0, 0]) + serial.encode()


class AnswerDecoder:
    """Turns the bytes of a module into answers. Raises ProtocolError for other bytes, and for a wrong checksum."""

    def __init__(self) -> None:
        self._frames = _Frames(_FROM_MODULE, _ANSWER_LEAST)

    def feed(self, data: bytes) -> Sequence[Answer]:
        answers = []
        for body, intact in self._frames.feed(data):
            if not intact:
                raise ProtocolError(f"{body.hex(' ')}: wrong checksum")
            answers.append(Answer(address=body[0], code=body[1], error=body[2], data=body[3:]))
        return answers


class CommandDecoder:
    """Turns the bytes of a host into commands. Raises ProtocolError for other bytes."""

    def __init__(self) -> None:
        self._frames = _Frames(_TO_MODULE, _COMMAND_LEAST)

    def feed(self, data: bytes) -> Sequence[Command]:
        return [Command(code=body[1], data=body[2:], intact=intact) for body, intact in self._frames.feed(data)]


class _Frames:
    """Cuts bytes into frames; a length byte limits a frame to 258 bytes."""

    def __init__(self, head: bytes, least: int) -> None:
        self._head = head
        self._least = least
        self._begun = b""

    def feed(self, data: bytes) -> list[tuple[bytes, bool]]:
        """The bytes between length and checksum of each frame, and whether the checksum is right."""
        data = self._begun + data
        frames: list[tuple[bytes, bool]] = []
        at = 0
        while True:
            if not self._head.startswith(data[at : at + 2]):
                raise ProtocolError(f"{data[at : at + 8].hex(' ')}: not a frame, they begin with {self._head.hex(' ')}")
            if len(data) < at + 3:
                break
            if data[at + 2] < self._least:
                raise ProtocolError(
                    f"{data[at : at + 8].hex(' ')}: a frame of {data[at + 2]} bytes, least {self._least}"
                )
            end = at + 3 + data[at + 2]
            if len(data) < end:
                break
            frames.append((data[at + 3 : end - 1], sum(data[at : end - 1]) & 0xFF == data[end - 1]))
            at = end
        self._begun = data[at:]
        return frames


def _frame(head: bytes, body: bytes) -> bytes:
    data = head + bytes([len(body) + 1]) + body
    return data + bytes([sum(data) & 0xFF])
