"""The twin of a line bank with parts: the protocol of this folder on the mirror model."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import Field
from typing_extensions import override

from hwd_drivers.core.values import CrossconnectState
from hwd_drivers.families.ttl import protocol
from hwd_drivers.families.ttl.protocol import Answer, Bank, Done, Info, Levels, Pulse, Read, Refusal, Request, Set
from hwd_drivers.families.ttl.wiring import Wiring
from hwd_drivers.twins.registry import TwinSpec
from hwd_drivers.twins.sequential import SequentialTwin
from hwd_drivers.twins.server import Denial

VERSION: Final = "1"


class TwinOptions(Wiring):
    """The wiring of this bank: the same as in its driver's `options`, or the default of both."""

    lines: int = Field(default=1024, ge=1, le=protocol.LINES_MAX, description="how many lines the bank has")


class TtlTwin(SequentialTwin[Request, TwinOptions]):
    """A bank with its parts.

    A pulse on a coil moves its part when the pulse begins; both coils at once move nothing.
    """

    protocol = "lines"
    options_type = TwinOptions

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._parts = self.options.parts_of(f"twin {self.name}", self.capabilities)
        self._driven: dict[int, bool] = {}
        self.powered_up()

    @override
    def decoder(self) -> Callable[[bytes], Sequence[Request]]:
        return protocol.RequestDecoder().feed

    @override
    def answer(self, command: Request) -> tuple[bytes, float]:
        answer, busy_s = self._do(command)
        return protocol.encode_answer(answer), busy_s

    @override
    def another(self, command: Request) -> bytes:
        return self.answer(Read(lines=(0,)) if isinstance(command, Info) else Info())[0]

    @override
    def powered_up(self) -> None:
        """No line keeps its level from before."""
        self._driven = {line: self.options.level(line, False) for part in self._parts for line in part.driven}

    def _do(self, command: Request) -> tuple[Answer, float]:
        named = command.lines if isinstance(command, Read) else () if isinstance(command, Info) else command.levels
        if missing := [line for line in named if line >= self.options.lines]:
            return Refusal(code="LINE", text=f"no line {missing[0]}"), 0.0
        match command:
            case Info():
                return Bank(
                    lines=self.options.lines, label=f"{self.name}-twin", version=VERSION, serial=self.serial
                ), 0.0
            case Read(lines=lines):
                return Levels(levels={line: self._level(line) for line in lines}), 0.0
            case Set(levels=levels):
                return self._drive(levels, after=levels), 0.0
            case Pulse(levels=levels, width_us=width_us):
                after = {line: not level for line, level in levels.items()}
                return self._drive(levels, after=after), width_us / 1e6

    def _drive(self, levels: Mapping[int, bool], *, after: Mapping[int, bool]) -> Answer:
        targets = self._targets(levels)
        denial: Denial | None = None
        if targets:
            _, denial = self.move(targets)
        if denial is not None:
            return Refusal(code=denial.code, text=denial.text)
        self._driven |= after
        return Done()

    def _targets(self, levels: Mapping[int, bool]) -> dict[int, int]:
        """The states of the parts with lines at these levels."""
        active = {line for line, level in levels.items() if self.options.level(line, level)}
        targets = {}
        for place, part in enumerate(self._parts):
            if part.level is not None and part.level in levels:
                targets[place] = int(part.level in active)
            elif part.pulse is not None and len(coils := active.intersection(part.pulse)) == 1:
                targets[place] = part.pulse.index(coils.pop())
        return targets

    def _level(self, line: int) -> bool:
        """The level of a line: for a contact, whether its part is in its position; for another line, its level."""
        for place, part in enumerate(self._parts):
            if part.contacts is not None and line in part.contacts:
                return self.options.level(line, self._rests(place) == part.contacts.index(line))
        return self._driven.get(line, False)

    def _rests(self, place: int) -> int | None:
        """The state of a part; None while it moves."""
        element = self.capabilities.elements[place]
        now_ns = self.clock.monotonic_ns()
        states = {reading.crossconnect: reading.state for reading in self.mirror.readings(now_ns)}
        state = self.mirror.states[element.name]
        there = all(states.get(pair) is not CrossconnectState.TUNING for pair in element.states[state])
        return state if there else None


TWIN: Final = TwinSpec(make=TtlTwin, options=TwinOptions)
