"""Partial paths through a composite, extended from both ends: steps, their consequences, and undo."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hwd.fabric.composite_parts import CompositeParts

Way = tuple[tuple[int, int], ...]
"""The crossings of one path, (entry, exit) part by part, in numbers of `CompositeParts`."""

Ways = dict[int, Way]
"""By the index of the demand."""


class ExhaustedError(Exception):
    """The search has used up its steps."""


@dataclass(slots=True)
class Effort:
    """The steps that are left; one is a crossing that is examined, some 0.2 us."""

    left: int

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise ExhaustedError


@dataclass(frozen=True, slots=True, kw_only=True)
class PathProblem:
    """The problem. `demands`: entry and exit of each. `present`: the number of the state of each part, None where it is
    unknown.

    `joined`: crossings that exist in parts without states. `fixed`: paths that demands have and keep, by the index of
    the demand. `needed`: for parts whose state is prescribed, the allowed states, as bits.
    """

    inside: CompositeParts
    demands: tuple[tuple[int, int], ...]
    present: Sequence[int | None]
    joined: frozenset[tuple[int, int]] = frozenset()
    fixed: Mapping[int, Way] = field(default_factory=dict)
    needed: Mapping[int, int] = field(default_factory=dict)


Step = tuple[int, int, int]
"""A crossing, from entry to exit, and the states that have it."""


class PartialPaths:
    """The paths that are decided so far, and the consequences. Each change is on the trail, and `undo` reverts it."""

    def __init__(self, given: PathProblem, effort: Effort) -> None:
        inside = given.inside
        self._inside = inside
        self.effort = effort
        self._joined = given.joined
        self._fixed = given.fixed
        self.part_of = inside.part_of
        states = [len(part.element.states) if part.element else 1 for part in inside.parts]
        self._domain = [(1 << count) - 1 for count in states]
        self._present = [
            1 if part.element is None else 0 if number is None else 1 << number
            for part, number in zip(inside.parts, given.present, strict=True)
        ]
        self._moved = [False] * len(states)
        self._user = [-1] * len(inside.ends)
        self.heads = [demand[0] for demand in given.demands]
        self._tails = [demand[1] for demand in given.demands]
        self.done = [False] * len(given.demands)
        self.front: list[tuple[tuple[int, int], ...]] = [()] * len(given.demands)
        self.back: list[tuple[tuple[int, int], ...]] = [()] * len(given.demands)
        self._at: list[set[int]] = [set() for _ in states]
        self.trail: list[Callable[[], None]] = []
        self._due: dict[int, None] = {}
        self.moves = 0
        """Elements that must move by what is decided so far."""
        self._given = given

    @property
    def open(self) -> tuple[int, ...]:
        return tuple(demand for demand, done in enumerate(self.done) if not done)

    # --- steps and their consequences

    def begin(self) -> bool:
        """Apply the problem's fixed parts; False where they leave some demand without a path. Raises ExhaustedError, as
        do all methods below.
        """
        given = self._given
        for part, states in given.needed.items():
            if not self._narrow(part, states):
                return False
        for demand, (head, tail) in enumerate(given.demands):
            self._user[head] = self._user[tail] = demand
        for demand, way in given.fixed.items():
            if not all(self._stand(demand, entry, out) for entry, out in way):
                return False
            self.front[demand], self.done[demand] = way, True
        for demand, (head, tail) in enumerate(given.demands):
            if not self.done[demand]:
                self._at[self.part_of[head]].add(demand)
                self._at[self.part_of[tail]].add(demand)
                self._due[demand] = None
        return self.settle()

    def _stand(self, demand: int, entry: int, out: int) -> bool:
        """Whether a crossing of a fixed path can be used."""
        for end in (entry, out):
            if self._user[end] not in (-1, demand):
                return False
            self._user[end] = demand
        states = next((states for other, states in self._inside.crossings[entry] if other == out), 0)
        return self._narrow(self.part_of[entry], states)

    def options(self, demand: int, at_head: bool) -> list[Step]:
        """Steps that can extend the path of this demand, at its head or at its tail."""
        inside, user, head, tail = self._inside, self._user, self.heads[demand], self._tails[demand]
        found = []
        if at_head:
            domain = self._domain[self.part_of[head]]
            crossings = inside.crossings[head]
            for out, states in crossings:
                if not states & domain:
                    continue
                if out == tail:
                    found.append((head, out, states))
                    continue
                onward = inside.wires.get(out, -1) if user[out] == -1 else -1
                if onward >= 0 and user[onward] == -1 and inside.reach[onward] >> tail & 1:
                    found.append((head, out, states))
        else:
            domain = self._domain[self.part_of[tail]]
            crossings = inside.entries[tail]
            for entry, states in crossings:
                if not states & domain:
                    continue
                if entry == head:
                    found.append((entry, tail, states))
                    continue
                source = inside.sources.get(entry, -1) if user[entry] == -1 else -1
                if source >= 0 and user[source] == -1 and inside.reach[head] >> source & 1:
                    found.append((entry, tail, states))
        self.effort.spend(len(crossings) + 1)
        return found

    def take(self, demand: int, step: Step, at_head: bool) -> bool:
        """Extend the path by one crossing; False where no state is left for its part."""
        entry, out, _ = step
        part = self.part_of[entry]
        head, tail, front, back = self.heads[demand], self._tails[demand], self.front[demand], self.back[demand]
        if entry == head and out == tail:
            self.front[demand], self.done[demand] = (*front, (entry, out)), True
            gone = {part, self.part_of[tail]}
            for one in gone:
                self._at[one].discard(demand)

            def undo_last() -> None:
                self.front[demand], self.done[demand] = front, False
                for one in gone:
                    self._at[one].add(demand)

            self.trail.append(undo_last)
            return self._settled_at(part, part, demand, step)
        if at_head:
            near, far = out, self._inside.wires[out]
            self.front[demand], self.heads[demand] = (*front, (entry, out)), far
        else:
            near, far = entry, self._inside.sources[entry]
            self.back[demand], self._tails[demand] = ((entry, out), *back), far
        other = self.part_of[tail if at_head else head]
        arrived = self.part_of[far]
        self._user[near] = self._user[far] = demand
        here = part != other
        if here:
            self._at[part].discard(demand)
        new = demand not in self._at[arrived]
        self._at[arrived].add(demand)

        def undo() -> None:
            self.front[demand], self.back[demand] = front, back
            self.heads[demand], self._tails[demand] = head, tail
            self._user[near] = self._user[far] = -1
            if new:
                self._at[arrived].discard(demand)
            if here:
                self._at[part].add(demand)

        self.trail.append(undo)
        self._due[demand] = None
        return self._settled_at(part, arrived, demand, step)

    def _settled_at(self, part: int, arrived: int, demand: int, step: Step) -> bool:
        if self._inside.parts[part].element is None and (step[0], step[1]) not in self._joined:
            self._count_move()
        for place in (part, arrived):
            for other in self._at[place]:
                self._due[other] = None
        return self._narrow(part, step[2])

    def _narrow(self, part: int, states: int) -> bool:
        """Restrict a part to these states; False where none is left."""
        before = self._domain[part]
        after = before & states
        if after != before:
            self._domain[part] = after

            def undo() -> None:
                self._domain[part] = before

            self.trail.append(undo)
            for demand in self._at[part]:
                self._due[demand] = None
        if after and not self._moved[part] and not after & self._present[part]:
            self._moved[part] = True

            def undo_moved() -> None:
                self._moved[part] = False

            self.trail.append(undo_moved)
            self._count_move()
        return bool(after)

    def _count_move(self) -> None:
        self.moves += 1

        def undo() -> None:
            self.moves -= 1

        self.trail.append(undo)

    def settle(self) -> bool:
        """Take every step that is the only one left, and exclude states that no demand ending in a part can use; False
        where a demand has no step.
        """
        while self._due:
            demand = next(iter(self._due))
            del self._due[demand]
            for at_head in (True, False):
                if self.done[demand]:
                    break
                options = self.options(demand, at_head)
                states = 0
                for step in options:
                    states |= step[2]
                part = self.part_of[self.heads[demand] if at_head else self._tails[demand]]
                if not (self._narrow(part, states) if len(options) != 1 else self.take(demand, options[0], at_head)):
                    self._due.clear()
                    return False
        return True

    def undo(self, mark: int) -> None:
        self._due.clear()
        while len(self.trail) > mark:
            self.trail.pop()()

    def ways(self, demands: Iterable[int]) -> Ways:
        return {demand: (*self.front[demand], *self.back[demand]) for demand in demands}

    # --- lower bound of one demand

    def outlook(self, demand: int) -> tuple[int, int] | None:
        """The fewest moves that this demand needs alone, and the parts, as bits, that its path may use; None where it
        has none.
        """
        inside, user, domain, tail = self._inside, self._user, self._domain, self._tails[demand]
        head = self.heads[demand]
        region = 1 << self.part_of[head]
        layer, after, moves = [head], list[int](), 0
        best: int | None = None
        reached: dict[int, int] = {head: 0}
        looked = 0
        while layer:
            entry = layer.pop()
            if reached[entry] == moves:
                part = self.part_of[entry]
                region |= 1 << part
                for out, states in inside.crossings[entry]:
                    looked += 1
                    if not states & domain[part]:
                        continue
                    costs = moves + self.costs(part, states, entry, out)
                    if out == tail:
                        best = costs if best is None else min(best, costs)
                        continue
                    if user[out] != -1 or (onward := inside.wires.get(out)) is None or user[onward] != -1:
                        continue
                    if inside.reach[onward] >> tail & 1 and reached.get(onward, costs + 1) > costs:
                        reached[onward] = costs
                        (layer if costs == moves else after).append(onward)
            if not layer:
                layer, after, moves = after, [], moves + 1
        self.effort.spend(looked)
        return None if best is None else (best, region | 1 << self.part_of[tail])

    def costs(self, part: int, states: int, entry: int, out: int) -> int:
        if self._inside.parts[part].element is None:
            return (entry, out) not in self._joined
        return not (self._moved[part] or states & self._domain[part] & self._present[part])
