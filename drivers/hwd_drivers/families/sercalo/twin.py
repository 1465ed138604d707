"""The twin of a Sercalo RSC module: the bytes of its serial line over TCP."""

from collections.abc import Callable, Sequence
from typing import Final

from typing_extensions import override

from hwd_drivers.families.sercalo import protocol
from hwd_drivers.families.sercalo.options import TwinOptions
from hwd_drivers.families.sercalo.protocol import ERRORS, Answer, Code, Command, Info
from hwd_drivers.twins.faults import Denial
from hwd_drivers.twins.registry import TwinSpec
from hwd_drivers.twins.sequential import SequentialTwin

BAD_COMMAND, BAD_PARAMETER, FAILED, BAD_CHECKSUM = 1, 2, 3, 4


class SercaloTwin(SequentialTwin[Command, TwinOptions]):
    """A twin of one module; `mirror` is its optics, `faults` its faults. Reset selects its first channel."""

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
        return self.answer(Command(code=Code.INFO if command.code == Code.WHERE else Code.WHERE))[0]

    def _do(self, command: Command) -> tuple[Answer, float]:
        code, data = command.code, command.data
        if not command.intact:
            return Answer(code=code, error=BAD_CHECKSUM), 0.0
        match code:
            case Code.INFO:
                channels = len(self.capabilities.elements[0].states)
                info = Info(
                    vendor="Sercalo", type=f"RSC1x{channels}", hardware="1.0", firmware="1.2", serial=self.serial
                )
                return Answer(code=code, data=protocol.write_info(info)), 0.0
            case Code.WHERE:
                return Answer(code=code, data=bytes([self.states[0] + 1])), 0.0
            case Code.RESET:
                return self._select(code, 1)
            case Code.SELECT:
                return self._select(code, data[0]) if len(data) == 1 else (Answer(code=code, error=BAD_PARAMETER), 0.0)
            case _:
                return Answer(code=code, error=BAD_COMMAND), 0.0

    def _select(self, code: int, channel: int) -> tuple[Answer, float]:
        if not 1 <= channel <= len(self.capabilities.elements[0].states):
            return Answer(code=code, error=BAD_PARAMETER), 0.0
        settling, denial = self.move({0: channel - 1} if self.states[0] != channel - 1 else {})
        if denial is not None:
            return Answer(code=code, error=int(denial.code) if denial.code in ("1", "2", "3", "4") else FAILED), 0.0
        return Answer(code=code), settling.answer_s if self.options.answer == "timing" else 0.0


TWIN: Final = TwinSpec(make=SercaloTwin, options=TwinOptions, denial=Denial(code="3", text=ERRORS[3]))
