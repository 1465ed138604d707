"""The twin of an `<OSW_OUT_..>` controller: the bytes of its serial line over TCP."""

from collections.abc import Callable, Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from hwd_drivers.families.osw import protocol
from hwd_drivers.families.osw.protocol import OVERFLOW, Command, Positions, Query, Type, TypeQuery, Word
from hwd_drivers.twins.faults import Denial
from hwd_drivers.twins.registry import TwinSpec
from hwd_drivers.twins.sequential import SequentialTwin


class TwinOptions(BaseModel):
    """Behaviour of the twin where no source documents real units."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    answer: Literal["timing", "at-once"] = Field(
        default="timing", description="<OSW_OUT_OK> comes when the selectors have moved, or at once"
    )
    refusal: str = Field(
        default=protocol.OVERFLOW, pattern=r"[A-Za-z][A-Za-z0-9]*", description="word for a set that it cannot do"
    )
    part: str | None = Field(
        default=None,
        pattern=r"[!-;=?-~]{0,64}",
        description="answer to <OSW_TYPE_?>; as the size has it where it is left out, a refusal where it is empty",
    )
    end: str = Field(default="", pattern=r"[\r\n]*", description="what follows an answer: nothing, or an end of line")


class OswTwin(SequentialTwin[Command, TwinOptions]):
    """A twin of one controller; `mirror` is its optics, `faults` its faults."""

    protocol = "serial"
    options_type = TwinOptions

    @override
    def decoder(self) -> Callable[[bytes], Sequence[Command]]:
        return protocol.Decoder().feed

    @override
    def answer(self, command: Command) -> tuple[bytes, float]:
        message, delay_s = self._do(command)
        return protocol.encode(message) + self.options.end.encode(), delay_s

    @override
    def another(self, command: Command) -> bytes:
        return self.answer(Positions(channels=()) if isinstance(command, Query) else Query())[0]

    @property
    def part(self) -> str:
        """Number of selectors and channels, wavelength and fibre, as the vendor writes them."""
        if self.options.part is not None:
            return self.options.part
        elements = self.capabilities.elements
        return f"LF-OSW-{len(elements)}X{len(elements[0].states) - 1}-1550-SM-TWIN"

    def _do(self, command: Command) -> tuple[Type | Positions | Word, float]:
        refusal = Word(text=self.options.refusal)
        dark = len(self.capabilities.elements[0].states) - 1
        states = self.states
        match command:
            case Query():
                return Positions(channels=tuple((state + 1) % (dark + 1) for state in states)), 0.0
            case TypeQuery() if self.part:
                return Type(text=self.part), 0.0
            case Positions(channels=channels) if len(channels) == len(states) and max(channels) <= dark:
                wanted = [channel - 1 if channel else dark for channel in channels]
                moving = {place: state for place, state in enumerate(wanted) if state != states[place]}
                settling, denial = self.move(moving)
                if denial is not None:
                    return Word(text=denial.code if denial.code.isalnum() else refusal.text), 0.0
                return Word(text="OK"), settling.answer_s if self.options.answer == "timing" else 0.0
            case _:
                return refusal, 0.0


TWIN: Final = TwinSpec(make=OswTwin, options=TwinOptions, denial=Denial(code=OVERFLOW))
