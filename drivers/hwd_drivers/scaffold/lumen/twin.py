"""The twin: the same lines on the mirror model."""

from collections.abc import Callable, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from hwd_drivers.core.errors import ConfigError, ProtocolError, RefusedError
from hwd_drivers.core.values import Side
from hwd_drivers.devices.matrix_switch import crossconnect, numbers
from hwd_drivers.twins.faults import Denial
from hwd_drivers.twins.registry import TwinSpec
from hwd_drivers.twins.sequential import SequentialTwin

from .driver import LumenSwitch
from .protocol import Pairs, read_pair

BAD_COMMAND: Final = "1"
BAD_PORT: Final = "2"
IN_USE: Final = "3"


class TwinOptions(BaseModel):
    """Behaviour of the twin where no manual documents real units."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    firmware: str = Field(default="1.0", description="what ID says of it")


class LumenTwin(SequentialTwin[str, TwinOptions]):
    """A twin of one unit; `mirror` is its optics, `faults` its faults."""

    protocol = "lines"
    options_type = TwinOptions

    @override
    def decoder(self) -> Callable[[bytes], Sequence[str]]:
        return LumenSwitch.decoder().feed

    @override
    def answer(self, command: str) -> tuple[bytes, float]:
        try:
            line, delay_s = self._do(command)
        except ProtocolError as error:
            line, delay_s = f"NO {BAD_COMMAND} {error}", 0.0
        return f"{line}\n".encode("ascii", errors="replace"), delay_s

    @override
    def another(self, command: str) -> bytes:
        return self.answer("ID")[0]

    def _do(self, line: str) -> tuple[str, float]:
        """The answer and the time until it is sent. Raises ProtocolError for an unknown command."""
        match line.split():
            case ["ID"]:
                return f"ID Lumen,LS-TWIN,0001,{self.options.firmware}", 0.0
            case ["SIZE"]:
                half = sum(end.side is Side.B for end in self.capabilities.ends)
                return f"SIZE {len(self.capabilities.ends) - half}x{half}", 0.0
            case ["MAP"]:
                return " ".join(["MAP", *(f"{a}>{b}" for a, b in numbers(self.mirror.crossconnects()))]), 0.0
            case ["SET", *words] if words:
                pairs = [(word[0], read_pair(word[1:])) for word in words]
                gone, made = [[pair for sign, pair in pairs if sign == wanted] for wanted in "-+"]
                if len(gone) + len(made) == len(words):
                    return self._change(gone, made)
        raise ProtocolError(f"{line[:40]!r} is not a command")

    def _change(self, remove: Pairs, add: Pairs) -> tuple[str, float]:
        now_ns = self.clock.monotonic_ns()
        try:
            gone, made = [[crossconnect(*pair) for pair in pairs] for pairs in (remove, add)]
            free = {end for pair in gone for end in pair.ends}
            for end in (end for pair in made for end in pair.ends):
                if end not in free and self.mirror.crossconnect_at(end) not in (None, *made):
                    return f"NO {IN_USE} {end} is in use", 0.0
            changes, denial = self.faults.take_change([*gone, *made])
            self.mirror.disconnect([pair for pair in gone if pair in changes], now_ns)
            settling = self.mirror.connect([pair for pair in made if pair in changes], now_ns, move=True)
        except (ConfigError, RefusedError) as error:
            return f"NO {BAD_PORT} {error}", 0.0
        if denial is not None:
            return f"NO {denial.code} {denial.text}", 0.0
        return "OK", settling.answer_s


TWIN: Final = TwinSpec(make=LumenTwin, options=TwinOptions, denial=Denial(code="3", text="told to say no"))
