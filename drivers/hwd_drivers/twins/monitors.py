"""Monitors of a mirror: the recent light at its ends, and the watches that are attached to them."""

from collections.abc import Collection

from hwd_drivers.twins.light_history import LightHistory
from hwd_drivers.twins.watch import Crossing, Watch


class Monitors:
    """The power monitors by the index of the ends. The light at those in `remembered` is stored for `window_ns`."""

    def __init__(self, remembered: Collection[int], window_ns: int) -> None:
        self.window_ns = window_ns
        self._remembered = frozenset(remembered)
        self._histories: dict[int, LightHistory] = {}
        self.watches: dict[int, list[Watch]] = {}
        self.clearing: dict[Watch, None] = {}
        """Watches that will report something after some time."""
        self._crossings: list[tuple[Watch, Crossing]] = []

    @property
    def is_needed(self) -> bool:
        """Whether the light at any end is monitored."""
        return bool(self._remembered or self.watches)

    def sees(self, place: int) -> bool:
        """Whether the light at this end is monitored."""
        return place in self._remembered or place in self.watches

    def moved(self, place: int, now_ns: int, dbm: float | None, *, always: bool = False) -> None:
        """Record the light at this end from now on, and for all earlier time if `always`."""
        if place in self._remembered:
            if always:
                self._histories[place] = LightHistory(self.window_ns, dbm)
            else:
                if (history := self._histories.get(place)) is None:
                    history = self._histories[place] = LightHistory(self.window_ns)
                history.moved(now_ns, dbm)
        for watch in self.watches.get(place, ()):
            self._check(watch, watch.moved(now_ns, dbm))

    def average_dbm(self, place: int, now_ns: int, averaging_ns: int) -> float | None:
        history = self._histories.get(place)
        return None if history is None else history.average_dbm(now_ns, averaging_ns)

    def watch(self, place: int, watch: Watch, now_ns: int, dbm: float | None) -> None:
        """Attach a watch; a present violation is reported."""
        self.watches.setdefault(place, []).append(watch)
        self._check(watch, watch.moved(now_ns, dbm))

    def unwatch(self, place: int, watch: Watch) -> None:
        self.watches[place].remove(watch)
        self.clearing.pop(watch, None)
        if not self.watches[place]:
            del self.watches[place]

    def next_ns(self) -> int | None:
        """The next time at which a watch reports something if the light does not change."""
        return min((due_ns for watch in self.clearing if (due_ns := watch.next_ns()) is not None), default=None)

    def advance(self, now_ns: int) -> None:
        for watch in list(self.clearing):
            self._check(watch, watch.advance(now_ns))

    def report(self) -> None:
        """Report the new crossings of all watches."""
        while self._crossings:
            watch, crossing = self._crossings.pop(0)
            watch.on_crossing(crossing)

    def _check(self, watch: Watch, crossings: list[Crossing]) -> None:
        self._crossings += [(watch, crossing) for crossing in crossings]
        if watch.next_ns() is None:
            self.clearing.pop(watch, None)
        else:
            self.clearing[watch] = None
