"""Tl1Front: the TL1 server of a Calient unit.

Behaviour that no source documents is an option in `TwinOptions`; its default is the most likely behaviour.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from typing_extensions import override

from hwd_drivers.codecs.tl1 import (
    CommandDecoder,
    CtagError,
    ctag_of,
    encode_answer,
    encode_autonomous,
    parse_command,
    stamp,
)
from hwd_drivers.codecs.tl1_messages import Alarm, Answer, Autonomous, Command, Completion
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.values import Side
from hwd_drivers.families.calient.ports import identifier
from hwd_drivers.families.calient.tl1 import lines, protocol
from hwd_drivers.families.calient.unit import FIRMWARE, Change, Connection, Unit, UnitError, Wish, Wrong
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.twins.server import TwinServer, TwinSession

SID: Final = "CALIENT01TS"
NOTICE: Final = "NOTICE This is a simulated device of a laboratory. Its use may lead to results."
LOGIN_LEVEL: Final = 2

CODES: Final[Mapping[Wrong, str]] = {
    Wrong.PORT: "IIAC",
    Wrong.NAME: "IIAC",
    Wrong.STATE: "SNVS",
    Wrong.VALUE: "IPNV",
    Wrong.FAULT: "SROF",
}
"""General TL1 codes: no source has those of a real unit, only the texts. IN_USE is an option of the twin."""

REPORTS: Final[Mapping[Change, tuple[Alarm, str, str]]] = {
    "in-service": (Alarm.NONE, "REPT EVT CRS", "NA,INSERVICE,NSA"),
    "gone": (Alarm.NONE, "REPT EVT CRS", "NA,DELETED,NSA"),
    "failed": (Alarm.MINOR, "REPT ALM CRS", "MN,CONNFAIL,SA"),
}

log = logging.getLogger(__name__)


class Tl1Front:
    """TL1 server of a unit."""

    def __init__(self, unit: Unit, *, dialer: Dialer, clock: Clock, address: str) -> None:
        self.unit = unit
        self._clock = clock
        self._server = TwinServer(
            mirror=unit.mirror,
            clock=clock,
            dialer=dialer,
            address=address,
            make_session=lambda server: _Session(self, server),
            faults=unit.faults,
            sessions_max=unit.options.sessions_max,
        )
        self._reports = 0
        if unit.options.reports:
            unit.on_connection.append(self._report_change)

    @property
    def sessions(self) -> int:
        """The number of present sessions."""
        return len(self._server.sessions)

    async def start(self) -> str:
        return await self._server.start()

    async def close(self) -> None:
        await self._server.close()

    def report(self, verb: str, *data: str, alarm: Alarm = Alarm.NONE) -> None:
        """Send an autonomous message to every session that is logged in."""
        self._reports += 1
        at = stamp(self._clock.wall_ns())
        message = Autonomous(alarm=alarm, atag=str(self._reports), verb=verb, lines=data, sid=SID, stamp=at)
        for session in self._server.sessions:
            if isinstance(session, _Session) and session.logged_in:
                session.send(encode_autonomous(message))

    def _report_change(self, connection: Connection, change: Change) -> None:
        alarm, verb, words = REPORTS[change]
        self.report(verb, f"{connection.name}:{words}", alarm=alarm)


class _Session(TwinSession):
    """One TL1 session. Commands are executed as they come; each answer has its own delay, and a prompt after it."""

    def __init__(self, front: Tl1Front, server: TwinServer) -> None:
        super().__init__(server)
        self.logged_in = not front.unit.options.login_needed
        self._unit = front.unit
        self._options = front.unit.options
        self._decoder = CommandDecoder()
        self._user = ""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.end_after_idle(self._options.idle_s or 0.0)
        self.send(f"\r\n{protocol.PROMPT}".encode())

    @override
    def refuse(self) -> None:
        self.send(b"\r\nToo many sessions\r\n")

    @override
    def data_received(self, data: bytes) -> None:
        self.note_input()
        try:
            texts = self._decoder.feed(data)
        except ProtocolError as error:
            log.warning("twin %s: %s; ending the session", self._unit.name, error)
            self.abort()
            return
        for text in filter(None, texts):
            self._take(text)

    def _take(self, text: str) -> None:
        try:
            command = parse_command(text)
        except CtagError:
            self._deny("0", protocol.DenyError("IICT", "Invalid Correlation Tag"))
            return
        except ProtocolError:
            self._deny(ctag_of(text), protocol.DenyError("IICM", "Invalid Command"))
            return
        ctag = command.ctag or "0"
        try:
            data, comments, delay_s = self._do(command)
        except protocol.DenyError as denial:
            self._deny(ctag, denial)
        except UnitError as error:
            self._deny(ctag, protocol.DenyError(self._code(error), error.text))
        else:
            self._answer(Answer(ctag=ctag, code=Completion.COMPLD, lines=data, comments=comments), delay_s)

    def _do(self, command: Command) -> tuple[tuple[str, ...], tuple[str, ...], float]:
        """Data lines, comments and the time until they are sent."""
        if command.tid and command.tid != SID:
            raise protocol.DenyError("IITA", "Invalid Target Identifier")
        request = protocol.from_command(command)
        if isinstance(request, protocol.Login):
            return self._log_in(request.user, request.password), (NOTICE,), 0.0
        if not self.logged_in:
            raise protocol.DenyError("PLNA", "Login Not Active")
        unit = self._unit
        match request:
            case protocol.RetrieveConnections(which=which):
                unit.faults.end_change()
                wanted = None if which is None else self._find(which)
                return lines.write_connections(self._connection_lines(wanted)), (), 0.0
            case protocol.RetrievePorts(name=name):
                return lines.write_ports(self._port_lines(name)), (), 0.0
            case protocol.RetrieveSummary(name=name):
                return lines.write_summary(self._summary_lines(name)), (), 0.0
            case protocol.RetrieveElement():
                element = lines.Element(serial=unit.serial, firmware=FIRMWARE, chassis=unit.model)
                return lines.write_element(element, SID), (), 0.0
            case protocol.Logout():
                self.logged_in = False
            case protocol.Ping():
                pass
            case _:
                return (), (), self._change(request)
        return (), (), 0.0

    def _change(self, request: protocol.Request) -> float:
        unit = self._unit
        todo, denial = self.server.faults.take_step(self._pair(request))
        if denial is not None:
            raise protocol.DenyError(denial.code, denial.text)
        match request:
            case _ if not todo:  # acknowledged without effect
                pass
            case protocol.EnterConnection():
                wish = Wish(
                    source=request.source,
                    destination=request.destination,
                    two_way=request.two_way,
                    group=request.group,
                    name=request.name,
                )
                unit.enter(wish, activate=self._options.steps == "one")
            case protocol.ActivateConnection(which=which):
                return unit.activate([self._find(which)])
            case protocol.CancelConnection(which=which):
                return unit.deactivate(self._find(which))
            case protocol.DeleteConnection(which=which):
                connection = self._find(which)
                if connection.active and self._options.delete_active == "deny":
                    raise protocol.DenyError("SNVS", f"{connection.name} is active")
                return unit.delete([connection])
            case protocol.DeleteAll():
                return unit.delete(unit.connections())
        return 0.0

    def _pair(self, request: protocol.Request) -> str:
        """The name of the connection that a command concerns, present or future; empty where it concerns all."""
        match request:
            case protocol.EnterConnection():
                return request.name or identifier(request.source, request.destination, two_way=request.two_way)
            case (
                protocol.ActivateConnection(which=which)
                | protocol.CancelConnection(which=which)
                | protocol.DeleteConnection(which=which)
            ):
                return which.name or f"{which.source}>{which.destination}"
            case _:
                return ""

    def _find(self, which: protocol.NamedConnection) -> Connection:
        return self._unit.find(which.name) if which.name else self._unit.between(which.source, which.destination)

    def _log_in(self, user: str, password: str) -> tuple[str, ...]:
        if not self._unit.takes(user, password):
            raise protocol.DenyError(self._options.login_code, "Login incorrect")
        if self._user == user and self._options.again_code is not None:
            raise protocol.DenyError(self._options.again_code, "Already logged in")
        self.logged_in = True
        self._user = user
        return (f"{user}:{user},{LOGIN_LEVEL}",)

    def _connection_lines(self, wanted: Connection | None) -> list[lines.ConnectionLine]:
        """Lines of one connection, or of all."""
        names = self._unit.ports.names
        return [
            lines.ConnectionLine(
                name=connection.name,
                group=connection.group,
                source=names[connection.source - 1],
                destination=names[connection.destination - 1],
                two_way=connection.two_way,
                admin=states.admin,
                operation=states.operation,
                capability=states.capability,
            )
            for connection, states in self._unit.states()
            if wanted is None or connection is wanted
        ]

    def _port_lines(self, name: str | None) -> list[lines.PortLine]:
        held = {end for each in self._unit.connections() if each.active for path in each.paths for end in path.ends}
        used = {(int(end.port), end.side) for end in held}
        return [
            lines.PortLine(port=port, in_used=(number, Side.A) in used, out_used=(number, Side.B) in used)
            for port, number in self._asked(name)
        ]

    def _summary_lines(self, name: str | None) -> list[lines.SummaryLine]:
        unit = self._unit
        by_end = {
            (int(end.port), end.side): (each.name, each.active)
            for each in unit.connections()
            for path in each.paths
            for end in path.ends
        }
        return [
            lines.SummaryLine(
                port=port,
                alias=unit.aliases.get((number, Side.A)),
                in_dbm=unit.power(number, Side.A),
                out_dbm=unit.power(number, Side.B),
                connections=_held(by_end.get((number, Side.A)), by_end.get((number, Side.B))),
            )
            for port, number in self._asked(name)
        ]

    def _asked(self, name: str | None) -> list[tuple[str, int]]:
        """One port, those of a module (`1.1`) or a shelf (`1`), or all."""
        numbered = list(zip(self._unit.ports.names, range(1, len(self._unit.ports.names) + 1), strict=True))
        if name is None:
            return numbered
        asked = [(port, number) for port, number in numbered if port == name or port.startswith(f"{name}.")]
        if not asked:
            raise UnitError(Wrong.PORT, f"Invalid Port - {name[:32]}")
        return asked

    def _code(self, error: UnitError) -> str:
        return error.code or (self._options.in_use_code if error.wrong is Wrong.IN_USE else CODES[error.wrong])

    def _deny(self, ctag: str, denial: protocol.DenyError) -> None:
        comments = (denial.text.replace("*/", "").replace(";", ","),) if denial.text else ()
        self._answer(Answer(ctag=ctag, code=Completion.DENY, error=denial.code, comments=comments), 0.0)

    def _answer(self, answer: Answer, delay_s: float) -> None:
        at = stamp(self.server.clock.wall_ns() + round(delay_s * 1e9))
        whole = replace(answer, sid=SID, stamp=at)
        if self.server.faults.take_wrong():
            whole = replace(whole, code=Completion.COMPLD, error="", lines=lines.write_element(WRONG, SID), comments=())
        data = encode_answer(whole, lines_per_block=self._options.lines_per_block)
        self.reply(data + protocol.PROMPT.encode(), delay_s=delay_s)


WRONG: Final = lines.Element(serial="C00000000", firmware=FIRMWARE, chassis="S000")
"""The answer for the fault `wrong_next`."""


def _held(
    first: tuple[str, bool] | None, second: tuple[str, bool] | None
) -> tuple[tuple[str, bool] | None, tuple[str, bool] | None]:
    """Report a connection of both fibres once."""
    return (second, None) if first is None else (first, None if first == second else second)
