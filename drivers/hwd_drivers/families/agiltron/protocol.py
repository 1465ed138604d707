"""Bytes of Agiltron SelfAlign 1xN switches: four at a time, both ways.

Facts of one published program: `01 35 00 nn` selects port nn+1 and is answered `01 35 FF FF`; `01 30 00 00` goes to
port 1. The state of the switch cannot be read. Its answer to an unknown port is undocumented: any other last two bytes
count as a refusal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.transports.serial_line import SerialLine

LINE: Final = SerialLine(baud=9600)
FRAME_BYTES: Final = 4
CHANNELS_MOST: Final = 256
"""Ports that one byte can address."""
_ADDRESS: Final = 0x01
_HOME: Final = 0x30
_SELECT: Final = 0x35


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """`01 35 00 02` is port 3."""

    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """`01 30 00 00` goes to port 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`01 35 FF FF`; `result` are the last two bytes."""

    command: int
    result: bytes

    @property
    def refuses(self) -> bool:
        return self.result != b"\xff\xff"


Command = Select | Home


def encode_command(command: Command) -> bytes:
    if isinstance(command, Home):
        return bytes([_ADDRESS, _HOME, 0, 0])
    return bytes([_ADDRESS, _SELECT, 0, command.port - 1])


def encode_answer(answer: Answer) -> bytes:
    return bytes([_ADDRESS, answer.command]) + answer.result


def answer_to(command: Command, result: bytes = b"\xff\xff") -> Answer:
    return Answer(command=_SELECT if isinstance(command, Select) else _HOME, result=result)


class AnswerDecoder:
    """Bytes from a switch to answers."""

    def __init__(self) -> None:
        self._frames = _Frames()

    def feed(self, data: bytes) -> Sequence[Answer]:
        return [Answer(command=frame[1], result=frame[2:]) for frame in self._frames.feed(data)]


class CommandDecoder:
    """Bytes from a host to commands."""

    def __init__(self) -> None:
        self._frames = _Frames()

    def feed(self, data: bytes) -> Sequence[Command]:
        return [_command(frame) for frame in self._frames.feed(data)]


class _Frames:
    """Cuts bytes into fours. Raises ProtocolError for a wrong first byte: the next message cannot be found then."""

    def __init__(self) -> None:
        self._begun = b""

    def feed(self, data: bytes) -> list[bytes]:
        data = self._begun + data
        whole = len(data) // FRAME_BYTES * FRAME_BYTES
        frames = [data[at : at + FRAME_BYTES] for at in range(0, whole, FRAME_BYTES)]
        self._begun = data[whole:]
        for frame in (*frames, self._begun):
            if frame and (frame[0] != _ADDRESS or (len(frame) > 1 and frame[1] not in (_HOME, _SELECT))):
                raise ProtocolError(
                    f"{frame.hex(' ')}: not a message of an Agiltron switch, they begin with 01 30 or 01 35"
                )
        return frames


def _command(frame: bytes) -> Command:
    if frame[1] == _SELECT and frame[2] == 0:
        return Select(port=frame[3] + 1)
    if frame[1] == _HOME and frame[2:] == b"\0\0":
        return Home()
    raise ProtocolError(f"{frame.hex(' ')}: not a command of an Agiltron switch")
