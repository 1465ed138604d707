"""The mirror model that all twins of switches share: crossconnects, settling, shutters, loss and power, with time given in."""

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from hwd_drivers.kit.errors import BugError, ConfigError, RefusedError
from hwd_drivers.kit.ids import Draws
from hwd_drivers.kit.loss import REPEATABILITY_DB, Losses
from hwd_drivers.kit.monitors import Monitors
from hwd_drivers.kit.timing import Settling, SwitchTiming
from hwd_drivers.kit.values import Capabilities, Crossconnect, CrossconnectReading, CrossconnectState, PortSide, Side
from hwd_drivers.kit.watch import Watch

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
        self._near = {end.port: place for place, end in enumerate(capabilities.ends) if end.side is not Side.B}
        self._far = {end.port: place for place, end in enumerate(capabilities.ends) if end.side is Side.B}
        self._at: list[_Path | None] = [None] * len(capabilities.ends)
        self._paths: dict[int, _Path] = {}  # by the place of their end a
        self._tuning: list[tuple[int, int, _Path]] = []  # a heap, by time and then in the order of making
        self._made = 0
        self._touched: list[int] = []
        self._inputs_dbm: list[float | None] = [None] * len(capabilities.ends)
        self._stuck: set[int] = set()
        self._blocked: set[int] = set()
        self._failed: set[int] = set()
        self._before: tuple[list[Crossconnect], list[int]] = ([], [])
        self._settle_draws = draws.stream(f"mirror/{name}/settle")
        self._noise_draws = draws.stream(f"mirror/{name}/noise")
        self._losses = Losses(name, capabilities, draws, repeatability_db)
        remembered = map(self._place, capabilities.monitored) if remembers_s > 0 else ()
        self._monitors = Monitors(frozenset(remembered), round(remembers_s * 1e9))
        self._states = [0] * len(capabilities.elements)
        self._element_at: dict[int, int] = {}
        for number, element in enumerate(capabilities.elements):
            for pair in element.crossconnects:
                self._element_at |= dict.fromkeys(map(self._place, pair.ends), number)
            for pair in element.states[0]:
                self._put(self._new_path(pair), 0.0, 0)
        self._touched.clear()

    # --- crossconnects

    def connect(self, pairs: Sequence[Crossconnect], now_ns: int, *, move: bool) -> Settling:
        """Make all of `pairs`, or none. What they collide with is dropped where `move`, else it is a RefusedError.

        Raises ConfigError for an end that the switch does not have, and for one that stands in two of `pairs`. Pairs that are there stay as they are.
        Elements go to the state that has their pairs; RefusedError where there is none.
        """
        self.advance(now_ns)
        wanted = [path for path in self._new_paths(pairs) if not self._is_there(path)]
        if not move:
            self._refuse_used(wanted)
        if self._states:
            return self._move_elements(self._states_with(pairs), now_ns)
        return self._change((), wanted, now_ns)

    def disconnect(self, pairs: Iterable[Crossconnect], now_ns: int) -> Settling:
        """Remove those of `pairs` that are there; they are dark at once. Elements go to their dark state; RefusedError where one has none."""
        self.advance(now_ns)
        gone = dict.fromkeys(path for pair in pairs if (path := self._path(pair)) is not None)
        if self._states:
            return self._move_elements({self._element_at[path.a]: self._dark_state(path) for path in gone}, now_ns)
        return self._change(gone, (), now_ns)

    def change(self, remove: Iterable[Crossconnect], add: Sequence[Crossconnect], now_ns: int) -> None:
        """Remove, then connect and move what is in the way, in one go: what somebody does who is not bound to a protocol."""
        taken = {place for pair in add for place in self._places_held(pair)}
        self.disconnect([pair for pair in remove if taken.isdisjoint(map(self._place, pair.ends))], now_ns)
        self.connect(add, now_ns, move=True)

    def set_states(self, states: Mapping[str, int], now_ns: int) -> Settling:
        """Bring elements, by name, to the state of this number. Raises ConfigError for an element or state that there is not."""
        self.advance(now_ns)
        numbers = {element.name: number for number, element in enumerate(self.capabilities.elements)}
        for name, state in states.items():
            if name not in numbers:
                raise ConfigError(f"{self.name}: there is no element {name}; it has {', '.join(numbers) or 'none'}")
            if not 0 <= state < len(self.capabilities.elements[numbers[name]].states):
                raise ConfigError(f"{self.name}: element {name} has no state {state}")
        return self._move_elements({numbers[name]: state for name, state in states.items()}, now_ns)

    def set_state(self, element: str, state: int, now_ns: int) -> Settling:
        """Bring one element to the state of this number."""
        return self.set_states({element: state}, now_ns)

    @property
    def states(self) -> dict[str, int]:
        """The number of the state that each element is in."""
        return {element.name: state for element, state in zip(self.capabilities.elements, self._states, strict=True)}

    def advance(self, now_ns: int) -> tuple[Crossconnect, ...]:
        """Let time pass: the paths that became tuned, in the order in which they did."""
        if not (self._tuning or self._losses.drifts or self._monitors.watches):
            return ()
        tuned: list[Crossconnect] = []
        while self._tuning and self._tuning[0][0] <= now_ns:
            at_ns, _, path = heapq.heappop(self._tuning)
            if self._at[path.a] is path:
                path.tuned = True
                tuned.append(path.crossconnect)
                self._see((path.a, path.b), at_ns)
        drifted = self._ends_beside(self._losses.advance(now_ns))
        self._see(drifted, now_ns)
        self._monitors.advance(now_ns)
        self._changed(now_ns, told=bool(tuned or drifted))
        return tuple(tuned)

    def next_ns(self) -> int | None:
        """When `advance` has something to do; None where everything is settled."""
        while self._tuning and self._at[self._tuning[0][2].a] is not self._tuning[0][2]:
            heapq.heappop(self._tuning)  # it was dropped meanwhile
        dues = (self._tuning[0][0] if self._tuning else None, self._losses.next_ns(), self._monitors.next_ns())
        return min((due_ns for due_ns in dues if due_ns is not None), default=None)

    def readings(self, now_ns: int) -> tuple[CrossconnectReading, ...]:
        """All crossconnects, in the order of their ports."""
        self.advance(now_ns)
        return tuple(
            CrossconnectReading(crossconnect=path.crossconnect, state=self._state_of(path)) for path in self._sorted()
        )

    def crossconnects(self) -> list[Crossconnect]:
        """All crossconnects, settled or not, in the order of their ports."""
        return [path.crossconnect for path in self._sorted()]

    def crossconnect_at(self, end: PortSide) -> Crossconnect | None:
        """The one crossconnect that this end is in, settled or not."""
        path = self._at[self._place(end)]
        return None if path is None else path.crossconnect

    # --- light

    def passes(self, crossconnect: Crossconnect, now_ns: int) -> bool:
        """Whether light passes this path now."""
        self.advance(now_ns)
        path = self._path(crossconnect)
        return path is not None and self._state_of(path) is CrossconnectState.TUNED

    def passing(self, now_ns: int) -> dict[Crossconnect, float]:
        """The paths that light passes now, each with what it takes of light that goes from end a to end b."""
        self.advance(now_ns)
        return {
            path.crossconnect: self._loss_db(path)
            for path in self._sorted()
            if self._state_of(path) is CrossconnectState.TUNED
        }

    def loss_db(self, crossconnect: Crossconnect) -> float:
        """Insertion loss of a path from a to b, there or not: its own constant, and what drifts and attenuators of its ends add.

        The constant is the typical loss and one of each end; it is a little off each time the path is made.
        """
        path = self._path(crossconnect)
        if path is None:
            path = self._new_path(crossconnect)
            path.loss_db = self._losses.expected(path.a, path.b)
        return self._loss_db(path)

    def set_input(self, end: PortSide, power_dbm: float | None, now_ns: int | None = None) -> None:
        """Light that comes in through the fibre at `end`; None is dark, as all are at first. Without a time it has been so for ever."""
        place = self._place(end)
        if self._inputs_dbm[place] == power_dbm:
            return
        self._inputs_dbm[place] = power_dbm
        path = self._at[place]
        places = (place,) if path is None else (path.a, path.b)
        self._see(places, now_ns or 0, always=now_ns is None)
        limited = path is not None and self._losses.limits(path.b if place == path.a else path.a)
        self._changed(now_ns or 0, told=limited and now_ns is not None)

    def output(self, end: PortSide, now_ns: int) -> float | None:
        """Light that goes out through the fibre at `end`, in dBm; None is dark."""
        self.advance(now_ns)
        return self._output(self._place(end))

    def power(self, end: PortSide, now_ns: int, averaging_s: float = 0.0) -> float | None:
        """What a monitor at `end` reads, in dBm with its noise: on side A the light that comes in, else the light that goes out; None is dark.

        With an averaging time it is the true average of the power over that time until now. Raises BugError for one over `remembers_s`, and for an end without
        a monitor.
        """
        self.advance(now_ns)
        place = self._place(end)
        true_dbm = self._seen(place)
        if averaging_s > 0:
            averaging_ns = round(averaging_s * 1e9)
            if averaging_ns > self._monitors.window_ns or end not in self.capabilities.monitored:
                raise BugError(
                    f"{self.name}: cannot average {end} over {averaging_s} s: monitors are at "
                    f"{', '.join(map(str, self.capabilities.monitored)) or 'no end'} and remember "
                    f"{self._monitors.window_ns / 1e9} s. Give the mirror remembers_s"
                )
            true_dbm = self._monitors.average_dbm(place, now_ns, averaging_ns)
        return None if true_dbm is None else true_dbm + self._noise_draws.uniform(-NOISE_DB, NOISE_DB)

    def watch(self, watch: Watch, now_ns: int) -> None:
        """Let `watch` tell when the light at its end crosses its limits; what is over one already is told now."""
        self.advance(now_ns)
        place = self._place(watch.end)
        self._monitors.watch(place, watch, now_ns, self._seen(place))
        self._changed(now_ns, told=False)

    def unwatch(self, watch: Watch) -> None:
        self._monitors.unwatch(self._place(watch.end), watch)

    # --- shutters, attenuators

    @property
    def blocked(self) -> frozenset[PortSide]:
        """Ends that are held dark."""
        return frozenset(self.capabilities.ends[place] for place in self._blocked)

    def block(self, ends: Iterable[PortSide], now_ns: int) -> None:
        """Hold ends dark, whatever crossconnects they are in; where the mirror is stuck it stays as it is."""
        self.advance(now_ns)
        self._set_shut(
            self._blocked, self._blocked.union(map(self._place, ends)) - (self._stuck - self._blocked), now_ns
        )

    def unblock(self, ends: Iterable[PortSide], now_ns: int) -> None:
        """Let light pass again."""
        self.advance(now_ns)
        self._set_shut(self._blocked, self._blocked.difference(set(map(self._place, ends)) - self._stuck), now_ns)

    def attenuate(self, end: PortSide, db: float | None, now_ns: int, *, at_most_dbm: float | None = None) -> None:
        """The attenuator at `end` takes so much of any light, and more where more than `at_most_dbm` would go out; None is none."""
        self.advance(now_ns)
        place = self._place(end)
        self._losses.attenuate(place, db or 0.0, at_most_dbm)
        self._ends_changed([place], now_ns)

    def attenuation_db(self, end: PortSide) -> float:
        """What the attenuator at `end` takes of the light now."""
        place = self._place(end)
        path = self._at[place]
        if path is None:
            return self._losses.attenuators_db(place)
        entry = path.b if place == path.a else path.a
        return self._losses.attenuation(path.loss_db, entry, place, self._inputs_dbm[entry])

    # --- power, wear

    def power_down(self, now_ns: int) -> None:
        """The unit has no power: unless it latches, it is dark, its elements at rest in their first state, its shutters and attenuators as new."""
        self.advance(now_ns)
        if not self.powered:
            return
        self.powered = False
        self._before = (self.crossconnects(), list(self._states))
        if self.capabilities.latching:
            return
        if self._states:
            self._move_elements(dict.fromkeys(range(len(self._states)), 0), now_ns)
        else:
            self._change(list(self._paths.values()), (), now_ns)
        attenuated = self._losses.clear_attenuators()
        self._set_shut(self._blocked, self._blocked & self._stuck, now_ns)
        self._ends_changed(attenuated, now_ns)

    def power_up(self, now_ns: int, *, restore: bool) -> Settling:
        """The unit has power again, and makes the paths from before, if `restore`, as if they were commanded now. One that was up has been down for no time."""
        self.power_down(now_ns)
        self.powered = True
        pairs, states = self._before if restore else ([], [])
        if self._states:
            return self._move_elements(dict(enumerate(states)), now_ns)
        return self.connect(pairs, now_ns, move=True)

    def stick(self, ends: Iterable[PortSide]) -> None:
        """From now on the mirrors of `ends` do not move, whatever the switch says of it."""
        self._stuck.update(map(self._place, ends))

    def fail(self, ends: Iterable[PortSide], now_ns: int) -> None:
        """From now on no path of these ends can be made: it is dark, and the switch says that it failed."""
        self.advance(now_ns)
        self._set_shut(self._failed, self._failed.union(map(self._place, ends)), now_ns)

    def drift(self, ends: Iterable[PortSide], db: float, now_ns: int, *, over_s: float = 0.0) -> None:
        """Each of `ends` takes `db` more: at once, or in small steps until `over_s` from now."""
        self.advance(now_ns)
        places = [self._place(end) for end in ends]
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

    def _change(self, gone: Iterable["_Path"], wanted: Sequence["_Path"], now_ns: int) -> Settling:
        settling = self.timing.draw(len(wanted), self._settle_draws)
        stuck = self._stuck
        for path in gone:
            if path.a not in stuck and path.b not in stuck:
                self._drop(path)
        for path, optical_s in zip(wanted, settling.optical_s, strict=True):
            if path.a not in stuck and path.b not in stuck:
                self._drop(self._at[path.a])
                self._drop(self._at[path.b])
                self._put(path, optical_s, now_ns)
        if self._touched:
            touched = dict.fromkeys(self._touched)
            self._touched.clear()
            self._see(touched, now_ns)
            self._changed(now_ns)
        return settling

    def _move_elements(self, targets: Mapping[int, int], now_ns: int) -> Settling:
        gone: list[_Path] = []
        wanted: list[_Path] = []
        for number, state in targets.items():
            states = self.capabilities.elements[number].states
            old, new = states[self._states[number]], states[state]
            leaving = [path for pair in old if pair not in new and (path := self._path(pair)) is not None]
            coming = [self._new_path(pair) for pair in new if pair not in old]
            if self._stuck.isdisjoint(place for path in (*leaving, *coming) for place in (path.a, path.b)):
                self._states[number] = state
                gone += leaving
                wanted += coming
        return self._change(gone, wanted, now_ns)

    def _states_with(self, pairs: Iterable[Crossconnect]) -> dict[int, int]:
        """The state of each element that has those of `pairs` that are its own."""
        wanted: dict[int, set[Crossconnect]] = {}
        for pair in pairs:
            number, other = (self._element_at.get(self._place(end)) for end in pair.ends)
            if number is None or number != other:
                raise RefusedError(f"{self.name}: cannot connect {pair}: no element of it joins {pair.a} with {pair.b}")
            wanted.setdefault(number, set()).add(pair)
        targets = {}
        for number, own in wanted.items():
            element = self.capabilities.elements[number]
            states = [state for state, has in enumerate(element.states) if own.issubset(has)]
            if not states:
                names = ", ".join(sorted(map(str, own)))
                raise RefusedError(f"{self.name}: cannot connect {names}: element {element.name} has no such state")
            targets[number] = self._states[number] if self._states[number] in states else states[0]
        return targets

    def _dark_state(self, path: "_Path") -> int:
        element = self.capabilities.elements[self._element_at[path.a]]
        if () not in element.states:
            raise RefusedError(
                f"{self.name}: cannot disconnect {path.crossconnect}: element {element.name} is always in one of its states. "
                "Connect another"
            )
        return element.states.index(())

    def _places_held(self, pair: Crossconnect) -> set[int]:
        """The ends that making `pair` takes: its own, and with elements all of its element."""
        places = set(map(self._place, pair.ends))
        numbers = {self._element_at[place] for place in places if place in self._element_at}
        return places.union(place for place, number in self._element_at.items() if number in numbers)

    def _new_paths(self, pairs: Sequence[Crossconnect]) -> list["_Path"]:
        seen: set[int] = set()
        paths = []
        for pair in pairs:
            path = self._new_path(pair)
            for place in (path.a, path.b):
                if place in seen:
                    end = self.capabilities.ends[place]
                    raise ConfigError(f"{self.name}: {end} stands in two of the crossconnects to make; an end has one")
                seen.add(place)
            paths.append(path)
        return paths

    def _new_path(self, pair: Crossconnect) -> "_Path":
        return _Path(pair, self._place(pair.a), self._place(pair.b))

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

    def _sorted(self) -> list["_Path"]:
        return [path for _, path in sorted(self._paths.items())]

    def _state_of(self, path: "_Path") -> CrossconnectState:
        if self._failed and (path.a in self._failed or path.b in self._failed):
            return CrossconnectState.FAILED
        if self._blocked and (path.a in self._blocked or path.b in self._blocked):
            return CrossconnectState.BLOCKED
        return CrossconnectState.TUNED if path.tuned else CrossconnectState.TUNING

    def _place(self, end: PortSide) -> int:
        """Its place in `capabilities.ends`; raises ConfigError for an end that is not there."""
        place = (self._far if end.side is Side.B else self._near).get(end.port)
        if place is None or self.capabilities.ends[place].side is not end.side:
            raise ConfigError(f"{self.name}: there is no port {end}")
        return place

    def _put(self, path: "_Path", optical_s: float, now_ns: int) -> None:
        path.loss_db = self._losses.draw(path.a, path.b)
        path.tuned = optical_s <= 0
        if not path.tuned:
            self._made += 1
            heapq.heappush(self._tuning, (now_ns + round(optical_s * 1e9), self._made, path))
        self._paths[path.a] = self._at[path.a] = self._at[path.b] = path
        self._touched += (path.a, path.b)

    def _drop(self, path: "_Path | None") -> None:
        if path is not None:
            del self._paths[path.a]
            self._at[path.a] = self._at[path.b] = None
            self._touched += (path.a, path.b)

    def _set_shut(self, shut: set[int], to: set[int], now_ns: int) -> None:
        """`shut`, the blocked or the failed ends, are those in `to` from now on."""
        moved = shut ^ to
        shut.clear()
        shut.update(to)
        self._ends_changed(moved, now_ns)

    def _ends_changed(self, places: Collection[int], now_ns: int) -> None:
        """Something about the light at these ends is different; it is told where a path ends there."""
        touched = self._ends_beside(places)
        self._see(touched, now_ns)
        self._changed(now_ns, told=bool(touched))

    def _ends_beside(self, places: Iterable[int]) -> list[int]:
        """Both ends of the paths that end at these places."""
        paths = [path for place in places if (path := self._at[place]) is not None]
        return [place for path in paths for place in (path.a, path.b)]

    def _loss_db(self, path: "_Path") -> float:
        return self._losses.total(path.loss_db, path.a, path.b, self._inputs_dbm[path.a])

    def _output(self, place: int) -> float | None:
        path = self._at[place]
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
            for place in places:
                if self._monitors.sees(place):
                    self._monitors.moved(place, at_ns, self._seen(place), always=always)

    def _changed(self, now_ns: int, *, told: bool = True) -> None:
        if told:
            for callback in self.on_change:
                callback(now_ns)
        self._monitors.tell()
        for schedule in self.on_schedule:
            schedule()


class _Path:
    """A crossconnect with the places of its ends, and the constant of its loss."""

    __slots__ = ("a", "b", "crossconnect", "loss_db", "tuned")

    def __init__(self, crossconnect: Crossconnect, a: int, b: int) -> None:
        self.crossconnect = crossconnect
        self.a = a
        self.b = b
        self.loss_db = 0.0
        self.tuned = False
