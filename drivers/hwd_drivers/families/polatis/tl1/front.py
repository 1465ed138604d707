"""Tl1Front: the TL1 server of a Polatis unit, which also reports its events.

Behaviour that no source documents is an option in `TwinOptions`; its default is the most likely behaviour.
"""

import re
from collections.abc import Mapping
from typing import Final

from typing_extensions import override

from hwd_drivers.codecs.tl1 import encode_acknowledgement, stamp
from hwd_drivers.codecs.tl1_messages import AckCode, Acknowledgement, Alarm, Answer, Command
from hwd_drivers.codecs.tl1_words import unquote
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.unit_error import UnitError, Wrong
from hwd_drivers.core.values import Crossconnect, CrossconnectState
from hwd_drivers.families.polatis.alarms import PortAlarm
from hwd_drivers.families.polatis.settings import AlarmType
from hwd_drivers.families.polatis.tl1.commands import Commands
from hwd_drivers.families.polatis.unit import Unit
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.twins import tl1_session
from hwd_drivers.twins.server import TwinServer
from hwd_drivers.twins.tl1_session import Action, DenyError, Tl1Session

ALARM_WORDS: Final = {AlarmType.LOS: (Alarm.MAJOR, "MJ", "SA"), AlarmType.DEGRADED: (Alarm.MINOR, "MN", "NSA")}
"""Severity, notification code and effect on service of each alarm: no source documents those of real units."""

CODES: Final[Mapping[Wrong, str]] = {
    Wrong.PORT: "IIAC",
    Wrong.SIDE: "IIAC",
    Wrong.IN_USE: "SROF",
    Wrong.HARDWARE: "IICM",
    Wrong.VALUE: "IDRG",
    Wrong.NAME: "IIAC",
    Wrong.STATE: "SNVS",
    Wrong.FAULT: "SROF",
}
"""IIAC for a wrong port and IICM for missing hardware were seen; the others are general TL1 codes.

LIST is an option of the twin.
"""


class Tl1Front(tl1_session.Tl1Front[Unit]):
    """TL1 server of a unit."""

    def __init__(self, unit: Unit, *, dialer: Dialer, clock: Clock, address: str) -> None:
        super().__init__(unit, dialer=dialer, clock=clock, address=address, sessions_max=unit.options.sessions_max)
        self._reported: frozenset[Crossconnect] = frozenset()
        unit.alarms.subscribers.append(self._report_alarm)
        if unit.options.reports:
            unit.mirror.on_change.append(self._report_changes)

    @override
    def make_session(self, server: TwinServer) -> "_Session":
        return _Session(self.unit, server)

    def _report_alarm(self, alarm: PortAlarm) -> None:
        weight, code, effect = ALARM_WORDS[alarm.type]
        if not alarm.raised:
            weight, code = Alarm.NONE, "CL"
        day, _, time = stamp(self.clock.wall_ns()).partition(" ")
        light = "dark" if alarm.power_dbm is None else f"{alarm.power_dbm:.2f} dBm"
        line = f'{alarm.port}:{code},{alarm.type},{effect},{day[3:]},{time.replace(":", "-")},,,:"{light}"'
        self.report("REPT ALM PMON", line, alarm=weight)

    def _report_changes(self, now_ns: int) -> None:
        readings = self.unit.mirror.readings(now_ns)
        tuned = frozenset(each.crossconnect for each in readings if each.state is CrossconnectState.TUNED)
        changes = [(pair, "TUNED") for pair in tuned - self._reported] + [(p, "GONE") for p in self._reported - tuned]
        self._reported = tuned
        numbers = self.unit.numbers
        for pair, word in sorted(changes, key=lambda change: numbers[change[0].a]):
            one, other = numbers[pair.a], numbers[pair.b]
            self.report("REPT EVT PATCH", f'{one}:NA,{word},NSA,,,,,:"{one},{other}"')


class _Session(Tl1Session):
    """One client."""

    sid = "PolatisOXC"

    def __init__(self, unit: Unit, server: TwinServer) -> None:
        options = unit.options
        super().__init__(server, login_needed=options.login_needed, lines_per_block=options.lines_per_block)
        self._unit = unit
        self._options = options
        self._commands = Commands(unit)
        self._muted = False

    @property
    @override
    def hears(self) -> bool:
        return self.logged_in and not self._muted

    @override
    def denial(self, error: UnitError) -> DenyError:
        """Requests for missing hardware are denied with the code alone, as seen."""
        code = self._options.list_code if error.wrong is Wrong.LIST else error.code or CODES[error.wrong]
        return DenyError(code, "" if error.wrong is Wrong.HARDWARE else error.text)

    @override
    def answer(self, answer: Answer, delay_s: float) -> None:
        after_s = self._options.acknowledge_after_s
        if after_s is not None and delay_s + self.server.faults.slow_s > after_s and not self.server.faults.silent:
            self.send(encode_acknowledgement(Acknowledgement(ctag=answer.ctag, code=AckCode.IP)), delay_s=after_s)
        super().answer(answer, delay_s)

    @override
    def log_in(self, user: str, password: str) -> tuple[str, ...]:
        if not self._unit.takes(user, password):
            raise DenyError("PICC")
        return ()

    @override
    def action(self, command: Command) -> Action:
        aid = unquote(command.aid).upper()
        match command.verb:
            case "OPR-ARC-EQPT" if aid == "REPMGR":
                return self._mute
            case "OPR-ARC-EQPT":
                raise DenyError("IIAC")
            case "ED-EQPT":
                seconds = {name.upper(): value for name, value in command.named}.get("ADMIN", "")
                if aid != "TIMEOUT" or not SECONDS.fullmatch(seconds):
                    raise DenyError("IPNV")
                return lambda: self.end_after_idle(int(seconds))
        return self._commands.action(command)

    @override
    def execute(self, command: Command) -> tuple[tuple[str, ...], float]:
        lines, delay_s = super().execute(command)
        return self._commands.type_lines() if self.server.faults.take_wrong() else lines, delay_s

    def _mute(self) -> None:
        """No autonomous messages in this session."""
        self._muted = True


SECONDS: Final = re.compile(r"[0-9]{1,9}")
