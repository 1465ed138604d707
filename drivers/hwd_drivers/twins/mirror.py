"""Mirror: the optical model of all switch twins: crossconnects, settling, shutters, loss and power."""

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
"""Largest error of a power reading."""


class Mirror:
    """The optics of one switch. Pure: the same seed and the same calls at the same times give the same light.

        mirror = Mirror(name="ocs1", capabilities=capabilities, timing=find_timing("polatis-opus"), draws=Draws(7))
        settling = mirror.connect([Crossconnect.parse("1A-2B")], now_ns, move=True)
        mirror.advance(mirror.next_ns())

    An end is always in at most one crossconnect. A path that is tuning, blocked or failed passes no light. `on_change`
    are called with the time, after paths were made, removed, became tuned or changed their loss; they may read but not
    change the crossconnects. `on_schedule` are called when `next_ns` may have changed.

    In a switch of elements each is in exactly one of its states, tuned, at start in the first: `connect` moves those
    that must, `set_states` moves any. `repeatability_db`: largest deviation of a path's loss each time it is made.
    `remembers_s`: longest averaging time of `power`.
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
        """Make all of `pairs`, or none. Conflicting pairs are removed if `move`, else RefusedError is raised.

        Raises ConfigError for an unknown end, and for one that is in two of `pairs`. Existing pairs stay. Elements move
        to the state that has their pairs; RefusedError where none has.
        """
        self.advance(now_ns)
        wanted = self._paths.missing(pairs)
        if not move:
            self._paths.refuse_used(wanted)
        if self._elements:
            return self._move_elements(self._elements.with_pairs(pairs), now_ns)
        return self._change((), wanted, now_ns)

    def disconnect(self, pairs: Iterable[Crossconnect], now_ns: int) -> Settling:
        """Remove the existing ones of `pairs`; they are dark at once.

        Elements move to their dark state; RefusedError where one has none.
        """
        self.advance(now_ns)
        gone = dict.fromkeys(path for pair in pairs if (path := self._paths.find(pair)) is not None)
        if self._elements:
            return self._move_elements(self._elements.dark(path.crossconnect for path in gone), now_ns)
        return self._change(gone, (), now_ns)

    def change(self, remove: Iterable[Crossconnect], add: Sequence[Crossconnect], now_ns: int) -> None:
        """Remove, then connect and move conflicting pairs, in one step, as no protocol does.

        Raises as `connect`; then nothing moves.
        """
        self._paths.missing(add)
        if self._elements:
            self._elements.with_pairs(add)
        taken = {end for pair in add for end in self._elements.ends_taken_by(pair)}
        self.disconnect([pair for pair in remove if taken.isdisjoint(pair.ends)], now_ns)
        self.connect(add, now_ns, move=True)

    def set_states(self, states: Mapping[str, int], now_ns: int) -> Settling:
        """Move elements, by name, to states, by number. Raises ConfigError for an unknown element or state."""
        self.advance(now_ns)
        return self._move_elements(self._elements.named(states), now_ns)

    @property
    def states(self) -> dict[str, int]:
        """The number of each element's state."""
        return self._elements.by_name()

    def advance(self, now_ns: int) -> tuple[Crossconnect, ...]:
        """Advance the time; returns the paths that became tuned, in order."""
        if not self._is_moving() or (due_ns := self.next_ns()) is None or due_ns > now_ns:
            return ()
        settled = self._paths.settle(now_ns)
        for at_ns, path in settled:
            self._see((path.a, path.b), at_ns)
        drifted = self._paths.ends_of_paths_at(self._losses.advance(now_ns))
        self._see(drifted, now_ns)
        self._monitors.advance(now_ns)
        self._changed(now_ns, changed=bool(settled or drifted))
        return tuple(path.crossconnect for _, path in settled)

    def next_ns(self) -> int | None:
        """The next time at which `advance` changes something; None when all is settled."""
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
        """The crossconnect of this end, settled or not."""
        path = self._paths.at[self._paths.place(end)]
        return None if path is None else path.crossconnect

    # --- light

    def passes(self, crossconnect: Crossconnect, now_ns: int) -> bool:
        """Whether light passes this path now."""
        self.advance(now_ns)
        path = self._paths.find(crossconnect)
        return path is not None and self._state_of(path) is CrossconnectState.TUNED

    def lit_paths(self, now_ns: int) -> dict[Crossconnect, float]:
        """The paths that pass light now, with their loss from end a to end b."""
        self.advance(now_ns)
        return {
            path.crossconnect: self._loss_db(path)
            for path in self._paths
            if self._state_of(path) is CrossconnectState.TUNED
        }

    def loss_db(self, crossconnect: Crossconnect) -> float:
        """Insertion loss of a path from a to b, existing or not: its constant, plus drift and attenuation of its ends.

        The constant is the typical loss with a share of each end; it differs a little each time the path is made.
        """
        path = self._paths.find(crossconnect)
        if path is None:
            path = self._paths.new(crossconnect)
            path.loss_db = self._losses.expected(path.a, path.b)
        return self._loss_db(path)

    def set_input(self, end: PortSide, power_dbm: float | None, now_ns: int | None = None) -> None:
        """Set the light that enters through the fibre at `end`; None is dark, the initial state.

        Without a time it has always been so.
        """
        place = self._paths.place(end)
        if self._inputs_dbm[place] == power_dbm:
            return
        self._inputs_dbm[place] = power_dbm
        path = self._paths.at[place]
        places = (place,) if path is None else (path.a, path.b)
        self._see(places, now_ns or 0, always=now_ns is None)
        limited = path is not None and self._losses.limits(path.b if place == path.a else path.a)
        self._changed(now_ns or 0, changed=limited and now_ns is not None)

    def input(self, end: PortSide) -> float | None:
        """Light that enters through the fibre at `end`, in dBm; None is dark."""
        return self._inputs_dbm[self._paths.place(end)]

    def output(self, end: PortSide, now_ns: int) -> float | None:
        """Light that leaves through the fibre at `end`, in dBm; None is dark."""
        self.advance(now_ns)
        return self._output(self._paths.place(end))

    def power(self, end: PortSide, now_ns: int, averaging_s: float = 0.0) -> float | None:
        """The noisy reading of a monitor at `end`, in dBm: on side A of entering, else of leaving light; None is dark.

        With an averaging time it is the true average of the power over that time until now. Raises BugError for a time
        over `remembers_s`, and for an end without a monitor.
        """
        self.advance(now_ns)
        place = self._paths.place(end)
        true_dbm = self._seen(place)
        if averaging_s > 0:
            averaging_ns = round(averaging_s * 1e9)
            if averaging_ns > self._monitors.window_ns or end not in self.capabilities.monitored:
                raise BugError(
                    f"{self.name}: cannot average {end} over {averaging_s} s: only ends with a monitor have a history, "
                    f"for {self._monitors.window_ns / 1e9} s. Set remembers_s of the mirror"
                )
            true_dbm = self._monitors.average_dbm(place, now_ns, averaging_ns)
        return None if true_dbm is None else true_dbm + self._noise_draws.uniform(-NOISE_DB, NOISE_DB)

    def watch(self, watch: Watch, now_ns: int) -> None:
        """Let `watch` report when the light at its end crosses its limits; a present violation is reported now."""
        self.advance(now_ns)
        place = self._paths.place(watch.end)
        self._monitors.watch(place, watch, now_ns, self._seen(place))
        self._changed(now_ns, changed=False)

    def unwatch(self, watch: Watch) -> None:
        self._monitors.unwatch(self._paths.place(watch.end), watch)

    # --- shutters, attenuators

    @property
    def blocked(self) -> frozenset[PortSide]:
        """Ends that are made dark by shutters."""
        return frozenset(self.capabilities.ends[place] for place in self._blocked)

    def block(self, ends: Iterable[PortSide], now_ns: int) -> None:
        """Make ends dark, whatever crossconnects they are in; a stuck mirror does not follow."""
        self.advance(now_ns)
        self._set_shut(
            self._blocked, self._blocked.union(map(self._paths.place, ends)) - (self._stuck - self._blocked), now_ns
        )

    def unblock(self, ends: Iterable[PortSide], now_ns: int) -> None:
        """Let light pass again."""
        self.advance(now_ns)
        self._set_shut(self._blocked, self._blocked.difference(set(map(self._paths.place, ends)) - self._stuck), now_ns)

    def attenuate(self, end: PortSide, db: float | None, now_ns: int, *, at_most_dbm: float | None = None) -> None:
        """Set the attenuator at `end` to `db`, or more if the output would exceed `at_most_dbm`; None: none."""
        self.advance(now_ns)
        place = self._paths.place(end)
        self._losses.attenuate(place, db or 0.0, at_most_dbm)
        self._ends_changed([place], now_ns)

    def attenuation_db(self, end: PortSide) -> float:
        """The present attenuation at `end`."""
        place = self._paths.place(end)
        path = self._paths.at[place]
        if path is None:
            return self._losses.attenuators_db(place)
        entry = path.b if place == path.a else path.a
        return self._losses.attenuation(path.loss_db, entry, place, self._inputs_dbm[entry])

    # --- power, wear

    def power_down(self, now_ns: int) -> None:
        """Remove the power.

        Unless the unit latches, it is dark, with elements in their first state and shutters and attenuators reset.
        """
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
        """Restore the power, and make the old paths as if commanded now if `restore`.

        A unit that was up gets a power cycle of no duration.
        """
        self.power_down(now_ns)
        self.powered = True
        pairs, states = self._before if restore else ([], [])
        if self._elements:
            return self._move_elements(dict(enumerate(states)), now_ns)
        return self.connect(pairs, now_ns, move=True)

    def stick(self, ends: Iterable[PortSide]) -> None:
        """Stop the mirrors of `ends`, whatever the switch reports."""
        self._stuck.update(map(self._paths.place, ends))

    def fail(self, ends: Iterable[PortSide], now_ns: int) -> None:
        """Make every path of these ends fail: it is dark, and the switch reports it as failed."""
        self.advance(now_ns)
        self._set_shut(self._failed, self._failed.union(map(self._paths.place, ends)), now_ns)

    @property
    def failed(self) -> frozenset[PortSide]:
        """Ends whose paths fail."""
        return frozenset(self.capabilities.ends[place] for place in self._failed)

    def drift(self, ends: Iterable[PortSide], db: float, now_ns: int, *, over_s: float = 0.0) -> None:
        """Add `db` of loss to each of `ends`: at once, or in small steps until `over_s` from now."""
        self.advance(now_ns)
        places = [self._paths.place(end) for end in ends]
        for place in places:
            self._losses.drift(place, db, now_ns, over_s)
        self._ends_changed(places, now_ns)

    def release(self, now_ns: int) -> None:
        """Remove all stuck and failed mirrors and all drift."""
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
        """Replace `shut`, the blocked or the failed ends, by `to`."""
        moved = shut ^ to
        shut.clear()
        shut.update(to)
        self._ends_changed(moved, now_ns)

    def _ends_changed(self, places: Collection[int], now_ns: int) -> None:
        """Handle a change of the light at these ends, and report it where a path ends there."""
        touched = self._paths.ends_of_paths_at(places)
        self._see(touched, now_ns)
        self._changed(now_ns, changed=bool(touched))

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
        """The light at the monitor of this end."""
        return self._inputs_dbm[place] if self.capabilities.ends[place].side is Side.A else self._output(place)

    def _see(self, places: Iterable[int], at_ns: int, *, always: bool = False) -> None:
        if self._monitors.is_needed:
            for place in dict.fromkeys(places):
                if self._monitors.sees(place):
                    self._monitors.moved(place, at_ns, self._seen(place), always=always)

    def _changed(self, now_ns: int, *, changed: bool = True) -> None:
        if changed:
            for callback in self.on_change:
                callback(now_ns)
        self._monitors.report()
        for schedule in self.on_schedule:
            schedule()
