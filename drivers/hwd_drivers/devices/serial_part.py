"""SerialPart: a small switch on a serial line without I/O: its codec, and what a unit does on each command.

Driver and twin both come from it, so a mistake in it is in both: captures judge them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Field

from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices.registry import Options
from hwd_drivers.transports.link import MessageT
from hwd_drivers.transports.serial_line import SerialLine

CommandT = TypeVar("CommandT")


class AnswerTime(Options):
    """The option of a twin that says when it acknowledges a selection."""

    answer: Literal["timing", "at-once"] = Field(
        default="timing", description="a selection is acknowledged when the switch has moved, or at once"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A simulated unit as its answers see it; `states`: the state of each element, as it reports them.

    `channels`: of each selector.
    """

    options: Any
    capabilities: Capabilities
    channels: int
    serial: str
    states: Sequence[int]
    echoes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """The reaction of a unit to a command.

    `targets`: the states that elements move to, by index; None where nothing moves. `when_moved`: it answers then, and
    else at once. `reports`: its states are in the answer. `echoes`: whether it repeats commands from now on.
    """

    answer: bytes = b""
    targets: Mapping[int, int] | None = None
    when_moved: bool = False
    reports: bool = False
    echoes: bool | None = None


class SerialPart(ABC, Generic[CommandT, MessageT]):
    """The table of a part. Its driver names it in `ElementSwitch.part`, its declaration in `DriverSpec.twin`.

    `options`: schema of the options of its twin. `denial`: code and text of a refusal in the device's own words, for
    the checks; None where its protocol has none.
    """

    line: SerialLine
    options: type[BaseModel]
    denial: tuple[str, str] | None = None

    @abstractmethod
    def answers(self) -> Callable[[bytes], Sequence[MessageT]]:
        """A new decoder of the bytes of a unit.

        It raises ProtocolError for bytes that are no answer, and where a limit of it is reached without an end.
        """

    @abstractmethod
    def commands(self) -> Callable[[bytes], Sequence[CommandT]]:
        """A new decoder of the bytes of a host, which raises ProtocolError as that of answers does."""

    @abstractmethod
    def refuses(self, answer: MessageT) -> bool:
        """Whether an answer is a refusal."""

    @abstractmethod
    def refusal(self, answer: MessageT) -> tuple[str, str]:
        """Code and text of a refusal."""

    @abstractmethod
    def serve(self, command: CommandT, unit: Unit) -> Deed:
        """What a unit does on a command."""

    @abstractmethod
    def other(self, command: CommandT) -> CommandT:
        """A command whose answer does not fit this one."""

    def denied(self, command: CommandT, unit: Unit, code: str, text: str) -> bytes:
        """The answer of a unit that is told to refuse a selection with this code and text."""
        return b""

    def reports_old(self, options: Any) -> Literal["first", "moving", "never"]:
        """When a unit reports its states of before a selection: once after it, while it moves, never."""
        return "never"
