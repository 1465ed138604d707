"""The mirror model that all twins of switches share: crossconnects, settling, loss and power, with time given in."""

from collections.abc import Callable, Iterable, Sequence

from hwd_drivers.kit.errors import ConfigError, RefusedError
from hwd_drivers.kit.ids import Draws
from hwd_drivers.kit.timing import Settling, SwitchTiming
from hwd_drivers.kit.values import Capabilities, Crossconnect, CrossconnectReading, CrossconnectState, PortSide, Side

PORT_SPREAD_DB = 0.3
"""Most that one port adds to or takes from the typical loss of a path, where the stated maximum leaves room for it."""
NOISE_DB = 0.05
"""Most that a power reading is off."""


class Mirror:
    """The optics of one switch. Pure: the same seed and the same calls at the same times give the same light.

        mirror = Mirror(name="ocs1", capabilities=capabilities, timing=find_timing("polatis-opus"), draws=Draws(7))
        settling = mirror.connect([Crossconnect.parse("1A-2B")], now_ns, move=True)
        mirror.advance(mirror.next_ns())

    An end is in at most one crossconnect, always. A tuning path passes no light. `on_change` are called with the time, after paths were made, removed
    or became tuned; they may read but not change the mirror.
    """

    def __init__(self, *, name: str, capabilities: Capabilities, timing: SwitchTiming, draws: Draws) -> None:
        self.name = name
        self.capabilities = capabilities
        self.timing = timing
        self.on_change: list[Callable[[int], None]] = []
        self._near = {end.port: place for place, end in enumerate(capabilities.ends) if end.side is not Side.B}
        self._far = {end.port: place for place, end in enumerate(capabilities.ends) if end.side is Side.B}
        self._at: list[_Path | None] = [None] * len(capabilities.ends)
        self._paths: dict[int, _Path] = {}  # by the place of their end a, in the order in which they were made
        self._tuning = 0
        self._inputs_dbm: list[float | None] = [None] * len(capabilities.ends)
        self._stuck: set[int] = set()
        self._settle_draws = draws.stream(f"mirror/{name}/settle")
        self._noise_draws = draws.stream(f"mirror/{name}/noise")
        port_draws = draws.stream(f"mirror/{name}/ports")
        room_db = (capabilities.loss_db_max - capabilities.loss_db_typical, capabilities.loss_db_typical)
        spread_db = max(0.0, min(PORT_SPREAD_DB, *(room / 2 for room in room_db)))
        self._port_db = [port_draws.uniform(-spread_db, spread_db) for _ in capabilities.ends]

    def connect(self, pairs: Sequence[Crossconnect], now_ns: int, *, move: bool) -> Settling:
        """Make all of `pairs`, or none. What they collide with is dropped where `move`, else it is a RefusedError.

        Raises ConfigError for an end that the switch does not have, and for one that stands in two of `pairs`. Pairs that are there stay as they are.
        """
        self.advance(now_ns)
        wanted = [path for path in self._new_paths(pairs) if not self._is_there(path)]
        if not move:
            self._refuse_used(wanted)
        settling = self.timing.draw(len(wanted), self._settle_draws)
        moved = False
        for path, optical_s in zip(wanted, settling.optical_s, strict=True):
            if path.a in self._stuck or path.b in self._stuck:
                continue
            self._drop(self._at[path.a])
            self._drop(self._at[path.b])
            path.settles_at_ns = now_ns + round(optical_s * 1e9)
            path.tuned = optical_s <= 0
            self._tuning += not path.tuned
            self._paths[path.a] = self._at[path.a] = self._at[path.b] = path
            moved = True
        if moved:
            self._changed(now_ns)
        return settling

    def disconnect(self, pairs: Iterable[Crossconnect], now_ns: int) -> Settling:
        """Remove those of `pairs` that are there; they are dark at once."""
        self.advance(now_ns)
        settling = self.timing.draw(0, self._settle_draws)
        moved = False
        for pair in pairs:
            path = self._path(pair)
            if path is not None and path.a not in self._stuck and path.b not in self._stuck:
                self._drop(path)
                moved = True
        if moved:
            self._changed(now_ns)
        return settling

    def advance(self, now_ns: int) -> tuple[Crossconnect, ...]:
        """Let time pass: the paths that became tuned, in the order in which they did."""
        if not self._tuning:
            return ()
        due = [path for path in self._paths.values() if not path.tuned and path.settles_at_ns <= now_ns]
        if not due:
            return ()
        due.sort(key=lambda path: path.settles_at_ns)
        for path in due:
            path.tuned = True
        self._tuning -= len(due)
        self._changed(now_ns)
        return tuple(path.crossconnect for path in due)

    def next_ns(self) -> int | None:
        """When `advance` has something to do; None where everything is settled."""
        return min((path.settles_at_ns for path in self._paths.values() if not path.tuned), default=None)

    def readings(self, now_ns: int) -> tuple[CrossconnectReading, ...]:
        """All crossconnects, in the order of their ports."""
        self.advance(now_ns)
        return tuple(
            CrossconnectReading(
                crossconnect=path.crossconnect,
                state=CrossconnectState.TUNED if path.tuned else CrossconnectState.TUNING,
            )
            for _, path in sorted(self._paths.items())
        )

    def crossconnects(self) -> list[Crossconnect]:
        """All crossconnects, settled or not, in the order of their ports."""
        return [path.crossconnect for _, path in sorted(self._paths.items())]

    def crossconnect_at(self, end: PortSide) -> Crossconnect | None:
        """The one crossconnect that this end is in, settled or not."""
        path = self._at[self._place(end)]
        return None if path is None else path.crossconnect

    def passes(self, crossconnect: Crossconnect, now_ns: int) -> bool:
        """Whether light passes this path now."""
        self.advance(now_ns)
        path = self._path(crossconnect)
        return path is not None and path.tuned

    def loss_db(self, crossconnect: Crossconnect) -> float:
        """Insertion loss of a path, there or not: the typical one and a constant of each of its ends."""
        return self.capabilities.loss_db_typical + sum(self._port_db[self._place(end)] for end in crossconnect.ends)

    def set_input(self, end: PortSide, power_dbm: float | None) -> None:
        """Light that comes in through the fibre at `end`; None is dark, as all are at first."""
        self._inputs_dbm[self._place(end)] = power_dbm

    def output(self, end: PortSide, now_ns: int) -> float | None:
        """Light that goes out through the fibre at `end`, in dBm; None is dark."""
        self.advance(now_ns)
        place = self._place(end)
        path = self._at[place]
        if path is None or not path.tuned or (place == path.a and not self.capabilities.reciprocal):
            return None
        input_dbm = self._inputs_dbm[path.b if place == path.a else path.a]
        return None if input_dbm is None else input_dbm - self.loss_db(path.crossconnect)

    def power(self, end: PortSide, now_ns: int) -> float | None:
        """What a monitor at `end` reads, in dBm with its noise: on side A the light that comes in, else the light that goes out; None is dark."""
        true_dbm = self._inputs_dbm[self._place(end)] if end.side is Side.A else self.output(end, now_ns)
        return None if true_dbm is None else true_dbm + self._noise_draws.uniform(-NOISE_DB, NOISE_DB)

    def stick(self, ends: Iterable[PortSide]) -> None:
        """From now on the mirrors of `ends` do not move, whatever the switch says of it."""
        self._stuck.update(map(self._place, ends))

    def release(self) -> None:
        """No mirror is stuck any more."""
        self._stuck.clear()

    def _new_paths(self, pairs: Sequence[Crossconnect]) -> list["_Path"]:
        seen: set[int] = set()
        paths = []
        for pair in pairs:
            path = _Path(pair, self._place(pair.a), self._place(pair.b))
            for place in (path.a, path.b):
                if place in seen:
                    end = self.capabilities.ends[place]
                    raise ConfigError(f"{self.name}: {end} stands in two of the crossconnects to make; an end has one")
                seen.add(place)
            paths.append(path)
        return paths

    def _refuse_used(self, wanted: Iterable["_Path"]) -> None:
        for path in wanted:
            for place in (path.a, path.b):
                if (holder := self._at[place]) is not None:
                    end = self.capabilities.ends[place]
                    raise RefusedError(
                        f"{self.name}: cannot connect {path.crossconnect}: {end} already carries {holder.crossconnect}"
                    )

    def _is_there(self, path: "_Path") -> bool:
        there = self._at[path.a]
        return there is not None and there is self._at[path.b]

    def _path(self, pair: Crossconnect) -> "_Path | None":
        path = self._at[self._place(pair.a)]
        return path if path is not None and path is self._at[self._place(pair.b)] else None

    def _place(self, end: PortSide) -> int:
        """Its place in `capabilities.ends`; raises ConfigError for an end that is not there."""
        place = (self._far if end.side is Side.B else self._near).get(end.port)
        if place is None or self.capabilities.ends[place].side is not end.side:
            raise ConfigError(f"{self.name}: there is no port {end}")
        return place

    def _drop(self, path: "_Path | None") -> None:
        if path is not None:
            del self._paths[path.a]
            self._at[path.a] = self._at[path.b] = None
            self._tuning -= not path.tuned

    def _changed(self, now_ns: int) -> None:
        for callback in self.on_change:
            callback(now_ns)


class _Path:
    """A crossconnect with the places of its ends."""

    __slots__ = ("a", "b", "crossconnect", "settles_at_ns", "tuned")

    def __init__(self, crossconnect: Crossconnect, a: int, b: int) -> None:
        self.crossconnect = crossconnect
        self.a = a
        self.b = b
        self.settles_at_ns = 0
        self.tuned = False
