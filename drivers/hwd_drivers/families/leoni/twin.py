"""The twin of a Leoni switch: the bytes of its serial line over TCP, as of its Ethernet version."""

from collections.abc import Callable, Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from hwd_drivers.families.leoni import protocol
from hwd_drivers.families.leoni.protocol import Command, Query, Select, Unknown
from hwd_drivers.twins.registry import TwinSpec
from hwd_drivers.twins.sequential import SequentialTwin


class TwinOptions(BaseModel):
    """Behaviour of the twin where no source documents real units."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    family: Literal["eol", "mol"] = Field(default="eol", description="first word of the answer to type?")
    firmware: str = Field(default="V1.0", min_length=1, description="answer to firmware?")
    channel: Literal["wanted", "moved"] = Field(
        default="wanted", description="ch? tells the channel that was asked for at once, or when it is there"
    )


class LeoniTwin(SequentialTwin[Command, TwinOptions]):
    """A twin of one switch. Unknown channels and commands have no effect and no answer."""

    protocol = "serial"
    options_type = TwinOptions
    _left: int = 0

    @override
    def decoder(self) -> Callable[[bytes], Sequence[Command]]:
        return protocol.CommandDecoder().feed

    @override
    def answer(self, command: Command) -> tuple[bytes, float]:
        match command:
            case Query.TYPE:
                return protocol.encode_answer(f"{self.options.family} 1x{self._channels}"), 0.0
            case Query.CHANNEL:
                shown = self._left if self.options.channel == "moved" and self.moving else self.states[0]
                return protocol.encode_answer(str(shown + 1)), 0.0
            case Query.FIRMWARE:
                return protocol.encode_answer(self.options.firmware), 0.0
            case Select(channel=channel):
                if 1 <= channel <= self._channels:
                    self._left = self.states[0]
                    self.move({0: channel - 1})
            case Unknown():
                pass
        return b"", 0.0

    @override
    def another(self, command: Command) -> bytes:
        return self.answer(Query.TYPE if command is Query.CHANNEL else Query.CHANNEL)[0]

    @property
    def _channels(self) -> int:
        return len(self.capabilities.elements[0].states)


TWIN: Final = TwinSpec(make=LeoniTwin, options=TwinOptions, denial=None)
