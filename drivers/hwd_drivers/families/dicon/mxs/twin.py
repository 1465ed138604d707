"""The twin of a DiCon MXS-9100: its SCPI on the mirror model."""

import re
from typing import Any, Final, Literal

from pydantic import Field
from typing_extensions import override

from hwd_drivers.codecs.scpi import (
    DATA_TYPE_ERROR,
    EXECUTION_ERROR,
    OUT_OF_RANGE,
    SETTINGS_CONFLICT,
    ErrorQueue,
    ScpiError,
    expect,
)
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.values import Crossconnect, PortSide, Side
from hwd_drivers.devices.registry import Options
from hwd_drivers.families.dicon.mxs import protocol
from hwd_drivers.families.dicon.mxs.protocol import OPEN, QUEUE_LIMIT, Status
from hwd_drivers.twins.faults import Denial
from hwd_drivers.twins.registry import TwinSpec
from hwd_drivers.twins.scpi_server import Call, Done, Handler, ScpiDialect, ScpiSession, common
from hwd_drivers.twins.scpi_tree import ScpiTree
from hwd_drivers.twins.sequential import OneServerTwin
from hwd_drivers.twins.server import TwinServer

VERSION: Final = "1999.0"

_NUMBER = re.compile(r"[0-9]{1,5}")


class MxsTwinOptions(Options):
    """Behaviour of the twin that is not in the manual's pages that we have."""

    in_use: Literal["move", "deny"] = Field(default="move", description="what SCAN does with an output in use")
    saves: bool = Field(default=False, description="WEN at first: whether crossconnects are back after a power cut")
    answers: Literal["joined", "lines"] = Field(
        default="joined", description="answers to queries of one line: in one line, parted by ';', or each in its own"
    )


class MxsTwin(OneServerTwin[MxsTwinOptions]):
    """A twin of one unit; `switched` counts its changes."""

    protocol = "scpi"
    options_type = MxsTwinOptions

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.faults.restores = self.options.saves
        self.switched = 0
        self._inputs = [end for end in self.capabilities.ends if end.side is Side.A]
        self._outputs = [end for end in self.capabilities.ends if end.side is Side.B]
        self._identity = f"DiCon,MXS-9100-{len(self._inputs)}x{len(self._outputs)},{self.serial},TWIN"

    @override
    def session(self, server: TwinServer) -> ScpiSession:
        errors = ErrorQueue(limit=QUEUE_LIMIT)
        handlers: dict[str, Handler] = {
            **common(errors, identity=self._identity, reset=self._open_all),
            "ROUTe<n>:SCAN": self._scan,
            "ROUTe<n>:SCAN?": self._tell_output,
            "ROUTe<n>:SCAN:NEXT": self._next,
            "ROUTe<n>:OPEN": self._open,
            "ROUTe<n>:OPEN:STATe?": lambda call: Done(answer=str(int(self._output_of(self._input(call)) == OPEN))),
            "STATus?": lambda call: Done(answer=Status.READY if self.mirror.next_ns() is None else Status.BUSY),
            "SYSTem:VERSion?": lambda call: Done(answer=VERSION),
            "WEN": self._set_saves,
            "WEN?": lambda call: Done(answer=str(int(self.faults.restores))),
            "QCT?": lambda call: Done(answer=str(self.switched)),
        }
        dialect = ScpiDialect(end=protocol.LINE_END, joins=self.options.answers == "joined")
        return ScpiSession(server, tree=ScpiTree(handlers), errors=errors, dialect=dialect, elsewhere=self._identity)

    def _scan(self, call: Call) -> Done:
        near = self._input(call)
        expect(call.parameters, 1, 1)
        if not _NUMBER.fullmatch(call.parameters[0]):
            raise ScpiError(DATA_TYPE_ERROR)
        self._send(near, int(call.parameters[0]))
        return Done()

    def _tell_output(self, call: Call) -> Done:
        self.faults.end_change()
        return Done(answer=str(self._output_of(self._input(call))))

    def _next(self, call: Call) -> Done:
        """The output after the present one, and after the last one the first."""
        near = self._input(call)
        self._send(near, self._output_of(near) % len(self._outputs) + 1)
        return Done()

    def _open(self, call: Call) -> Done:
        self._send(self._input(call), OPEN)
        return Done()

    def _open_all(self) -> float:
        self.mirror.disconnect(self.mirror.crossconnects(), self.clock.monotonic_ns())
        return 0.0

    def _set_saves(self, call: Call) -> Done:
        expect(call.parameters, 1, 1)
        if call.parameters[0] not in ("0", "1"):
            raise ScpiError(OUT_OF_RANGE)
        self.faults.restores = call.parameters[0] == "1"
        return Done()

    def _send(self, near: PortSide, output: int) -> None:
        """Connect an input to an output, or to none."""
        if output > len(self._outputs):
            raise ScpiError(OUT_OF_RANGE, f"output {output}")
        present = self.mirror.crossconnect_at(near)
        wanted = None if output == OPEN else Crossconnect.of(near, self._outputs[output - 1])
        doing, denial = self.faults.take_step((near, wanted))
        if doing:
            self._move(present, wanted)
        if denial is not None:
            code = int(denial.code) if re.fullmatch(r"[+-]?[0-9]{1,6}", denial.code) else EXECUTION_ERROR
            raise ScpiError(code, denial.text)

    def _move(self, present: Crossconnect | None, wanted: Crossconnect | None) -> None:
        now_ns = self.clock.monotonic_ns()
        self.switched += 1
        if wanted is None:
            self.mirror.disconnect([present] if present is not None else [], now_ns)
            return
        taken = self.mirror.crossconnect_at(wanted.b)
        if self.options.in_use == "deny" and taken not in (None, present):
            raise ScpiError(SETTINGS_CONFLICT, f"output {wanted.b.port} is in use")
        try:
            self.mirror.connect([wanted], now_ns, move=True)
        except RefusedError as error:
            raise ScpiError(SETTINGS_CONFLICT, str(error)) from error

    def _input(self, call: Call) -> PortSide:
        number = call.numbers[0]
        if not 1 <= number <= len(self._inputs):
            raise ScpiError(OUT_OF_RANGE, f"input {number}")
        return self._inputs[number - 1]

    def _output_of(self, near: PortSide) -> int:
        pair = self.mirror.crossconnect_at(near)
        return OPEN if pair is None else int(pair.b.port)


TWIN: Final = TwinSpec(make=MxsTwin, options=MxsTwinOptions, denial=Denial(code="-200", text="told to say no"))
