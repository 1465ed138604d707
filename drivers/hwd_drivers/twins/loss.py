"""Loss in a switch: of its paths, its ends and its attenuators, by the index of the ends."""

import math
from dataclasses import dataclass
from typing import Final

from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Capabilities

PORT_SPREAD_DB: Final = 0.3
"""The greatest change of the typical loss of a path by one port, where the stated maximum leaves room for it."""
REPEATABILITY_DB: Final = 0.1
"""Largest deviation of a path's loss each time it is made: a 320x320 unit's data table has +-0.1 dB."""
DRIFT_STEP_DB: Final = 0.1
"""Largest step of a drift."""


class Losses:
    """Losses in dB. A path has a constant loss, drawn when it is made; an end has its drift and its attenuator."""

    def __init__(self, name: str, capabilities: Capabilities, draws: Draws, repeatability_db: float) -> None:
        port_draws = draws.stream(f"mirror/{name}/ports")
        self._typical_db = capabilities.loss_db_typical
        self._max_db = capabilities.loss_db_max
        room_db = (self._max_db - self._typical_db, self._typical_db)
        spread_db = max(0.0, min(PORT_SPREAD_DB, *(room / 2 for room in room_db)))
        self._port_db = [port_draws.uniform(-spread_db, spread_db) for _ in capabilities.ends]
        self._repeatability_db = repeatability_db
        self._repeats = draws.stream(f"mirror/{name}/repeats")
        self._drifted_db: dict[int, float] = {}
        self.drifts: list[_Drift] = []
        self._attenuators: dict[int, tuple[float, float | None]] = {}

    def draw(self, a: int, b: int) -> float:
        """The constant loss of a path that is made now: never over the stated maximum, never under 0."""
        loss_db = self._typical_db + self._port_db[a] + self._port_db[b]
        loss_db += self._repeatability_db * (2 * self._repeats.random() - 1)
        return 0.0 if loss_db < 0 else self._max_db if loss_db > self._max_db else loss_db

    def expected(self, a: int, b: int) -> float:
        """The constant loss of a path, without its deviation each time."""
        return self._typical_db + self._port_db[a] + self._port_db[b]

    def total(self, constant_db: float, entry: int, exit: int, input_dbm: float | None) -> float:
        """Loss of a path with this constant, for light of `input_dbm` that enters at `entry` and leaves at `exit`."""
        if not (self._drifted_db or self._attenuators):
            return constant_db
        return self._without_limit(constant_db, entry, exit) + self._excess(constant_db, entry, exit, input_dbm)

    def attenuate(self, place: int, db: float, at_most_dbm: float | None) -> None:
        """Set the attenuator at an end to `db`, and more where the output would exceed `at_most_dbm`."""
        if db or at_most_dbm is not None:
            self._attenuators[place] = (db, at_most_dbm)
        else:
            self._attenuators.pop(place, None)

    def attenuation(self, constant_db: float, entry: int, exit: int, input_dbm: float | None) -> float:
        """The attenuation at `exit` for that light."""
        return self.attenuators_db(exit) + self._excess(constant_db, entry, exit, input_dbm)

    def attenuators_db(self, place: int) -> float:
        """The attenuation at an end that does not depend on the light."""
        return self._attenuators[place][0] if place in self._attenuators else 0.0

    def limits(self, place: int) -> bool:
        """Whether the attenuator at an end follows the light."""
        return place in self._attenuators and self._attenuators[place][1] is not None

    def clear_attenuators(self) -> list[int]:
        """Remove all attenuation; returns the ends that had some."""
        places = list(self._attenuators)
        self._attenuators.clear()
        return places

    def drift(self, place: int, db: float, now_ns: int, over_s: float) -> None:
        """Add `db` of loss to an end: now, or in small steps until `over_s` from now."""
        if over_s <= 0:
            self._drifted_db[place] = self._drifted_db.get(place, 0.0) + db
        elif db:
            steps = math.ceil(abs(db) / DRIFT_STEP_DB)
            self.drifts.append(_Drift(place=place, db=db, steps=steps, start_ns=now_ns, lasts_ns=round(over_s * 1e9)))

    def next_ns(self) -> int | None:
        """The time of the next step of a drift."""
        return min((drift.next_ns() for drift in self.drifts), default=None)

    def advance(self, now_ns: int) -> list[int]:
        """Advance drifts; returns the ends whose loss has changed."""
        moved = []
        for drift in self.drifts:
            while drift.done < drift.steps and drift.next_ns() <= now_ns:
                drift.done += 1
                self._drifted_db[drift.place] = self._drifted_db.get(drift.place, 0.0) + drift.db / drift.steps
                moved.append(drift.place)
        if moved:
            self.drifts = [drift for drift in self.drifts if drift.done < drift.steps]
        return moved

    def clear_drifts(self) -> list[int]:
        """Remove all drift, past and future; returns the ends that had some."""
        places = list(self._drifted_db)
        self.drifts.clear()
        self._drifted_db.clear()
        return places

    def _without_limit(self, constant_db: float, entry: int, exit: int) -> float:
        return constant_db + sum(
            self._drifted_db.get(place, 0.0) + self.attenuators_db(place) for place in (entry, exit)
        )

    def _excess(self, constant_db: float, entry: int, exit: int, input_dbm: float | None) -> float:
        """The excess over the highest output of the attenuator at `exit`."""
        _, at_most_dbm = self._attenuators.get(exit, (0.0, None))
        if at_most_dbm is None or input_dbm is None:
            return 0.0
        return max(0.0, input_dbm - self._without_limit(constant_db, entry, exit) - at_most_dbm)


@dataclass(slots=True, kw_only=True)
class _Drift:
    """A drift; `done` of its equal steps are over."""

    place: int
    db: float
    steps: int
    start_ns: int
    lasts_ns: int
    done: int = 0

    def next_ns(self) -> int:
        return self.start_ns + self.lasts_ns * (self.done + 1) // self.steps
