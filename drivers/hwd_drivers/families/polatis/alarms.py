"""Alarms: limits of the light at the monitors of a Polatis unit, and the alarms that they raise."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.unit_error import UnitError, Wrong
from hwd_drivers.families.polatis.numbering import Numbering
from hwd_drivers.families.polatis.power import PowerMonitors
from hwd_drivers.families.polatis.settings import AlarmMode, AlarmType, Edge, Threshold, changed
from hwd_drivers.twins.mirror import Mirror
from hwd_drivers.twins.watch import Crossing, Watch

LIMITS_DBM: Final = (-100.0, 30.0)
"""Range of a limit; no source documents it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortAlarm:
    """The start or the end of a port's alarm; `power_dbm` is the light then, None for dark."""

    port: int
    type: AlarmType
    raised: bool
    at_ns: int
    power_dbm: float | None


class Alarms:
    """All alarms of a unit; `subscribers` are called with each PortAlarm."""

    def __init__(self, *, mirror: Mirror, clock: Clock, numbering: Numbering, monitors: PowerMonitors) -> None:
        self.subscribers: list[Callable[[PortAlarm], None]] = []
        self._mirror = mirror
        self._clock = clock
        self._numbering = numbering
        self._monitors = monitors
        self._thresholds: dict[tuple[int, AlarmType], Threshold] = {}
        self._watches: dict[tuple[int, AlarmType], Watch] = {}
        self._triggered: set[tuple[int, AlarmType]] = set()

    def threshold(self, port: int, type: AlarmType) -> Threshold:
        self._monitors.check((port,))
        return self._thresholds.get((port, type), _DEFAULT)

    def triggered(self, port: int, type: AlarmType) -> bool:
        """Whether the alarm is present."""
        self._monitors.check((port,))
        return (port, type) in self._triggered

    def configure(
        self,
        ports: Sequence[int],
        type: AlarmType,
        *,
        mode: AlarmMode | None = None,
        edge: Edge | None = None,
        high_dbm: float | None = None,
        low_dbm: float | None = None,
        clears_after_s: float | None = None,
    ) -> None:
        """Set the values that are not None, the same at all of these ports; present alarms are evaluated anew.

        Raises UnitError, and then has set nothing.
        """
        self._monitors.check(ports)
        for limit_dbm in (high_dbm, low_dbm):
            if limit_dbm is not None and not LIMITS_DBM[0] <= limit_dbm <= LIMITS_DBM[1]:
                raise UnitError(
                    Wrong.VALUE, f"Limit {limit_dbm:g} dBm is not between {LIMITS_DBM[0]:g} and {LIMITS_DBM[1]:g}"
                )
        values = {
            "mode": mode,
            "edge": edge,
            "high_dbm": high_dbm,
            "low_dbm": low_dbm,
            "clears_after_s": clears_after_s,
        }
        for port in ports:
            self._thresholds[port, type] = changed(self._thresholds.get((port, type), _DEFAULT), values)
            self._watch(port, type)

    def clear(self, ports: Sequence[int], type: AlarmType) -> None:
        """Clear an alarm and evaluate the light anew, so that an alarm that reports once can report again."""
        self._monitors.check(ports)
        for port in ports:
            self._watch(port, type)

    def _watch(self, port: int, type: AlarmType) -> None:
        key = port, type
        threshold = self._thresholds.get(key, _DEFAULT)
        if (old := self._watches.pop(key, None)) is not None:
            self._mirror.unwatch(old)
        self._triggered.discard(key)
        if threshold.mode is AlarmMode.OFF:
            return
        low_dbm = threshold.low_dbm if threshold.edge is not Edge.HIGH else None
        self._watches[key] = watch = Watch(
            end=self._numbering.end(port),
            on_crossing=lambda crossing: self._crossed(port, type, crossing),
            low_dbm=low_dbm if type is AlarmType.LOS else None,
            degraded_dbm=low_dbm if type is AlarmType.DEGRADED else None,
            high_dbm=threshold.high_dbm if threshold.edge is not Edge.LOW else None,
            clears_after_s=threshold.clears_after_s,
        )
        self._mirror.watch(watch, self._clock.monotonic_ns())

    def _crossed(self, port: int, type: AlarmType, crossing: Crossing) -> None:
        key = port, type
        stands = key in self._triggered
        single = self._thresholds.get(key, _DEFAULT).mode is AlarmMode.SINGLE
        if crossing.raised == stands or (single and not crossing.raised):
            return
        if crossing.raised:
            self._triggered.add(key)
        else:
            self._triggered.discard(key)
        alarm = PortAlarm(
            port=port, type=type, raised=crossing.raised, at_ns=crossing.at_ns, power_dbm=crossing.power_dbm
        )
        for subscriber in self.subscribers:
            subscriber(alarm)


_DEFAULT: Final = Threshold()
