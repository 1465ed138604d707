"""Agiltron SelfAlign 1xN switches, whose state cannot be read: four bytes at a time, both ways.

Facts of one published program: `01 35 00 nn` selects port nn+1 and is answered `01 35 FF FF`; `01 30 00 00` goes to
port 1. The state of the switch cannot be read. Its answer to an unknown port is undocumented: any other last two bytes
count as a refusal.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from pydantic import Field
from typing_extensions import override

from hwd_drivers.core.errors import DeadlineError, ProtocolError
from hwd_drivers.core.values import NOT_REPORTED, CrossconnectReading, Exchange, Identity
from hwd_drivers.devices.element_switch import ElementSwitch, PartOptions
from hwd_drivers.devices.elements import one_by
from hwd_drivers.devices.ordered import Request
from hwd_drivers.devices.registry import DriverSpec, Evidence
from hwd_drivers.devices.serial_part import AnswerTime, Deed, SerialPart, Unit
from hwd_drivers.transports.serial_line import SerialLine

FRAME_BYTES: Final = 4
HOME: Final = b"\x01\x30\x00\x00"
"""Goes to port 1."""
DONE: Final = b"\xff\xff"
"""The last two bytes of an answer that is no refusal."""
NO: Final = b"\x00\x00"
"""The last two bytes of a refusal of the twin."""


class AgiltronOptions(PartOptions):
    """Options of an Agiltron switch in a testbed."""

    open_within_s: float = Field(default=5.0, gt=0, description="limit for connecting")


class TwinOptions(AnswerTime):
    """Behaviour of the twin where no source documents real units."""

    answer: Literal["timing", "at-once"] = Field(
        default="timing", description="the answer comes when the switch has moved, or at once"
    )
    answers_home: bool = Field(default=True, description="01 30 00 00 is answered too")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer of a part, `01 35 FF FF`; `result` are the last two bytes."""

    command: int
    result: bytes


class AgiltronPart(SerialPart[bytes, Answer]):
    """The messages of these switches. A command is its four bytes."""

    line = SerialLine(baud=9600)
    options = TwinOptions
    denial = ("0000", "")

    @override
    def answers(self) -> Callable[[bytes], Sequence[Answer]]:
        frames = _Frames()
        return lambda data: [Answer(command=frame[1], result=frame[2:]) for frame in frames.feed(data)]

    @override
    def commands(self) -> Callable[[bytes], Sequence[bytes]]:
        frames = _Frames()
        return lambda data: [_command(frame) for frame in frames.feed(data)]

    @override
    def refuses(self, answer: Answer) -> bool:
        return answer.result != DONE

    @override
    def refusal(self, answer: Answer) -> tuple[str, str]:
        return answer.result.hex(), ""

    def select(self, port: int) -> bytes:
        """`01 35 00 02` is port 3."""
        return bytes([1, 0x35, 0, port - 1])

    @override
    def serve(self, command: bytes, unit: Unit) -> Deed:
        state = command[3]
        if state >= unit.channels:
            return Deed(answer=command[:2] + NO)
        answered = command != HOME or unit.options.answers_home
        return Deed(
            answer=command[:2] + DONE if answered else b"",
            targets={0: state},
            when_moved=answered and unit.options.answer == "timing",
        )

    @override
    def other(self, command: bytes) -> bytes:
        return self.select(1) if command == HOME else HOME

    @override
    def denied(self, command: bytes, unit: Unit, code: str, text: str) -> bytes:
        """The code as two bytes in hexadecimal; any other code is `00 00`."""
        if command == HOME and not unit.options.answers_home:
            return b""
        try:
            result = bytes.fromhex(code)
        except ValueError:
            result = NO
        return command[:2] + (result if len(result) == 2 and result != DONE else NO)


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
            if frame and (frame[0] != 1 or (len(frame) > 1 and frame[1] not in (0x30, 0x35))):
                raise ProtocolError(
                    f"{frame.hex(' ')}: not a message of an Agiltron switch, they begin with 01 30 or 01 35"
                )
        return frames


def _command(frame: bytes) -> bytes:
    if frame[2] or (frame[1] == 0x30 and frame != HOME):
        raise ProtocolError(f"{frame.hex(' ')}: not a command of an Agiltron switch")
    return frame


PART: Final = AgiltronPart()


class AgiltronSwitch(ElementSwitch[Answer]):
    """One session with one switch.

    A reading is the last state that this session set, and empty before: the device has no query that does not move it.
    """

    part = PART
    options = AgiltronOptions
    _last_set: int | None = None

    @override
    async def _begin(self, deadline_s: float) -> None:
        """Nothing is sent: every message would move the light."""

    async def identify(self, *, deadline_s: float) -> Identity:
        """Identity from the testbed; the switch reports none. Raises the cause of the session's end, if it is over."""
        await self._still_there(deadline_s)
        model = f"SelfAlign 1x{self._channels}"
        return Identity(vendor="Agiltron", model=model, serial=NOT_REPORTED, firmware=NOT_REPORTED)

    @override
    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        """The last state that this session set; none before."""
        await self._still_there(deadline_s)
        return () if self._last_set is None else self._elements.readings((self._last_set,))

    @override
    async def _move(
        self, targets: Mapping[int, int], deadline_s: float, on_commanded: Callable[[int], None] | None
    ) -> Exchange:
        port = targets[0] + 1
        data = self.part.select(port)
        request: Request[Answer] = Request(
            data=data, what=f"select port {port}", fits=lambda answer: answer.command == data[1]
        )
        previous = self._last_set

        def sent(at_ns: int) -> None:
            self._last_set = None  # unknown until the answer
            if on_commanded is not None:
                on_commanded(at_ns)

        answered = await self._connection.request(request, deadline_s=deadline_s, on_sent=sent)
        self._last_set = previous
        self._check(request, answered.messages[0])
        self._last_set = targets[0]
        return Exchange(commanded_ns=answered.sent_ns, acknowledged_ns=answered.received_ns, commands=1)

    async def _still_there(self, deadline_s: float) -> None:
        if deadline_s <= asyncio.get_running_loop().time():
            raise DeadlineError(f"{self.name}: its deadline is over. Allow more time")
        await self._connection.request(deadline_s=deadline_s)


driver: Final = DriverSpec(
    name="agiltron",
    open=AgiltronSwitch.open,
    options=AgiltronOptions,
    models={"selfalign": partial(one_by, "an Agiltron SelfAlign", reports_before=False)},
    twin=f"{__name__}:PART",
    default_port=0,
    sizes={"selfalign": "1x16"},
    evidence=Evidence.THIN,
    blind=True,
)
