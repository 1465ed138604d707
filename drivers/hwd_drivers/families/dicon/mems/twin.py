"""The twin of a DiCon MEMS module: the bytes of its serial line over TCP."""

from collections.abc import Callable, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from hwd_drivers.families.dicon.mems import protocol
from hwd_drivers.families.dicon.mems.protocol import PARKED, Command, Plain, Select
from hwd_drivers.twins.registry import TwinSpec
from hwd_drivers.twins.sequential import SequentialTwin


class TwinOptions(BaseModel):
    """Behaviour of the twin where no source documents real units."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    echo: bool = Field(default=False, description="whether it repeats commands until EO 0")
    identity: str = Field(default="DiCon MEMS module", min_length=1, description="answer to ID?, without a comma")
    configuration: str = Field(default="1", description="first field of the answer to CF?; what it means is not known")


class MemsTwin(SequentialTwin[Command, TwinOptions]):
    """A twin of one module. Unknown channels and commands have no effect and no answer."""

    protocol = "serial"
    options_type = TwinOptions
    _echoes: bool | None = None

    @override
    def decoder(self) -> Callable[[bytes], Sequence[Command]]:
        return protocol.CommandDecoder().feed

    @override
    def answer(self, command: Command) -> tuple[bytes, float]:
        echoes = self.options.echo if self._echoes is None else self._echoes
        echo = protocol.text_of(command).encode() if echoes else b""
        answer = self._do(command)
        if answer is not None:
            return echo + protocol.encode_answer(answer), 0.0
        return echo + b"\n" if echo else b"", 0.0

    @override
    def another(self, command: Command) -> bytes:
        return self.answer(Plain.IDENTITY if command is Plain.CHANNEL else Plain.CHANNEL)[0]

    @override
    def powered_up(self) -> None:
        self._echoes = None

    def _do(self, command: Command) -> str | None:
        dark = len(self.capabilities.elements[0].states) - 1
        match command:
            case Plain.CHANNEL:
                return str(PARKED if self.states[0] == dark else self.states[0] + 1)
            case Plain.CONFIGURATION:
                return f"{self.options.configuration},{dark}"
            case Plain.IDENTITY:
                return self.options.identity
            case Plain.PARK:
                self.move({0: dark})
            case Plain.ECHO_OFF | Plain.ECHO_ON:
                self._echoes = command is Plain.ECHO_ON
            case Select(channel=channel) if channel <= dark:
                self.move({0: dark if channel == PARKED else channel - 1})
            case _:
                pass
        return None


TWIN: Final = TwinSpec(make=MemsTwin, options=TwinOptions, denial=None)
