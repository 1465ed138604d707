"""Monitors of a mirror: what its ends have seen over the last moments, and the watches that hang at them."""

from collections.abc import Collection

from hwd_drivers.twins.light_history import LightHistory
from hwd_drivers.twins.watch import Crossing, Watch


class Monitors:
    """By the places of the ends. The light at those in `remembered` is remembered for `window_ns`."""

    def __init__(self, remembered: Collection[int], window_ns: int) -> None:
        self.window_ns = window_ns
        self._remembered = frozenset(remembered)
        self._histories: dict[int, LightHistory] = {}
        self.watches: dict[int, list[Watch]] = {}
        self.clearing: dict[Watch, None] = {}
        """Watches that have something to say when so much time has passed."""
        self._crossings: list[tuple[Watch, Crossing]] = []

    @property
    def anybody(self) -> bool:
        """Whether somebody cares for any light at all."""
        return bool(self._remembered or self.watches)

    def sees(self, place: int) -> bool:
        """Whether anybody cares for the light at this end."""
        return place in self._remembered or place in self.watches

    def moved(self, place: int, now_ns: int, dbm: float | None, *, always: bool = False) -> None:
        """From now on the light at this end is so much; it has been for ever, if `always`."""
        if place in self._remembered:
            if always:
                self._histories[place] = LightHistory(self.window_ns, dbm)
            else:
                if (history := self._histories.get(place)) is None:
                    history = self._histories[place] = LightHistory(self.window_ns)
                history.moved(now_ns, dbm)
        for watch in self.watches.get(place, ()):
            self._look(watch, watch.moved(now_ns, dbm))

    def average_dbm(self, place: int, now_ns: int, averaging_ns: int) -> float | None:
        history = self._histories.get(place)
        return None if history is None else history.average_dbm(now_ns, averaging_ns)

    def watch(self, place: int, watch: Watch, now_ns: int, dbm: float | None) -> None:
        """Hang it up; what is wrong already is told."""
        self.watches.setdefault(place, []).append(watch)
        self._look(watch, watch.moved(now_ns, dbm))

    def unwatch(self, place: int, watch: Watch) -> None:
        self.watches[place].remove(watch)
        self.clearing.pop(watch, None)
        if not self.watches[place]:
            del self.watches[place]

    def next_ns(self) -> int | None:
        """When a watch has something to say, if the light stays as it is."""
        return min((due_ns for watch in self.clearing if (due_ns := watch.next_ns()) is not None), default=None)

    def advance(self, now_ns: int) -> None:
        for watch in list(self.clearing):
            self._look(watch, watch.advance(now_ns))

    def tell(self) -> None:
        """Tell what watches have found since the last time."""
        while self._crossings:
            watch, crossing = self._crossings.pop(0)
            watch.told(crossing)

    def _look(self, watch: Watch, crossings: list[Crossing]) -> None:
        self._crossings += [(watch, crossing) for crossing in crossings]
        if watch.next_ns() is None:
            self.clearing.pop(watch, None)
        else:
            self.clearing[watch] = None
