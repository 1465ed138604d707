"""Restarts: detects that a switch has restarted since its last reading, which would look like a foreign change."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hwd_drivers.core.values import Capabilities, Crossconnect

UPTIME_STEP_S: Final = 60.0
"""Units report their uptime in whole minutes."""


class Sign(StrEnum):
    """Evidence of a restart."""

    UPTIME = "uptime"
    """The unit reports a shorter uptime than it would have without a restart."""
    AT_REST = "at-rest"
    """The switch ended our session and is in the state of such a unit after power-up. This is likely, not certain.

    All its crossconnects are gone at once, or its elements are in their first states.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """One restart. `lost`: crossconnects that it removed; `came`: those of its elements' first states.

    `uptime_s`: uptime of the unit, in whole minutes, None where it reports none.
    """

    sign: Sign
    lost: tuple[Crossconnect, ...]
    came: tuple[Crossconnect, ...]
    uptime_s: float | None

    def __str__(self) -> str:
        lost = ", ".join(self.lost)
        if self.sign is Sign.UPTIME:
            gone = f": {lost} gone with it" if lost else ", and carries what it carried"
            return f"has restarted, up for {self.uptime_s or 0.0:.0f} s by its own word{gone}"
        return f"seems to have restarted: it ended the session, and all that it carried is gone at once: {lost}"


class Restarts:
    """Restarts of one switch. Times are of one clock that continues while the switch is down."""

    def __init__(self) -> None:
        self._uptime: tuple[float, float] | None = None

    def find(
        self,
        *,
        at_s: float,
        last_reading_s: float | None,
        uptime_s: float | None,
        capabilities: Capabilities,
        before: Collection[Crossconnect] | None,
        now: Collection[Crossconnect],
    ) -> Restart | None:
        """Called at the start of a session. `last_reading_s`: time of the last reading, None for none; `before`: that
        reading.

        A latching switch keeps its crossconnects without power, so that only its uptime shows a restart.
        """
        known, self._uptime = self._uptime, None if uptime_s is None else (at_s, uptime_s)
        if last_reading_s is None or before is None:
            return None
        lost = tuple(one for one in before if one not in now)
        rest = frozenset(one for element in capabilities.elements for one in element.states[0])
        came = tuple(one for one in now if one in rest and one not in before)
        if uptime_s is not None:
            if uptime_s >= at_s - last_reading_s:
                return None
            if known is not None and uptime_s + 2 * UPTIME_STEP_S < known[1] + at_s - known[0]:
                return Restart(sign=Sign.UPTIME, lost=lost, came=came, uptime_s=uptime_s)
        is_at_rest = frozenset(now) == rest if capabilities.elements else len(lost) == len(before)
        if lost and is_at_rest and not capabilities.latching:
            return Restart(sign=Sign.AT_REST, lost=lost, came=came, uptime_s=uptime_s)
        return None
