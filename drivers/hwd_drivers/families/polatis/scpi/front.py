"""ScpiFront: the SCPI server of a Polatis unit."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from typing_extensions import override

from hwd_drivers.codecs.scpi import (
    DATA_TYPE_ERROR,
    EXECUTION_ERROR,
    HARDWARE_MISSING,
    ILLEGAL_VALUE,
    MISSING_PARAMETER,
    OUT_OF_RANGE,
    SETTINGS_CONFLICT,
    TOO_MUCH_DATA,
    ErrorQueue,
    ScpiError,
    expect,
    format_string,
    parse_channels,
)
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.unit_error import UnitError, Wrong
from hwd_drivers.families.polatis.scpi import protocol
from hwd_drivers.families.polatis.unit import BootMode, PortState, Unit
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.transports.serial_line import PREFIX
from hwd_drivers.twins.scpi_server import Call, Done, Handler, ScpiDialect, ScpiSession, common
from hwd_drivers.twins.scpi_tree import ScpiTree
from hwd_drivers.twins.server import TwinServer
from hwd_drivers.twins.unit_twin import Front

QUEUE_LIMIT: Final = 16
"""Size of the error queue: no source documents it."""
CODES: Final = {
    Wrong.PORT: OUT_OF_RANGE,
    Wrong.SIDE: OUT_OF_RANGE,
    Wrong.LIST: OUT_OF_RANGE,
    Wrong.IN_USE: SETTINGS_CONFLICT,
    Wrong.HARDWARE: HARDWARE_MISSING,
    Wrong.VALUE: OUT_OF_RANGE,
    Wrong.NAME: ILLEGAL_VALUE,
    Wrong.STATE: SETTINGS_CONFLICT,
    Wrong.FAULT: EXECUTION_ERROR,
}
"""Codes of the standard, since no source documents those of real units."""
STATES: Final = {PortState.ENABLED: "E", PortState.DISABLED: "D", PortState.FAILED: "F"}
ADDRESS: Final = 'IP="127.0.0.1" Gateway="0.0.0.0" Mask="255.0.0.0" Broadcast="127.255.255.255"'
ENDS: Final = {"crlf": "\r\n", "lf": "\n", "cr": "\r"}

_NUMBER = re.compile(r"[0-9]{1,9}")


class ScpiFront(Front[Unit]):
    """SCPI server of a unit."""

    def __init__(self, unit: Unit, *, dialer: Dialer, clock: Clock, address: str) -> None:
        super().__init__(unit, dialer=dialer, clock=clock, address=address, sessions_max=unit.options.sessions_max)
        self._serial = address.startswith(PREFIX)
        self._shared = ErrorQueue(limit=QUEUE_LIMIT)

    @override
    def make_session(self, server: TwinServer) -> ScpiSession:
        options = self.unit.options
        errors = self._shared if options.scpi_errors == "unit" else ErrorQueue(limit=QUEUE_LIMIT)
        product = self.unit.product
        identity = f"{product.vendor},{product.model},{product.serial},{product.firmware}"
        handlers = {header: _with_refusals(handler) for header, handler in Commands(self.unit).table().items()}
        return ScpiSession(
            server,
            tree=ScpiTree({**common(errors, identity=identity, reset=lambda: self.unit.disconnect(None)), **handlers}),
            errors=errors,
            dialect=ScpiDialect(
                end=ENDS[options.scpi_line_end or ("cr" if self._serial else "crlf")],
                joins=options.scpi_answers == "joined",
                drops_line=options.scpi_after_error == "drops-line",
            ),
            elsewhere=identity,
        )


class Commands:
    """The handlers of a unit's commands, by header."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit

    def table(self) -> dict[str, Handler]:
        unit = self._unit
        return {
            "OXC:SWITch:SIZE?": lambda call: Done(answer=f"{unit.numbering.inputs},{unit.numbering.outputs}"),
            "OXC:SWITch:CONNect:ADD": lambda call: Done(busy_s=unit.connect(_pairs(call))),
            "OXC:SWITch:CONNect:ONLY": lambda call: Done(busy_s=unit.connect_only(_pairs(call))),
            "OXC:SWITch:CONNect:SUBtract": self._subtract,
            "OXC:SWITch:CONNect:STATe?": lambda call: Done(answer=protocol.format_pairs(unit.pairs())),
            "OXC:SWITch:CONNect:PORT?": self._peer,
            "OXC:SWITch:DISConnect:ALL": lambda call: Done(busy_s=unit.disconnect(None)),
            "OXC:SWITch:PORT:ENABle": self._on_ports(unit.enable),
            "OXC:SWITch:PORT:DISable": self._on_ports(unit.disable),
            "OXC:SWITch:PORT:STATe?": self._states,
            "OXC:BOOT:MODE": self._set_boot,
            "OXC:BOOT:MODE?": lambda call: Done(answer=unit.boot),
            "PMON:POWer?": self._powers,
            "SYSTem:COMMunicate:NETWork:ADDRess?": lambda call: Done(answer=ADDRESS),
        }

    def _subtract(self, call: Call) -> Done:
        """Remove pairs, or the crossconnects of ports: `(@1,2),(@)`."""
        expect(call.parameters, 1, 2)
        ones, others = (parse_channels(text) for text in (*call.parameters, "(@)")[:2])
        if not others:
            return Done(busy_s=self._unit.disconnect(ones))
        return Done(busy_s=self._unit.disconnect_pairs(_zip(ones, others)))

    def _peer(self, call: Call) -> Done:
        expect(call.parameters, 1, 1)
        if not _NUMBER.fullmatch(call.parameters[0]):
            raise ScpiError(DATA_TYPE_ERROR)
        peer = self._unit.peer(int(call.parameters[0]))
        return Done(answer=format_string("" if peer is None else str(peer)))

    def _on_ports(self, do: Callable[[Sequence[int]], None]) -> Handler:
        def handler(call: Call) -> Done:
            expect(call.parameters, 1, 1)
            do(parse_channels(call.parameters[0]))
            return Done()

        return handler

    def _states(self, call: Call) -> Done:
        expect(call.parameters, 0, 1)
        all_ports = range(1, self._unit.numbering.total + 1)
        ports = parse_channels(call.parameters[0]) if call.parameters else all_ports
        return Done(answer=f"({','.join(STATES[self._unit.state(port)] for port in ports)})")

    def _set_boot(self, call: Call) -> Done:
        expect(call.parameters, 1, 1)
        word = call.parameters[0].upper()
        mode = next((each for each in BootMode if word.startswith(each)), None)
        if mode is None:
            raise ScpiError(ILLEGAL_VALUE, "DARK, REST or AUT")
        self._unit.boot = mode
        return Done()

    def _powers(self, call: Call) -> Done:
        expect(call.parameters, 0, 1)
        ports = parse_channels(call.parameters[0]) if call.parameters else sorted(self._unit.monitors.ports)
        if len(ports) > protocol.POWERS_LIMIT:
            raise ScpiError(TOO_MUCH_DATA, f"{len(ports)} ports, limit {protocol.POWERS_LIMIT}")
        dark_dbm = self._unit.options.dark_dbm
        powers = (dark_dbm if power is None else max(power, dark_dbm) for _, power in self._unit.powers(ports))
        return Done(answer=f"({','.join(f'{power:.2f}' for power in powers)})")


def _pairs(call: Call) -> list[tuple[int, int]]:
    expect(call.parameters, 2, 2)
    return _zip(*map(parse_channels, call.parameters))


def _zip(ones: Sequence[int], others: Sequence[int]) -> list[tuple[int, int]]:
    if len(ones) != len(others):
        raise ScpiError(MISSING_PARAMETER, f"lists of {len(ones)} and {len(others)} ports")
    return list(zip(ones, others, strict=True))


def _with_refusals(handler: Handler) -> Handler:
    """The handler with the unit's refusal as an error of the queue."""

    def said(call: Call) -> Done:
        try:
            return handler(call)
        except UnitError as error:
            code = CODES[error.wrong]
            if re.fullmatch(r"[+-]?[0-9]{1,6}", error.code):
                raise ScpiError(int(error.code), error.text) from error
            raise ScpiError(code, f"{error.code} {error.text}".strip()) from error

    return said
