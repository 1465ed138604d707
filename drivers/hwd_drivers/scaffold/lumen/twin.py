"""The twin: the same lines on the mirror model."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from pydantic import Field
from typing_extensions import override

from hwd_drivers.core.errors import ConfigError, ProtocolError, RefusedError
from hwd_drivers.core.values import Crossconnect, Identity, PortSide, Side
from hwd_drivers.devices.registry import Options
from hwd_drivers.twins.faults import Denial
from hwd_drivers.twins.registry import TwinSpec
from hwd_drivers.twins.sequential import SequentialTwin

from .protocol import (
    Answer,
    Change,
    Done,
    Map,
    Query,
    Refusal,
    Size,
    encode_answer,
    line_decoder,
    parse_request,
)

BAD_COMMAND: Final = "1"
BAD_PORT: Final = "2"
IN_USE: Final = "3"


class TwinOptions(Options):
    """Behaviour of the twin where no manual documents real units."""

    firmware: str = Field(default="1.0", description="what ID says of it")


class LumenTwin(SequentialTwin[str, TwinOptions]):
    """A twin of one unit; `mirror` is its optics, `faults` its faults. It does one command after the other."""

    protocol = "lines"
    options_type = TwinOptions

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.outputs = sum(end.side is Side.B for end in self.capabilities.ends)
        self.inputs = len(self.capabilities.ends) - self.outputs

    @override
    def decoder(self) -> Callable[[bytes], Sequence[str]]:
        return line_decoder().feed

    @override
    def answer(self, command: str) -> tuple[bytes, float]:
        answer, delay_s = self._do(command)
        return encode_answer(answer), delay_s

    @override
    def another(self, command: str) -> bytes:
        return self.answer("ID")[0]

    def _do(self, line: str) -> tuple[Answer, float]:
        """The answer and the time until it is sent."""
        try:
            request = parse_request(line)
        except ProtocolError as error:
            return Refusal(code=BAD_COMMAND, text=str(error)), 0.0
        match request:
            case Query.IDENTITY:
                firmware = self.options.firmware
                return Identity(vendor="Lumen", model="LS-TWIN", serial="0001", firmware=firmware), 0.0
            case Query.SIZE:
                return Size(inputs=self.inputs, outputs=self.outputs), 0.0
            case Query.MAP:
                pairs = self.mirror.crossconnects()
                return Map(pairs=tuple((int(pair.a.port), int(pair.b.port)) for pair in pairs)), 0.0
            case Change(remove=remove, add=add):
                return self._change(remove, add)

    def _change(self, remove: tuple[tuple[int, int], ...], add: tuple[tuple[int, int], ...]) -> tuple[Answer, float]:
        mirror, now_ns = self.mirror, self.clock.monotonic_ns()
        try:
            gone, made = [list(map(_crossconnect, pairs)) for pairs in (remove, add)]
            free = {end for pair in gone for end in pair.ends}
            for end in (end for pair in made for end in pair.ends):
                if end not in free and mirror.crossconnect_at(end) not in (None, *made):
                    return Refusal(code=IN_USE, text=f"{end} is in use"), 0.0
            changes, denial = self.faults.take_change([*gone, *made])
            mirror.disconnect([pair for pair in gone if pair in changes], now_ns)
            settling = mirror.connect([pair for pair in made if pair in changes], now_ns, move=True)
        except (ConfigError, RefusedError) as error:
            return Refusal(code=BAD_PORT, text=str(error)), 0.0
        if denial is not None:
            return Refusal(code=denial.code, text=denial.text), 0.0
        return Done(), settling.answer_s


def _crossconnect(pair: tuple[int, int]) -> Crossconnect:
    return Crossconnect.of(PortSide(port=str(pair[0]), side=Side.A), PortSide(port=str(pair[1]), side=Side.B))


TWIN: Final = TwinSpec(make=LumenTwin, options=TwinOptions, denial=Denial(code="3", text="told to say no"))
