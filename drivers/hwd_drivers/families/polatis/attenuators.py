"""Voas: the variable attenuators of a Polatis unit, one at each output port if it has any."""

from collections.abc import Sequence
from typing import Final

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.unit_error import UnitError, Wrong
from hwd_drivers.core.values import AttenuationMode, PortSide, Side
from hwd_drivers.families.polatis.numbering import Numbering
from hwd_drivers.families.polatis.settings import VoaSetting
from hwd_drivers.twins.mirror import Mirror

MOST_DB: Final = 30.0
"""Highest attenuation: no source documents it."""
LEVEL_LIMIT: Final = 100.0

LEVELLED: Final = frozenset({AttenuationMode.ABSOLUTE, AttenuationMode.RELATIVE, AttenuationMode.CONVERGED})
"""Modes that need a level."""


class Voas:
    """Holds the light at output ports at their settings, after every change and by `settle` before a reading."""

    def __init__(self, *, mirror: Mirror, clock: Clock, numbering: Numbering, ports: frozenset[int]) -> None:
        self.ports = ports
        self._mirror = mirror
        self._clock = clock
        self._numbering = numbering
        self._settings: dict[int, VoaSetting] = {}
        self._converged: set[int] = set()
        self._held: dict[PortSide, float] = {}
        self._settling = False
        mirror.on_change.append(self._mirror_changed)

    def setting(self, port: int) -> VoaSetting:
        self.check((port,))
        return self._settings.get(port, _DEFAULT)

    def set(self, ports: Sequence[int], setting: VoaSetting) -> None:
        """Raises UnitError for a port without an attenuator and for a missing or too large level.

        Then nothing is set.
        """
        self.check(ports)
        if setting.mode in LEVELLED and (setting.level is None or not abs(setting.level) <= LEVEL_LIMIT):
            raise UnitError(Wrong.VALUE, f"{setting.mode} needs a level of at most {LEVEL_LIMIT:g}")
        if setting.reference is not None:
            self._numbering.end(setting.reference)
        for port in ports:
            self._settings[port] = setting
            self._converged.discard(port)
            end = self._numbering.end(port)
            self._held.pop(end, None)
            db = {AttenuationMode.FIXED: self._mirror.attenuation_db(end), AttenuationMode.MAXIMUM: MOST_DB}
            self._mirror.attenuate(end, db.get(setting.mode), self._clock.monotonic_ns())
        self.settle(self._clock.monotonic_ns())

    def check(self, ports: Sequence[int]) -> None:
        """Raises UnitError for a unit without attenuators, for an unknown port, and for one without an attenuator."""
        if not self.ports:
            raise UnitError(Wrong.HARDWARE, "This unit has no attenuators")
        for port in ports:
            if port not in self.ports:
                self._numbering.end(port)
                raise UnitError(Wrong.PORT, f"No attenuator at port: {port}")

    def settle(self, now_ns: int) -> None:
        """Adjust each attenuator that follows the light."""
        if self._settling:
            return
        self._settling = True
        try:
            for port, setting in self._settings.items():
                self._settle(port, setting, now_ns)
        finally:
            self._settling = False

    def _mirror_changed(self, now_ns: int) -> None:
        if self._settings:
            self.settle(now_ns)

    def _settle(self, port: int, setting: VoaSetting, now_ns: int) -> None:
        if setting.level is None:
            return
        end = self._numbering.end(port)
        match setting.mode:
            case AttenuationMode.ABSOLUTE:
                self._hold(end, setting.level, now_ns)
            case AttenuationMode.CONVERGED if port not in self._converged:
                self._hold(end, setting.level, now_ns)
                taken_db = self._mirror.attenuation_db(end)
                if self._mirror.output(end, now_ns) is not None and taken_db > 0:
                    self._converged.add(port)
                    self._mirror.attenuate(end, taken_db, now_ns)
            case AttenuationMode.RELATIVE:
                at_most_dbm = self._reference_dbm(end, setting, now_ns)
                if at_most_dbm is not None:
                    self._hold(end, at_most_dbm - setting.level, now_ns)
            case _:
                pass

    def _reference_dbm(self, end: PortSide, setting: VoaSetting, now_ns: int) -> float | None:
        if setting.reference is not None:
            reference = self._numbering.end(setting.reference)
            return self._mirror.output(reference, now_ns) if reference.side is Side.B else self._mirror.input(reference)
        pair = self._mirror.crossconnect_at(end)
        return None if pair is None else self._mirror.input(pair.a if pair.b == end else pair.b)

    def _hold(self, end: PortSide, at_most_dbm: float, now_ns: int) -> None:
        """Set the attenuator unless it is at this value, so that a change does not cause another."""
        if self._held.get(end) != at_most_dbm:
            self._held[end] = at_most_dbm
            self._mirror.attenuate(end, None, now_ns, at_most_dbm=at_most_dbm)


_DEFAULT: Final = VoaSetting()
