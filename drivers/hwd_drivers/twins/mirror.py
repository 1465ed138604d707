"""The mirror model that all twins of switches share: crossconnects, settling, shutters, loss and power, with time given in."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from hwd_drivers.core.errors import BugError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Capabilities, Crossconnect, CrossconnectReading, CrossconnectState, PortSide, Side
from hwd_drivers.twins.element_states import ElementStates
from hwd_drivers.twins.loss import REPEATABILITY_DB, Losses
from hwd_drivers.twins.monitors import Monitors
from hwd_drivers.twins.paths import Path, Paths
from hwd_drivers.twins.timing import Settling, SwitchTiming
from hwd_drivers.twins.watch import Watch

NOISE_DB = 0.05
"""Most that a power reading is off."""


class Mirror:
    """The optics of one switch. Pure: the same seed and the same calls at the same times give the same light.

        mirror = Mirror(name="ocs1", capabilities=capabilities, timing=find_timing("polatis-opus"), draws=Draws(7))
        settling = mirror.connect([Crossconnect.parse("1A-2B")], now_ns, move=True)
        mirror.advance(mirror.next_ns())

    An end is in at most one crossconnect, always. A path that is tuning, blocked or failed passes no light. `on_change` are called with the time, after paths
    were made, removed, became tuned or got another loss; they may read but not change the crossconnects. `on_schedule` are called when `next_ns` may be another.

    A switch of elements has each in exactly one of its states, the first at first, tuned: `connect` moves those that need to, `set_states` moves any.
    `repeatability_db`: most that the loss of a path is off each time it is made. `remembers_s`: the longest averaging time that `power` can be asked for.
    """

    def __init__(
        self,
        *,
        name: str,
        capabilities: Capabilities,
        timing: SwitchTiming,
        draws: Draws,
        repeatability_db: float = REPEATABILITY_DB,
        remembers_s: float = 0.0,
    ) -> None:
        self.name = name
        self.capabilities = capabilities
        self.timing = timing
        self.on_change: list[Callable[[int], None]] = []
        self.on_schedule: list[Callable[[], None]] = []
        self.powered = True
        self._paths = Paths(name, capabilities)
        self._inputs_dbm: list[float | None] = [None] * len(capabilities.ends)
        self._stuck: set[int] = set()
        self._blocked: set[int] = set()
        self._failed: set[int] = set()
        self._before: tuple[list[Crossconnect], list[int]] = ([], [])
        self._settle_draws = draws.stream(f"mirror/{name}/settle")
        self._noise_draws = draws.stream(f"mirror/{name}/noise")
        self._losses = Losses(name, capabilities, draws, repeatability_db)
        remembered = map(self._paths.place, capabilities.monitored) if remembers_s > 0 else ()
        self._monitors = Monitors(frozenset(remembered), round(remembers_s * 1e9))
        self._elements = ElementStates(name, capabilities.elements)
        for element in capabilities.elements:
            for pair in element.states[0]:
                self._put(self._paths.new(pair), 0.0, 0)
        self._paths.touched.clear()

    # --- crossconnects

    def connect(self, pairs: Sequence[Crossconnect], now_ns: int, *, move: bool) -> Settling:
        """Make all of `pairs`, or none. What they collide with is dropped where `move`, else it is a RefusedError.

        Raises ConfigError for an end that the switch does not have, and for one that stands in two of `pairs`. Pairs that are there stay as they are.
        Elements go to the state that has their pairs; RefusedError where there is none.
        """
        self.advance(now_ns)
        wanted = self._paths.missing(pairs)
        if not move:
            self._paths.refuse_used(wanted)
        if self._elements:
            return self._move_elements(self._elements.with_pairs(pairs), now_ns)
        return self._change((), wanted, now_ns)

    def disconnect(self, pairs: Iterable[Crossconnect], now_ns: int) -> Settling:
        """Remove those of `pairs` that are there; they are dark at once. Elements go to their dark state; RefusedError where one has none."""
        self.advance(now_ns)
        gone = dict.fromkeys(path for pair in pairs if (path := self._paths.find(pair)) is not None)
        if self._elements:
            return self._move_elements(self._elements.dark(path.crossconnect for path in gone), now_ns)
        return self._change(gone, (), now_ns)

    def change(self, remove: Iterable[Crossconnect], add: Sequence[Crossconnect], now_ns: int) -> None:
        """Remove, then connect and move what is in the way, in one go: what somebody does who is not bound to a protocol. Raises as `connect`; then nothing moves."""
        self._paths.missing(add)
        if self._elements:
            self._elements.with_pairs(add)
        taken = {end for pair in add for end in self._elements.ends_beside(pair)}
        self.disconnect([pair for pair in remove if taken.isdisjoint(pair.ends)], now_ns)
        self.connect(add, now_ns, move=True)

    def set_states(self, states: Mapping[str, int], now_ns: int) -> Settling:
        """Bring elements, by name, to the state of this number. Raises ConfigError for an element or state that there is not."""
        self.advance(now_ns)
        return self._move_elements(self._elements.named(states), now_ns)

    def set_state(self, element: str, state: int, now_ns: int) -> Settling:
        """Bring one element to the state of this number."""
        return self.set_states({element: state}, now_ns)

    @property
    def states(self) -> dict[str, int]:
        """The number of the state that each element is in."""
        return self._elements.by_name()

    def advance(self, now_ns: int) -> tuple[Crossconnect, ...]:
        """Let time pass: the paths that became tuned, in the order in which they did."""
        if not self._is_moving() or (due_ns := self.next_ns()) is None or due_ns > now_ns:
            return ()
        settled = self._paths.settle(now_ns)
        for at_ns, path in settled:
            self._see((path.a, path.b), at_ns)
        drifted = self._paths.ends_beside(self._losses.advance(now_ns))
        self._see(drifted, now_ns)
        self._monitors.advance(now_ns)
        self._changed(now_ns, told=bool(settled or drifted))
        return tuple(path.crossconnect for _, path in settled)

    def next_ns(self) -> int | None:
        """When `advance` has something to do; None where everything is settled."""
        due_ns = self._paths.next_ns()
        if self._losses.drifts or self._monitors.clearing:
            dues = (due_ns, self._losses.next_ns(), self._monitors.next_ns())
            return min((each for each in dues if each is not None), default=None)
        return due_ns

    def readings(self, now_ns: int) -> tuple[CrossconnectReading, ...]:
        """All crossconnects, in the order of their ports."""
        self.advance(now_ns)
        return tuple(
            CrossconnectReading(crossconnect=path.crossconnect, state=self._state_of(path)) for path in self._paths
        )

    def crossconnects(self) -> list[Crossconnect]:
        """All crossconnects, settled or not, in the order of their ports."""
        return [path.crossconnect for path in self._paths]

    def crossconnect_at(self, end: PortSide) -> Crossconnect | None:
        """The one crossconnect that this end is in, settled or not."""
        path = self._paths.at[self._paths.place(end)]
        return None if path is None else path.crossconnect

    # --- light

    def passes(self, crossconnect: Crossconnect, now_ns: int) -> bool:
        """Whether light passes this path now."""
        self.advance(now_ns)
        path = self._paths.find(crossconnect)
        return path is not None and self._state_of(path) is CrossconnectState.TUNED

    def passing(self, now_ns: int) -> dict[Crossconnect, float]:
        """The paths that light passes now, each with what it takes of light that goes from end a to end b."""
        self.advance(now_ns)
        return {
            path.crossconnect: self._loss_db(path)
            for path in self._paths
            if self._state_of(path) is CrossconnectState.TUNED
        }

    def loss_db(self, crossconnect: Crossconnect) -> float:
        """Insertion loss of a path from a to b, there or not: its own constant, and what drifts and attenuators of its ends add.

        The constant is the typical loss and one of each end; it is a little off each time the path is made.
        """
        path = self._paths.find(crossconnect)
        if path is None:
            path = self._paths.new(crossconnect)
            path.loss_db = self._losses.expected(path.a, path.b)
        return self._loss_db(path)

    def set_input(self, end: PortSide, power_dbm: float | None, now_ns: int | None = None) -> None:
        """Light that comes in through the fibre at `end`; None is dark, as all are at first. Without a time it has been so for ever."""
        place = self._paths.place(end)
        if self._inputs_dbm[place] == power_dbm:
            return
        self._inputs_dbm[place] = power_dbm
        path = self._paths.at[place]
        places = (place,) if path is None else (path.a, path.b)
        self._see(places, now_ns or 0, always=now_ns is None)
        limited = path is not None and self._losses.limits(path.b if place == path.a else path.a)
        self._changed(now_ns or 0, told=limited and now_ns is not None)

    def input(self, end: PortSide) -> float | None:
        """Light that comes in through the fibre at `end`, in dBm; None is dark."""
        return self._inputs_dbm[self._paths.place(end)]

    def output(self, end: PortSide, now_ns: int) -> float | None:
        """Light that goes out through the fibre at `end`, in dBm; None is dark."""
        self.advance(now_ns)
        return self._output(self._paths.place(end))

    def power(self, end: PortSide, now_ns: int, averaging_s: float = 0.0) -> float | None:
        """What a monitor at `end` reads, in dBm with its noise: on side A the light that comes in, else the light that goes out; None is dark.

        With an averaging time it is the true average of the power over that time until now. Raises BugError for one over `remembers_s`, and for an end without
        a monitor.
        """
        self.advance(now_ns)
        place = self._paths.place(end)
        true_dbm = self._seen(place)
        if averaging_s > 0:
            averaging_ns = round(averaging_s * 1e9)
            if averaging_ns > self._monitors.window_ns or end not in self.capabilities.monitored:
                raise BugError(
                    f"{self.name}: cannot average {end} over {averaging_s} s: only ends with a monitor are remembered, "
                    f"for {self._monitors.window_ns / 1e9} s. Give the mirror remembers_s"
                )
            true_dbm = self._monitors.average_dbm(place, now_ns, averaging_ns)
        return None if true_dbm is None else true_dbm + self._noise_draws.uniform(-NOISE_DB, NOISE_DB)

    def watch(self, watch: Watch, now_ns: int) -> None:
        """Let `watch` tell when the light at its end crosses its limits; what is over one already is told now."""
        self.advance(now_ns)
        place = self._paths.place(watch.end)
        self._monitors.watch(place, watch, now_ns, self._seen(place))
        self._changed(now_ns, told=False)

    def unwatch(self, watch: Watch) -> None:
        self._monitors.unwatch(self._paths.place(watch.end), watch)

    # --- shutters, attenuators

    @property
    def blocked(self) -> frozenset[PortSide]:
        """Ends that are held dark."""
        return frozenset(self.capabilities.ends[place] for place in self._blocked)

    def block(self, ends: Iterable[PortSide], now_ns: int) -> None:
        """Hold ends dark, whatever crossconnects they are in; where the mirror is stuck it stays as it is."""
        self.advance(now_ns)
        self._set_shut(
            self._blocked, self._blocked.union(map(self._paths.place, ends)) - (self._stuck - self._blocked), now_ns
        )

    def unblock(self, ends: Iterable[PortSide], now_ns: int) -> None:
        """Let light pass again."""
        self.advance(now_ns)
        self._set_shut(self._blocked, self._blocked.difference(set(map(self._paths.place, ends)) - self._stuck), now_ns)

    def attenuate(self, end: PortSide, db: float | None, now_ns: int, *, at_most_dbm: float | None = None) -> None:
        """The attenuator at `end` takes so much of any light, and more where more than `at_most_dbm` would go out; None is none."""
        self.advance(now_ns)
        place = self._paths.place(end)
        self._losses.attenuate(place, db or 0.0, at_most_dbm)
        self._ends_changed([place], now_ns)

    def attenuation_db(self, end: PortSide) -> float:
        """What the attenuator at `end` takes of the light now."""
        place = self._paths.place(end)
        path = self._paths.at[place]
        if path is None:
            return self._losses.attenuators_db(place)
        entry = path.b if place == path.a else path.a
        return self._losses.attenuation(path.loss_db, entry, place, self._inputs_dbm[entry])

    # --- power, wear

    def power_down(self, now_ns: int) -> None:
        """The unit has no power and moves nothing: unless it latches, it is dark, its elements at rest in their first state, its shutters and attenuators as new."""
        self.advance(now_ns)
        if not self.powered:
            return
        self._before = (self.crossconnects(), list(self._elements.states))
        if not self.capabilities.latching:
            if self._elements:
                self._move_elements(dict.fromkeys(range(len(self._elements.states)), 0), now_ns)
            else:
                self._change(list(self._paths), (), now_ns)
            attenuated = self._losses.clear_attenuators()
            self._set_shut(self._blocked, self._blocked & self._stuck, now_ns)
            self._ends_changed(attenuated, now_ns)
        self.powered = False

    def power_up(self, now_ns: int, *, restore: bool) -> Settling:
        """The unit has power again, and makes the paths from before, if `restore`, as if they were commanded now. One that was up has been down for no time."""
        self.power_down(now_ns)
        self.powered = True
        pairs, states = self._before if restore else ([], [])
        if self._elements:
            return self._move_elements(dict(enumerate(states)), now_ns)
        return self.connect(pairs, now_ns, move=True)

    def stick(self, ends: Iterable[PortSide]) -> None:
        """From now on the mirrors of `ends` do not move, whatever the switch says of it."""
        self._stuck.update(map(self._paths.place, ends))

    def fail(self, ends: Iterable[PortSide], now_ns: int) -> None:
        """From now on no path of these ends can be made: it is dark, and the switch says that it failed."""
        self.advance(now_ns)
        self._set_shut(self._failed, self._failed.union(map(self._paths.place, ends)), now_ns)

    @property
    def failed(self) -> frozenset[PortSide]:
        """Ends of which no path can be made."""
        return frozenset(self.capabilities.ends[place] for place in self._failed)

    def drift(self, ends: Iterable[PortSide], db: float, now_ns: int, *, over_s: float = 0.0) -> None:
        """Each of `ends` takes `db` more: at once, or in small steps until `over_s` from now."""
        self.advance(now_ns)
        places = [self._paths.place(end) for end in ends]
        for place in places:
            self._losses.drift(place, db, now_ns, over_s)
        self._ends_changed(places, now_ns)

    def release(self, now_ns: int) -> None:
        """No mirror is stuck or failed any more, and what has drifted is as it was."""
        self.advance(now_ns)
        self._stuck.clear()
        self._set_shut(self._failed, set(), now_ns)
        self._ends_changed(self._losses.clear_drifts(), now_ns)

    # --- parts

    def _change(self, gone: Iterable[Path], wanted: Sequence[Path], now_ns: int) -> Settling:
        if not self.powered:
            gone, wanted = (), ()
        settling = self.timing.draw(len(wanted), self._settle_draws)
        stuck = self._stuck
        for path in gone:
            if path.a not in stuck and path.b not in stuck:
                self._paths.drop(path)
        for path, optical_s in zip(wanted, settling.optical_s, strict=True):
            if not stuck or (path.a not in stuck and path.b not in stuck):
                self._put(path, optical_s, now_ns)
        if touched := self._paths.touched:
            self._see(touched, now_ns)
            touched.clear()
            self._changed(now_ns)
        return settling

    def _move_elements(self, states: Mapping[int, int], now_ns: int) -> Settling:
        gone: list[Path] = []
        wanted: list[Path] = []
        for number, state in states.items():
            old, new = self._elements.change(number, state)
            leaving = [path for pair in old if (path := self._paths.find(pair)) is not None]
            coming = [self._paths.new(pair) for pair in new]
            places = (place for path in (*leaving, *coming) for place in (path.a, path.b))
            if self.powered and self._stuck.isdisjoint(places):
                self._elements.states[number] = state
                gone += leaving
                wanted += coming
        return self._change(gone, wanted, now_ns)

    def _is_moving(self) -> bool:
        return bool(self._paths.tuning or self._losses.drifts or self._monitors.clearing)

    def _state_of(self, path: Path) -> CrossconnectState:
        if self._failed and (path.a in self._failed or path.b in self._failed):
            return CrossconnectState.FAILED
        if self._blocked and (path.a in self._blocked or path.b in self._blocked):
            return CrossconnectState.BLOCKED
        return CrossconnectState.TUNED if path.tuned else CrossconnectState.TUNING

    def _put(self, path: Path, optical_s: float, now_ns: int) -> None:
        path.loss_db = self._losses.draw(path.a, path.b)
        self._paths.put(path, now_ns + round(optical_s * 1e9) if optical_s > 0 else None)

    def _set_shut(self, shut: set[int], to: set[int], now_ns: int) -> None:
        """`shut`, the blocked or the failed ends, are those in `to` from now on."""
        moved = shut ^ to
        shut.clear()
        shut.update(to)
        self._ends_changed(moved, now_ns)

    def _ends_changed(self, places: Collection[int], now_ns: int) -> None:
        """Something about the light at these ends is different; it is told where a path ends there."""
        touched = self._paths.ends_beside(places)
        self._see(touched, now_ns)
        self._changed(now_ns, told=bool(touched))

    def _loss_db(self, path: Path) -> float:
        return self._losses.total(path.loss_db, path.a, path.b, self._inputs_dbm[path.a])

    def _output(self, place: int) -> float | None:
        path = self._paths.at[place]
        if path is None or self._state_of(path) is not CrossconnectState.TUNED:
            return None
        entry = path.b if place == path.a else path.a
        input_dbm = self._inputs_dbm[entry]
        if input_dbm is None or (place == path.a and not self.capabilities.reciprocal):
            return None
        return input_dbm - self._losses.total(path.loss_db, entry, place, input_dbm)

    def _seen(self, place: int) -> float | None:
        """What a monitor there sees."""
        return self._inputs_dbm[place] if self.capabilities.ends[place].side is Side.A else self._output(place)

    def _see(self, places: Iterable[int], at_ns: int, *, always: bool = False) -> None:
        if self._monitors.anybody:
            for place in dict.fromkeys(places):
                if self._monitors.sees(place):
                    self._monitors.moved(place, at_ns, self._seen(place), always=always)

    def _changed(self, now_ns: int, *, told: bool = True) -> None:
        if told:
            for callback in self.on_change:
                callback(now_ns)
        self._monitors.tell()
        for schedule in self.on_schedule:
            schedule()
