"""Tl1Front: the TL1 server of a Calient unit.

Behaviour that no source documents is an option in `TwinOptions`; its default is the most likely behaviour. Verbs as in
published programs for real units (README.md names each), data lines as in captured answers of a real unit.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from typing_extensions import override

from hwd_drivers.codecs.tl1_messages import Alarm, Answer, Command, Completion
from hwd_drivers.codecs.tl1_words import unquote
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.unit_error import UnitError, Wrong
from hwd_drivers.core.values import Side
from hwd_drivers.families.calient.ports import identifier
from hwd_drivers.families.calient.tl1.protocol import PROMPT
from hwd_drivers.families.calient.unit import FIRMWARE, Change, Connection, States, Unit, Wish
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.twins import tl1_session
from hwd_drivers.twins.server import TwinServer
from hwd_drivers.twins.tl1_session import Action, DenyError, Tl1Session

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


class Tl1Front(tl1_session.Tl1Front[Unit]):
    """TL1 server of a unit."""

    def __init__(self, unit: Unit, *, dialer: Dialer, clock: Clock, address: str) -> None:
        super().__init__(unit, dialer=dialer, clock=clock, address=address, sessions_max=unit.options.sessions_max)
        if unit.options.reports:
            unit.on_connection.append(self._report_change)

    @override
    def make_session(self, server: TwinServer) -> "_Session":
        return _Session(self.unit, server)

    def _report_change(self, connection: Connection, change: Change) -> None:
        alarm, verb, words = REPORTS[change]
        self.report(verb, f"{connection.name}:{words}", alarm=alarm)


class _Session(Tl1Session):
    """One client, with a prompt after each answer."""

    sid = "CALIENT01TS"
    prompt = PROMPT
    wrong_ctag = "Invalid Correlation Tag"
    wrong_command = "Invalid Command"
    wrong_target = "Invalid Target Identifier"
    no_login = "Login Not Active"
    notice = (NOTICE,)

    def __init__(self, unit: Unit, server: TwinServer) -> None:
        options = unit.options
        super().__init__(server, login_needed=options.login_needed, lines_per_block=options.lines_per_block)
        self._unit = unit
        self._options = options
        self._user = ""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.end_after_idle(self._options.idle_s or 0.0)
        self.send(f"\r\n{PROMPT}".encode())

    @override
    def refuse(self) -> None:
        self.send(b"\r\nToo many sessions\r\n")

    @override
    def data_received(self, data: bytes) -> None:
        self.note_input()
        super().data_received(data)

    @override
    def denial(self, error: UnitError) -> DenyError:
        in_use = error.wrong is Wrong.IN_USE
        return DenyError(error.code or (self._options.in_use_code if in_use else CODES[error.wrong]), error.text)

    @override
    def answer(self, answer: Answer, delay_s: float) -> None:
        if self.server.faults.take_wrong():
            lines = _element_lines(serial="C00000000", chassis="S000")
            answer = replace(answer, code=Completion.COMPLD, error="", lines=lines, comments=())
        super().answer(answer, delay_s)

    @override
    def action(self, command: Command) -> Action:
        unit, aid = self._unit, unquote(command.aid)
        match command.verb:
            case "RTRV-NE":
                return lambda: _element_lines(serial=unit.serial, chassis=unit.model)
            case "RTRV-PORT":
                return partial(self._port_lines, aid)
            case "RTRV-PORT-SUM":
                return partial(self._summary_lines, aid)
            case "RTRV-CRS":
                return partial(self._connections, *_wanted(command))
            case "ENT-CRS":
                return self._enter(_wish(command))
            case "ACT-CRS":
                return self._change(command, lambda connection: unit.activate([connection]))
            case "CANC-CRS":
                return self._change(command, unit.deactivate)
            case "DLT-CRS":
                return self._change(command, self._delete)
            case "DLT-CRS-ALL":
                return partial(self._step, "", lambda: unit.delete(unit.connections()))
        raise DenyError("IICM")

    @override
    def log_in(self, user: str, password: str) -> tuple[str, ...]:
        if not self._unit.takes(user, password):
            raise DenyError(self._options.login_code, "Login incorrect")
        if self._user == user and self._options.again_code is not None:
            raise DenyError(self._options.again_code, "Already logged in")
        self._user = user
        return (f"{user}:{user},{LOGIN_LEVEL}",)

    # --- changes

    def _step(self, pair: str, do: Callable[[], float | None]) -> float:
        """Do a command that concerns one connection, present or future, as far as the faults allow; empty: all."""
        todo, denial = self.server.faults.take_step(pair)
        if denial is not None:
            raise DenyError(denial.code, denial.text)
        return (do() if todo else None) or 0.0

    def _enter(self, wish: Wish) -> Action:
        def enter() -> None:
            self._unit.enter(wish, activate=self._options.steps == "one")

        return partial(self._step, wish.name or identifier(wish.source, wish.destination, two_way=wish.two_way), enter)

    def _change(self, command: Command, do: Callable[[Connection], float]) -> Action:
        """A change of the connection that a command names.

        ACT-CRS has `name,group`, the others `,group,name` or the name; all accept the name alone in the block before.
        """
        source, destination = _ports(command)
        words = command.positional
        name = words[2] if len(words) >= 3 and not words[0] else (*words, "")[0]
        name = name or unquote(command.general)
        if not name and not (source and destination):
            raise DenyError("IIAC", "Invalid AID - a connection is needed")
        return partial(self._step, name or f"{source}>{destination}", lambda: do(self._find(name, source, destination)))

    def _delete(self, connection: Connection) -> float:
        if connection.active and self._options.delete_active == "deny":
            raise DenyError("SNVS", f"{connection.name} is active")
        return self._unit.delete([connection])

    def _find(self, name: str, source: str, destination: str) -> Connection:
        return self._unit.find(name) if name else self._unit.between(source, destination)

    # --- data lines

    def _connections(self, name: str, source: str, destination: str) -> tuple[str, ...]:
        """Lines of one connection, or of all."""
        unit = self._unit
        unit.faults.end_change()
        wanted = self._find(name, source, destination) if name or source or destination else None
        return tuple(self._line(one, states) for one, states in unit.states() if wanted is None or one is wanted)

    def _line(self, one: Connection, states: States) -> str:
        names = self._unit.ports.names
        failed = states.capability == "FAIL" and states.admin == "IS"
        return (
            f"{self._unit.identifier(one)}:SRCPORT={names[one.source - 1]},DSTPORT={names[one.destination - 1]},"
            f"GRPNAME={one.group},CONNNAME={one.name},CONNTYPE={'2WAY' if one.two_way else '1WAY'},"
            f"AS={states.admin},OS={states.operation},OC={states.capability},PS=UPR,AL={'MN' if failed else 'CL'}"
        )

    def _port_lines(self, aid: str) -> tuple[str, ...]:
        held = {end for each in self._unit.connections() if each.active for path in each.paths for end in path.ends}
        used = {(int(end.port), end.side) for end in held}
        return tuple(
            _port_line(port, in_used=(number, Side.A) in used, out_used=(number, Side.B) in used)
            for port, number in self._asked(aid)
        )

    def _summary_lines(self, aid: str) -> tuple[str, ...]:
        unit = self._unit
        by_end = {
            (int(end.port), end.side): each for each in unit.connections() for path in each.paths for end in path.ends
        }
        lines = []
        for port, number in self._asked(aid):
            in_dbm, out_dbm = unit.power(number, Side.A), unit.power(number, Side.B)
            held = dict.fromkeys(filter(None, (by_end.get((number, side)) for side in (Side.A, Side.B))))
            lines.append(
                f"{port}:ALIAS={unit.aliases.get((number, Side.A)) or 'NONE'},"
                f"INPWR={_write_power(in_dbm)},OUTPWR={_write_power(out_dbm)},"
                + ",".join(
                    f"CONNNAME{place}={one.name if one else 'NONE'},"
                    f"CONNSTATE{place}={'ACT' if one and one.active else 'NONE'}"
                    for place, one in enumerate((*held, None, None)[:2], start=1)
                )
            )
        return tuple(lines)

    def _asked(self, aid: str) -> list[tuple[str, int]]:
        """One port, those of a module (`1.1`) or a shelf (`1`), or all."""
        numbered = list(zip(self._unit.ports.names, range(1, len(self._unit.ports.names) + 1), strict=True))
        if aid in ("", "0"):
            return numbered
        asked = [(port, number) for port, number in numbered if port == aid or port.startswith(f"{aid}.")]
        if not asked:
            raise UnitError(Wrong.PORT, f"Invalid Port - {aid[:32]}")
        return asked


_OWNER: Final = {True: "TRANSIT", False: "NONE"}


def _ports(command: Command) -> tuple[str, str]:
    source, _, destination = unquote(command.aid).partition(",")
    return source.strip(), destination.strip()


def _wish(command: Command) -> Wish:
    source, destination = _ports(command)
    if not source or not destination:
        raise DenyError("IIAC", "Invalid AID - source and destination port are needed")
    group, kind, name = (*command.positional, "", "", "")[:3]
    if kind.upper() not in ("1WAY", "2WAY"):
        raise DenyError("IPNV", "Invalid Parameter - 1WAY or 2WAY is needed")
    return Wish(source=source, destination=destination, two_way=kind.upper() == "2WAY", group=group, name=name)


def _wanted(command: Command) -> tuple[str, str, str]:
    """Name, source and destination of the connection that RTRV-CRS asks for; all are empty for all connections.

    The name is alone or after an empty word. `ALL`, a comma alone and an empty block: all connections.
    """
    name = next((word for word in reversed(command.positional) if word), unquote(command.general))
    return ("", "", "") if name.upper() == "ALL" else (name, *_ports(command))


def _element_lines(*, serial: str, chassis: str) -> tuple[str, ...]:
    return (
        f"{_Session.sid}:SERIALNUMBER={serial},SWPACKAGE={FIRMWARE},STATUS=OK,CHASSISTYPE={chassis},PLATFORM=VERSION2",
    )


def _port_line(port: str, *, in_used: bool, out_used: bool) -> str:
    return f"{port}:WX,{_OWNER[in_used]},{_OWNER[out_used]}:{_states('IN', in_used)},{_states('OUT', out_used)}"


def _states(side: str, used: bool) -> str:
    return f"{side}AS={'IS' if used else 'OOS-NP'},{side}OS={'IS' if used else 'OOS'},{side}OC=OK,{side}RS=NPR"


def _write_power(power_dbm: float | None) -> str:
    return "NONE" if power_dbm is None else f"{power_dbm:.1f}"
