"""The twin of a Sercalo USB unit: the lines of its serial port over TCP."""

from collections.abc import Callable, Sequence
from typing import Final

from typing_extensions import override

from hwd_drivers.families.sercalo.ascii import protocol
from hwd_drivers.families.sercalo.ascii.protocol import NACK, Answer, Command, Query, Select
from hwd_drivers.families.sercalo.options import TwinOptions
from hwd_drivers.twins.faults import Denial
from hwd_drivers.twins.registry import TwinSpec
from hwd_drivers.twins.sequential import SequentialTwin


class SercaloAsciiTwin(SequentialTwin[Command, TwinOptions]):
    """A twin of one unit; it answers unknown and impossible commands with `:nack`."""

    protocol = "serial"
    options_type = TwinOptions

    @override
    def decoder(self) -> Callable[[bytes], Sequence[Command]]:
        return protocol.CommandDecoder().feed

    @override
    def answer(self, command: Command) -> tuple[bytes, float]:
        answer, delay_s = self._do(command)
        return protocol.encode_answer(answer), delay_s

    @override
    def another(self, command: Command) -> bytes:
        return self.answer(Query.IDENTITY if command is Query.CHANNEL else Query.CHANNEL)[0]

    def _do(self, command: Command) -> tuple[Answer, float]:
        channels = len(self.capabilities.elements[0].states)
        match command:
            case Query.IDENTITY:
                return Answer(lines=(f"Sercalo 1x{channels}", f"S/N {self.serial}")), 0.0
            case Query.CHANNEL:
                return Answer(lines=(str(self.states[0] + 1),)), 0.0
            case Select(channel=channel) if 1 <= channel <= channels:
                settling, denial = self.move({0: channel - 1} if self.states[0] != channel - 1 else {})
                if denial is None:
                    return Answer(), settling.answer_s if self.options.answer == "timing" else 0.0
                return Answer(done=False), 0.0
            case _:
                return Answer(done=False), 0.0


TWIN: Final = TwinSpec(make=SercaloAsciiTwin, options=TwinOptions, denial=Denial(code=NACK))
