"""Tl1Front: the TL1 server of a Polatis unit, which also reports its events.

Behaviour that no source documents is an option in `TwinOptions`; its default is the most likely behaviour.
"""

from typing import Final

from hwd_drivers.codecs.tl1 import encode_autonomous, stamp
from hwd_drivers.codecs.tl1_messages import Alarm, Autonomous
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.values import Crossconnect, CrossconnectState
from hwd_drivers.families.polatis.alarms import PortAlarm
from hwd_drivers.families.polatis.settings import AlarmType
from hwd_drivers.families.polatis.tl1.session import SID, Tl1Session
from hwd_drivers.families.polatis.unit import Unit
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.twins.server import TwinServer

ALARM_WORDS: Final = {AlarmType.LOS: (Alarm.MAJOR, "MJ", "SA"), AlarmType.DEGRADED: (Alarm.MINOR, "MN", "NSA")}
"""Severity, notification code and effect on service of each alarm: no source documents those of real units."""


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
            make_session=lambda server: Tl1Session(unit, server),
            faults=unit.faults,
            sessions_max=unit.options.sessions_max,
        )
        self._reported: frozenset[Crossconnect] = frozenset()
        self._reports = 0
        unit.alarms.subscribers.append(self._report_alarm)
        if unit.options.reports:
            unit.mirror.on_change.append(self._report_changes)

    @property
    def sessions(self) -> int:
        """The number of present sessions."""
        return len(self._server.sessions)

    async def start(self) -> str:
        return await self._server.start()

    async def close(self) -> None:
        await self._server.close()

    def report(self, verb: str, *lines: str, alarm: Alarm = Alarm.NONE) -> None:
        """Send an autonomous message to every session that accepts them."""
        self._reports += 1
        at = stamp(self._clock.wall_ns())
        data = encode_autonomous(
            Autonomous(alarm=alarm, atag=str(self._reports), verb=verb, lines=lines, sid=SID, stamp=at)
        )
        for session in self._server.sessions:
            if isinstance(session, Tl1Session) and session.hears:
                session.send(data)

    def _report_alarm(self, alarm: PortAlarm) -> None:
        weight, code, effect = ALARM_WORDS[alarm.type]
        if not alarm.raised:
            weight, code = Alarm.NONE, "CL"
        day, _, time = stamp(self._clock.wall_ns()).partition(" ")
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
