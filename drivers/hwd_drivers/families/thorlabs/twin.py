"""The twin of an OSW12 or OSW22: the bytes of its serial line over TCP.

What no source tells of real units is a choice in `TwinOptions`.
"""

from collections.abc import Callable, Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from hwd_drivers.families.thorlabs import protocol
from hwd_drivers.families.thorlabs.protocol import Answer, Command, Failure, Line, Move, Query, Unknown
from hwd_drivers.twins.faults import Denial
from hwd_drivers.twins.registry import TwinSpec
from hwd_drivers.twins.sequential import SequentialTwin


class TwinOptions(BaseModel):
    """Behaviour of the twin where no source documents real units."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: str | None = Field(default=None, min_length=1, description="answer to T?; left out, OSW12 or OSW22")
    board: str = Field(default="OSW-E V1.0", min_length=2, description="answer to I?")
    stale: Literal["first", "moving", "never"] = Field(
        default="first",
        description="S? reports the old position: once after a set (as in published programs), during a move, or never",
    )
    wrong_position: str = Field(
        default="02,Invalid parameter", pattern=r"\w+,.*", description="error for S with another position"
    )
    unknown_command: str = Field(default="01,Unknown command", pattern=r"\w+,.*", description="error for other lines")


class ThorlabsTwin(SequentialTwin[Command, TwinOptions]):
    """A twin of one switch; `mirror` is its optics, `faults` its faults."""

    protocol = "serial"
    options_type = TwinOptions
    _left: int | None = None
    """The state before the last set, until it was reported."""

    @override
    def decoder(self) -> Callable[[bytes], Sequence[Command]]:
        return protocol.CommandDecoder().feed

    @override
    def answer(self, command: Command) -> tuple[bytes, float]:
        answer = self._do(command)
        return (protocol.encode_answer(answer) if answer is not None else b""), 0.0

    @override
    def another(self, command: Command) -> bytes:
        return self.answer(Query.TYPE if command is Query.POSITION else Query.POSITION)[0]

    @override
    def powered_up(self) -> None:
        self._left = None

    def _do(self, command: Command) -> Answer | None:
        match command:
            case Query.POSITION:
                return Line(text=str(self._position()))
            case Query.TYPE:
                return Line(text=self.options.type or ("OSW22" if self.capabilities.two_sided else "OSW12"))
            case Query.BOARD:
                return Line(text=self.options.board)
            case Move(position=1 | 2 as position):
                before = self.states[0]
                _, denial = self.move({0: position - 1})
                self._left = before if self.states[0] != before else None
                return None if denial is None else Failure(code=denial.code, text=denial.text)
            case Move():
                return _failure(self.options.wrong_position)
            case Unknown():
                return _failure(self.options.unknown_command)

    def _position(self) -> int:
        stale = self._left is not None and (self.options.stale == "first" or self.moving)
        left, state = self._left, self.states[0]
        if self.options.stale == "first" or not stale:
            self._left = None
        if stale and left is not None and self.options.stale != "never":
            return left + 1
        return state + 1


def _failure(words: str) -> Failure:
    code, _, text = words.partition(",")
    return Failure(code=code, text=text)


TWIN: Final = TwinSpec(make=ThorlabsTwin, options=TwinOptions, denial=Denial(code="02", text="told to say no"))
