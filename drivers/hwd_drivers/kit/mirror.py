"""The mirror model that all twins of switches share: crossconnects, settling, loss and power, with time given in."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hwd_drivers.kit.errors import ConfigError, RefusedError
from hwd_drivers.kit.ids import Draws
from hwd_drivers.kit.timing import Settling, SwitchTiming
from hwd_drivers.kit.values import Capabilities, Crossconnect, CrossconnectReading, CrossconnectState, PortSide, Side

PORT_SPREAD_DB = 0.3
"""Most that one port adds to or takes from the typical loss of a path, where the stated maximum leaves room for it."""
NOISE_DB = 0.05
"""Most that a power reading is off."""


@dataclass(slots=True)
class _Path:
    settles_at_ns: int
    tuned: bool


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
        self._order = {end: place for place, end in enumerate(capabilities.ends)}
        self._paths: dict[Crossconnect, _Path] = {}
        self._by_end: dict[PortSide, Crossconnect] = {}
        self._inputs_dbm: dict[PortSide, float] = {}
        self._stuck: set[PortSide] = set()
        self._settle_draws = draws.stream(f"mirror/{name}/settle")
        self._noise_draws = draws.stream(f"mirror/{name}/noise")
        port_draws = draws.stream(f"mirror/{name}/ports")
        room_db = (capabilities.loss_db_max - capabilities.loss_db_typical, capabilities.loss_db_typical)
        spread_db = max(0.0, min(PORT_SPREAD_DB, *(room / 2 for room in room_db)))
        self._port_db = {end: port_draws.uniform(-spread_db, spread_db) for end in capabilities.ends}

    def connect(self, pairs: Sequence[Crossconnect], now_ns: int, *, move: bool) -> Settling:
        """Make all of `pairs`, or none. What they collide with is dropped where `move`, else it is a RefusedError.

        Raises ConfigError for an end that the switch does not have, and for one that stands in two of `pairs`. Pairs that are there stay as they are.
        """
        self.advance(now_ns)
        self._check(pairs)
        wanted = [pair for pair in pairs if pair not in self._paths]
        for pair in wanted:
            for end in pair.ends:
                if not move and (holder := self._by_end.get(end)) is not None:
                    raise RefusedError(f"{self.name}: cannot connect {pair}: {end} already carries {holder}")
        moving = [pair for pair in wanted if not self._stuck.intersection(pair.ends)]
        settling = self.timing.draw(len(wanted), self._settle_draws)
        for pair, optical_s in zip(wanted, settling.optical_s, strict=True):
            if pair not in moving:
                continue
            self._drop(self._by_end[end] for end in pair.ends if end in self._by_end)
            self._paths[pair] = _Path(settles_at_ns=now_ns + round(optical_s * 1e9), tuned=optical_s <= 0)
            self._by_end |= dict.fromkeys(pair.ends, pair)
        if moving:
            self._changed(now_ns)
        return settling

    def disconnect(self, pairs: Iterable[Crossconnect], now_ns: int) -> Settling:
        """Remove those of `pairs` that are there; they are dark at once."""
        self.advance(now_ns)
        going = [pair for pair in pairs if pair in self._paths and not self._stuck.intersection(pair.ends)]
        settling = self.timing.draw(0, self._settle_draws)
        self._drop(going)
        if going:
            self._changed(now_ns)
        return settling

    def advance(self, now_ns: int) -> tuple[Crossconnect, ...]:
        """Let time pass: the paths that became tuned, in the order in which they did."""
        due = [pair for pair, path in self._paths.items() if not path.tuned and path.settles_at_ns <= now_ns]
        if not due:
            return ()
        due.sort(key=lambda pair: self._paths[pair].settles_at_ns)
        for pair in due:
            self._paths[pair].tuned = True
        self._changed(now_ns)
        return tuple(due)

    def next_ns(self) -> int | None:
        """When `advance` has something to do; None where everything is settled."""
        return min((path.settles_at_ns for path in self._paths.values() if not path.tuned), default=None)

    def readings(self, now_ns: int) -> tuple[CrossconnectReading, ...]:
        """All crossconnects, in the order of their ports."""
        self.advance(now_ns)
        return tuple(
            CrossconnectReading(
                crossconnect=pair, state=CrossconnectState.TUNED if path.tuned else CrossconnectState.TUNING
            )
            for pair, path in sorted(self._paths.items(), key=lambda item: self._order[item[0].a])
        )

    def crossconnect_at(self, end: PortSide) -> Crossconnect | None:
        """The one crossconnect that this end is in, settled or not."""
        return self._by_end.get(end)

    def passes(self, crossconnect: Crossconnect, now_ns: int) -> bool:
        """Whether light passes this path now."""
        self.advance(now_ns)
        path = self._paths.get(crossconnect)
        return path is not None and path.tuned

    def loss_db(self, crossconnect: Crossconnect) -> float:
        """Insertion loss of a path, there or not: the typical one and a constant of each of its ends."""
        return self.capabilities.loss_db_typical + sum(self._port_db[end] for end in crossconnect.ends)

    def set_input(self, end: PortSide, power_dbm: float | None) -> None:
        """Light that comes in through the fibre at `end`; None is dark, as all are at first. Raises ConfigError for an end that is not there."""
        self._check_end(end)
        if power_dbm is None:
            self._inputs_dbm.pop(end, None)
        else:
            self._inputs_dbm[end] = power_dbm

    def output(self, end: PortSide, now_ns: int) -> float | None:
        """Light that goes out through the fibre at `end`, in dBm; None is dark."""
        pair = self._by_end.get(end)
        if pair is None or not self.passes(pair, now_ns) or (end == pair.a and not self.capabilities.reciprocal):
            return None
        input_dbm = self._inputs_dbm.get(pair.b if end == pair.a else pair.a)
        return None if input_dbm is None else input_dbm - self.loss_db(pair)

    def power(self, end: PortSide, now_ns: int) -> float | None:
        """What a monitor at `end` reads, in dBm with its noise: on side A the light that comes in, else the light that goes out; None is dark."""
        self._check_end(end)
        true_dbm = self._inputs_dbm.get(end) if end.side is Side.A else self.output(end, now_ns)
        return None if true_dbm is None else true_dbm + self._noise_draws.uniform(-NOISE_DB, NOISE_DB)

    def stick(self, ends: Iterable[PortSide]) -> None:
        """From now on the mirrors of `ends` do not move, whatever the switch says of it."""
        self._stuck |= set(ends)

    def release(self) -> None:
        """No mirror is stuck any more."""
        self._stuck.clear()

    def _check(self, pairs: Sequence[Crossconnect]) -> None:
        seen: set[PortSide] = set()
        for end in (end for pair in pairs for end in pair.ends):
            self._check_end(end)
            if end in seen:
                raise ConfigError(f"{self.name}: {end} stands in two of the crossconnects to make; an end has one")
            seen.add(end)

    def _check_end(self, end: PortSide) -> None:
        if end not in self._order:
            raise ConfigError(f"{self.name}: there is no port {end}")

    def _drop(self, pairs: Iterable[Crossconnect]) -> None:
        for pair in list(dict.fromkeys(pairs)):
            del self._paths[pair]
            for end in pair.ends:
                del self._by_end[end]

    def _changed(self, now_ns: int) -> None:
        for callback in self.on_change:
            callback(now_ns)
