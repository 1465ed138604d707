"""The twin of an Agiltron switch: the bytes of its serial line over TCP."""

from collections.abc import Callable, Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from hwd_drivers.families.agiltron import protocol
from hwd_drivers.families.agiltron.protocol import Command, Home, Select, answer_to
from hwd_drivers.twins.faults import Denial
from hwd_drivers.twins.registry import TwinSpec
from hwd_drivers.twins.sequential import SequentialTwin

_NO = b"\x00\x00"


class TwinOptions(BaseModel):
    """Behaviour of the twin where no source documents real units."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    answer: Literal["timing", "at-once"] = Field(
        default="timing", description="the answer comes when the switch has moved, or at once"
    )
    answers_home: bool = Field(default=True, description="01 30 00 00 is answered too")


class AgiltronTwin(SequentialTwin[Command, TwinOptions]):
    """A twin of one switch. It refuses an unknown port with `00 00`."""

    protocol = "serial"
    options_type = TwinOptions

    @override
    def decoder(self) -> Callable[[bytes], Sequence[Command]]:
        return protocol.CommandDecoder().feed

    @override
    def answer(self, command: Command) -> tuple[bytes, float]:
        port = command.port if isinstance(command, Select) else 1
        if port > len(self.capabilities.elements[0].states):
            return protocol.encode_answer(answer_to(command, _NO)), 0.0
        settling, denial = self.move({0: port - 1} if self.states[0] != port - 1 else {})
        if isinstance(command, Home) and not self.options.answers_home:
            return b"", 0.0
        if denial is not None:
            return protocol.encode_answer(answer_to(command, _result(denial.code))), 0.0
        return protocol.encode_answer(answer_to(command)), settling.answer_s if self.options.answer == "timing" else 0.0

    @override
    def another(self, command: Command) -> bytes:
        """The answer to the other command, which is not done."""
        return protocol.encode_answer(answer_to(Home() if isinstance(command, Select) else Select(port=1)))


def _result(code: str) -> bytes:
    """The code of a denial as two bytes in hexadecimal; any other code is `00 00`."""
    try:
        result = bytes.fromhex(code)
    except ValueError:
        return _NO
    return result if len(result) == 2 and result != b"\xff\xff" else _NO


TWIN: Final = TwinSpec(make=AgiltronTwin, options=TwinOptions, denial=Denial(code="0000"))
