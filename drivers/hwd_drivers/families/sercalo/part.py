"""Sercalo RSC modules, which speak the frames of `protocol.py`: what they are asked, and what a unit does."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from typing_extensions import override

from hwd_drivers.core.values import Identity
from hwd_drivers.devices.element_switch import OneElementSwitch, PartOptions
from hwd_drivers.devices.elements import one_by
from hwd_drivers.devices.ordered import Request
from hwd_drivers.devices.registry import DriverSpec, Evidence
from hwd_drivers.devices.serial_part import AnswerTime, Deed, SerialPart, Unit
from hwd_drivers.families.sercalo import protocol
from hwd_drivers.families.sercalo.protocol import ERRORS, Answer, Code, Command
from hwd_drivers.transports.serial_line import SerialLine

BAD_COMMAND, BAD_PARAMETER, FAILED, BAD_CHECKSUM = 1, 2, 3, 4


class SercaloPart(SerialPart[Command, Answer]):
    """The commands of a module. Reset selects its first channel."""

    line = SerialLine(baud=115_200)
    options = AnswerTime
    denial = (str(FAILED), ERRORS[FAILED])

    @override
    def answers(self) -> Callable[[bytes], Sequence[Answer]]:
        return protocol.AnswerDecoder().feed

    @override
    def commands(self) -> Callable[[bytes], Sequence[Command]]:
        return protocol.CommandDecoder().feed

    @override
    def refuses(self, answer: Answer) -> bool:
        return answer.error != 0

    @override
    def refusal(self, answer: Answer) -> tuple[str, str]:
        return str(answer.error), ERRORS.get(answer.error, "")

    @override
    def serve(self, command: Command, unit: Unit) -> Deed:
        match command.code, len(command.data):
            case _ if not command.intact:
                return _answer(command, error=BAD_CHECKSUM)
            case Code.INFO, _:
                return _answer(command, data=protocol.write_info(f"RSC1x{unit.channels}", unit.serial))
            case Code.WHERE, _:
                return _answer(command, data=bytes([unit.states[0] + 1]))
            case Code.RESET, _:
                return _selection(command, 1, unit)
            case Code.SELECT, 1:
                return _selection(command, command.data[0], unit)
            case Code.SELECT, _:
                return _answer(command, error=BAD_PARAMETER)
            case _:
                return _answer(command, error=BAD_COMMAND)

    @override
    def other(self, command: Command) -> Command:
        return Command(code=Code.INFO if command.code == Code.WHERE else Code.WHERE)

    @override
    def denied(self, command: Command, unit: Unit, code: str, text: str) -> bytes:
        return _answer(command, error=int(code) if code in map(str, ERRORS) else FAILED).answer


def _answer(command: Command, *, error: int = 0, data: bytes = b"") -> Deed:
    return Deed(answer=protocol.encode_answer(Answer(code=command.code, error=error, data=data)))


def _selection(command: Command, channel: int, unit: Unit) -> Deed:
    if not 1 <= channel <= unit.channels:
        return _answer(command, error=BAD_PARAMETER)
    done = protocol.encode_answer(Answer(code=command.code))
    return Deed(answer=done, targets={0: channel - 1}, when_moved=unit.options.answer == "timing")


PART: Final = SercaloPart()


class SercaloSwitch(OneElementSwitch[Answer]):
    """One session with one module."""

    part = PART

    async def identify(self, *, deadline_s: float) -> Identity:
        (answer,) = await self._ask(
            self._request(Code.INFO, "information", lambda answer: protocol.is_info(answer.data)), deadline_s=deadline_s
        )
        return protocol.read_info(answer.data)

    @override
    def _where(self) -> Request[Answer]:
        return self._request(
            Code.WHERE, "where", lambda answer: len(answer.data) == 1 and 1 <= answer.data[0] <= self._channels
        )

    @override
    def _state(self, answer: Answer) -> int:
        return answer.data[0] - 1

    @override
    def _select(self, state: int) -> Request[Answer]:
        return self._request(Code.SELECT, f"select channel {state + 1}", lambda answer: True, bytes([state + 1]))

    def _request(self, code: Code, what: str, fits: Callable[[Answer], bool], data: bytes = b"") -> Request[Answer]:
        """An answer names its command; one to bytes that were garbled may name another, with its error."""
        command = protocol.encode_command(Command(code=code, data=data))
        return Request(data=command, what=what, fits=lambda answer: answer.code == code and fits(answer))


driver: Final = DriverSpec(
    name="sercalo",
    open=SercaloSwitch.open,
    options=PartOptions,
    models={"rsc": partial(one_by, "a Sercalo switch", channels_most=255)},
    twin=f"{__name__}:PART",
    default_port=0,
    sizes={"rsc": "1x8"},
    evidence=Evidence.THIN,
)
