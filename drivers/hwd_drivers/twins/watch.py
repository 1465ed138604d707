"""Watch: limits of the light at one end of a mirror, and a callback when it crosses them; twins raise alarms by it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from hwd_drivers.core.values import PortSide


class Limit(StrEnum):
    """The limit that was crossed."""

    LOW = "low"
    """Below the loss-of-light limit; dark is below any limit."""
    DEGRADED = "degraded"
    """Below the degraded limit."""
    HIGH = "high"
    """Above the high limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """The start or the end of an alarm. `power_dbm` is the true light then, None for dark."""

    end: PortSide
    limit: Limit
    raised: bool
    at_ns: int
    power_dbm: float | None


class Watch:
    """Limits in dBm of the light at the monitor of `end`, None for no limit.

    `Mirror.watch` attaches it, `Mirror.unwatch` removes it.

    `on_crossing` is called with each Crossing, after `Mirror.on_change`; it must not change the mirror. An alarm ends
    when the light was better than its limit by `hysteresis_db` for `clears_after_s`. The light is the true momentary
    one: no noise, no averaging. `raised` are the present alarms.
    """

    __slots__ = (
        "_clears_after_ns",
        "_hysteresis_db",
        "_limits",
        "_power_dbm",
        "_well_since_ns",
        "end",
        "on_crossing",
        "raised",
    )

    def __init__(
        self,
        *,
        end: PortSide,
        on_crossing: Callable[[Crossing], None],
        low_dbm: float | None = None,
        degraded_dbm: float | None = None,
        high_dbm: float | None = None,
        hysteresis_db: float = 1.0,
        clears_after_s: float = 0.0,
    ) -> None:
        self.end = end
        self.on_crossing = on_crossing
        self.raised: frozenset[Limit] = frozenset()
        limits = ((Limit.LOW, low_dbm), (Limit.DEGRADED, degraded_dbm), (Limit.HIGH, high_dbm))
        self._limits = tuple((limit, dbm) for limit, dbm in limits if dbm is not None)
        self._hysteresis_db = hysteresis_db
        self._clears_after_ns = round(clears_after_s * 1e9)
        self._power_dbm: float | None = None
        self._well_since_ns: dict[Limit, int] = {}

    def next_ns(self) -> int | None:
        """The time when an alarm ends if the light stays as it is."""
        return min(self._well_since_ns.values(), default=-1) + self._clears_after_ns if self._well_since_ns else None

    def moved(self, now_ns: int, power_dbm: float | None) -> list[Crossing]:
        """The alarms that start or end with this light."""
        self._power_dbm = power_dbm
        light_dbm = -math.inf if power_dbm is None else power_dbm
        crossings = []
        for limit, dbm in self._limits:
            over = light_dbm - dbm if limit is Limit.HIGH else dbm - light_dbm
            if over > 0:
                self._well_since_ns.pop(limit, None)
                if limit not in self.raised:
                    self.raised |= {limit}
                    crossings.append(self._crossing(limit, now_ns))
            elif limit in self.raised and over <= -self._hysteresis_db:
                self._well_since_ns.setdefault(limit, now_ns)
            else:
                self._well_since_ns.pop(limit, None)
        return crossings + self.advance(now_ns)

    def advance(self, now_ns: int) -> list[Crossing]:
        """The alarms that have ended by now."""
        crossings = []
        for limit, since_ns in list(self._well_since_ns.items()):
            if since_ns + self._clears_after_ns <= now_ns:
                del self._well_since_ns[limit]
                self.raised -= {limit}
                crossings.append(self._crossing(limit, since_ns + self._clears_after_ns))
        return crossings

    def _crossing(self, limit: Limit, at_ns: int) -> Crossing:
        return Crossing(end=self.end, limit=limit, raised=limit in self.raised, at_ns=at_ns, power_dbm=self._power_dbm)
