"""The search for ways through a composite: one for each demand, no fibre end used twice, each element in one state, the fewest moves.

Disjoint ways through elements whose states are coupled: a hard problem in general. The search is exact. Each demand grows its way from both its ends; a step
that alone is left is taken, and takes from the element's states those that do not have it, which leaves other demands fewer steps (in a fabric of 2x2s this
is the looping algorithm of Benes networks). Where nothing follows any more, each step is tried in turn. Demands that share no element any more are searched
apart. A branch is cut off where the elements that must move by now, and those that the rest must move at least, are not fewer than in the best way known.

It counts its own steps; when it has taken as many as it may, it says so (`ExhaustedError`) and nothing follows from it.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hwd.fabric.inside import Inside

Way = tuple[tuple[int, int], ...]
"""From where light enters a part to where it leaves it, part by part, in numbers of `Inside`."""

Ways = dict[int, Way]
"""By the place of the demand."""


class ExhaustedError(Exception):
    """The search has taken as many steps as it may."""


@dataclass(slots=True)
class Effort:
    """Steps that are left; one is a crossing looked at, some 0.2 us."""

    left: int

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise ExhaustedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the search begins with. `demands`: where light enters and leaves. `present`: the number of the state of each part, None where it is not known.

    `joined`: crossings that stand in parts without states. `fixed`: ways that demands have and keep, by the place of the demand. `needed`: for parts whose
    state somebody asked for, the states that have it, as bits.
    """

    inside: Inside
    demands: tuple[tuple[int, int], ...]
    present: Sequence[int | None]
    joined: frozenset[tuple[int, int]] = frozenset()
    fixed: Mapping[int, Way] = field(default_factory=dict)
    needed: Mapping[int, int] = field(default_factory=dict)


Step = tuple[int, int, int]
"""A crossing, from entry to out, and the states that have it."""

_Sub = Generator[Any, Any, Any]


class Search:
    """One search; `feasible` and `fewest` may each be called once, in this order."""

    def __init__(self, given: Given, effort: Effort) -> None:
        inside = given.inside
        self._inside = inside
        self._effort = effort
        self._joined = given.joined
        self._fixed = given.fixed
        self._part_of = inside.part_of
        states = [len(part.element.states) if part.element else 1 for part in inside.parts]
        self._domain = [(1 << count) - 1 for count in states]
        self._present = [
            1 if part.element is None else 0 if number is None else 1 << number
            for part, number in zip(inside.parts, given.present, strict=True)
        ]
        self._moved = [False] * len(states)
        self._user = [-1] * len(inside.ends)
        self._heads = [demand[0] for demand in given.demands]
        self._tails = [demand[1] for demand in given.demands]
        self._done = [False] * len(given.demands)
        self._front: list[tuple[tuple[int, int], ...]] = [()] * len(given.demands)
        self._back: list[tuple[tuple[int, int], ...]] = [()] * len(given.demands)
        self._at: list[set[int]] = [set() for _ in states]
        self._trail: list[Callable[[], None]] = []
        self._due: dict[int, None] = {}
        self.moves = 0
        """Elements that must move, by what is settled so far."""
        self.moves_found = 0
        """Those of the ways that `feasible` found."""
        self._serves = max(
            (len(state) for part in inside.parts if part.element for state in part.element.states), default=1
        )
        self._sound = self._begin(given)

    # --- questions

    def feasible(self) -> Ways | None:
        """Some way for each demand; None where there is none."""
        if not self._sound:
            return None
        regions = {}
        for demand in self._open:
            if (outlook := self._outlook(demand)) is None:
                return None
            regions[demand] = outlook[1]
        mark = len(self._trail)
        found = all(_run(self._first(group)) for group in _apart(regions))
        ways = self._ways(range(len(self._heads))) if found else None
        self.moves_found = self.moves
        self._undo(mark)
        return ways

    def fewest(self, below: int) -> Ways | None:
        """Ways with the fewest moves of all, None where `below` moves are needed at least."""
        settled = self._ways(demand for demand in range(len(self._heads)) if self._done[demand])
        found = _run(self._least(self._open, below - 1 - self.moves)) if below > self.moves else None
        return None if found is None else settled | found[1]

    # --- from here to a way for all

    @property
    def _open(self) -> tuple[int, ...]:
        return tuple(demand for demand, done in enumerate(self._done) if not done)

    def _first(self, demands: tuple[int, ...]) -> _Sub:
        """Leaves the first that it finds in place."""
        chosen = self._choose(demand for demand in demands if not self._done[demand])
        if chosen is None:
            return True
        demand, options, at_head = chosen
        if self._outlook(demand) is None:
            return False
        for step in self._best_first(options):
            mark = len(self._trail)
            if self._take(demand, step, at_head) and self._settle() and (yield self._first(demands)):
                return True
            self._undo(mark)
        return False

    def _least(self, demands: tuple[int, ...], budget: int) -> _Sub:
        """(moves, ways) with the fewest moves more than now, at most `budget`; None where there is none. Leaves all as it was."""
        if not demands:
            return 0, {}
        outlooks = {}
        for demand in demands:
            if (outlook := self._outlook(demand)) is None:
                return None
            outlooks[demand] = outlook
        groups = _apart({demand: region for demand, (_, region) in outlooks.items()})
        least = [self._at_least([outlooks[demand][0] for demand in group]) for group in groups]
        if sum(least) > budget:
            return None
        if len(groups) > 1:
            moves, ways = 0, dict[int, Way]()
            for place, group in enumerate(groups):
                found = yield self._least_of_one(group, budget - moves - sum(least[place + 1 :]))
                if found is None:
                    return None
                moves += found[0]
                ways |= found[1]
            return moves, ways
        return (yield self._least_of_one(demands, budget))

    def _least_of_one(self, demands: tuple[int, ...], budget: int) -> _Sub:
        best: tuple[int, Ways] | None = None
        chosen = self._choose(demands)
        assert chosen is not None
        demand, options, at_head = chosen
        before = self.moves
        for step in self._best_first(options):
            mark = len(self._trail)
            if self._take(demand, step, at_head) and self._settle() and self.moves - before <= budget:
                more = self.moves - before
                settled = self._ways(one for one in demands if self._done[one])
                found = yield self._least(tuple(one for one in demands if not self._done[one]), budget - more)
                if found is not None:
                    best = more + found[0], settled | found[1]
                    budget = best[0] - 1
            self._undo(mark)
            if budget < 0:
                break
        return best

    def _at_least(self, distances: Sequence[int]) -> int:
        """Moves that these demands need: one move serves as many demands as a state has crossconnects."""
        return max(max(distances), -(-sum(distances) // max(1, self._serves)))

    def _outlook(self, demand: int) -> tuple[int, int] | None:
        """The fewest moves that this demand needs by itself, and the parts, as bits, that its way may lead through; None where it has none."""
        inside, user, domain, tail = self._inside, self._user, self._domain, self._tails[demand]
        head = self._heads[demand]
        region = 1 << self._part_of[head]
        layer, after, moves = [head], list[int](), 0
        best: int | None = None
        reached: dict[int, int] = {head: 0}
        looked = 0
        while layer:
            entry = layer.pop()
            if reached[entry] == moves:
                part = self._part_of[entry]
                region |= 1 << part
                for out, states in inside.crossings[entry]:
                    looked += 1
                    if not states & domain[part]:
                        continue
                    costs = moves + self._costs(part, states, entry, out)
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
        self._effort.spend(looked)
        return None if best is None else (best, region | 1 << self._part_of[tail])

    def _costs(self, part: int, states: int, entry: int, out: int) -> int:
        if self._inside.parts[part].element is None:
            return (entry, out) not in self._joined
        return not (self._moved[part] or states & self._domain[part] & self._present[part])

    def _choose(self, demands: Iterable[int]) -> tuple[int, list[Step], bool] | None:
        """The demand that has come the least far, from outside in, at its end with the fewer steps to choose from."""
        demand = min(demands, key=lambda one: len(self._front[one]) + len(self._back[one]), default=None)
        if demand is None:
            return None
        ahead, behind = self._options(demand, True), self._options(demand, False)
        return (demand, ahead, True) if len(ahead) <= len(behind) else (demand, behind, False)

    def _best_first(self, options: list[Step]) -> list[Step]:
        return sorted(options, key=lambda step: self._costs(self._part_of[step[0]], step[2], step[0], step[1]))

    # --- steps and what follows from them

    def _begin(self, given: Given) -> bool:
        for part, states in given.needed.items():
            if not self._narrow(part, states):
                return False
        for demand, (head, tail) in enumerate(given.demands):
            self._user[head] = self._user[tail] = demand
        for demand, way in given.fixed.items():
            if not all(self._stand(demand, entry, out) for entry, out in way):
                return False
            self._front[demand], self._done[demand] = way, True
        for demand, (head, tail) in enumerate(given.demands):
            if not self._done[demand]:
                self._at[self._part_of[head]].add(demand)
                self._at[self._part_of[tail]].add(demand)
                self._due[demand] = None
        return self._settle()

    def _stand(self, demand: int, entry: int, out: int) -> bool:
        """Whether a crossing of a fixed way can be used."""
        for end in (entry, out):
            if self._user[end] not in (-1, demand):
                return False
            self._user[end] = demand
        states = next((states for other, states in self._inside.crossings[entry] if other == out), 0)
        return self._narrow(self._part_of[entry], states)

    def _options(self, demand: int, at_head: bool) -> list[Step]:
        """Steps that the way of this demand can be made longer by, at its head or at its tail."""
        inside, user, head, tail = self._inside, self._user, self._heads[demand], self._tails[demand]
        found = []
        if at_head:
            domain = self._domain[self._part_of[head]]
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
            domain = self._domain[self._part_of[tail]]
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
        self._effort.spend(len(crossings) + 1)
        return found

    def _take(self, demand: int, step: Step, at_head: bool) -> bool:
        """Make the way longer by one crossing; False where its part can have none of its states any more."""
        entry, out, _ = step
        part = self._part_of[entry]
        head, tail, front, back = self._heads[demand], self._tails[demand], self._front[demand], self._back[demand]
        if entry == head and out == tail:
            self._front[demand], self._done[demand] = (*front, (entry, out)), True
            gone = {part, self._part_of[tail]}
            for one in gone:
                self._at[one].discard(demand)

            def undo_last() -> None:
                self._front[demand], self._done[demand] = front, False
                for one in gone:
                    self._at[one].add(demand)

            self._trail.append(undo_last)
            return self._settled_at(part, part, demand, step)
        if at_head:
            near, far = out, self._inside.wires[out]
            self._front[demand], self._heads[demand] = (*front, (entry, out)), far
        else:
            near, far = entry, self._inside.sources[entry]
            self._back[demand], self._tails[demand] = ((entry, out), *back), far
        other = self._part_of[tail if at_head else head]
        arrived = self._part_of[far]
        self._user[near] = self._user[far] = demand
        here = part != other
        if here:
            self._at[part].discard(demand)
        new = demand not in self._at[arrived]
        self._at[arrived].add(demand)

        def undo() -> None:
            self._front[demand], self._back[demand] = front, back
            self._heads[demand], self._tails[demand] = head, tail
            self._user[near] = self._user[far] = -1
            if new:
                self._at[arrived].discard(demand)
            if here:
                self._at[part].add(demand)

        self._trail.append(undo)
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
        """Leave a part only these of its states; False where none is left."""
        before = self._domain[part]
        after = before & states
        if after != before:
            self._domain[part] = after

            def undo() -> None:
                self._domain[part] = before

            self._trail.append(undo)
            for demand in self._at[part]:
                self._due[demand] = None
        if after and not self._moved[part] and not after & self._present[part]:
            self._moved[part] = True

            def undo_moved() -> None:
                self._moved[part] = False

            self._trail.append(undo_moved)
            self._count_move()
        return bool(after)

    def _count_move(self) -> None:
        self.moves += 1

        def undo() -> None:
            self.moves -= 1

        self._trail.append(undo)

    def _settle(self) -> bool:
        """Take every step that alone is left, and from parts the states that no demand which ends there can use; False where a demand has none."""
        while self._due:
            demand = next(iter(self._due))
            del self._due[demand]
            for at_head in (True, False):
                if self._done[demand]:
                    break
                options = self._options(demand, at_head)
                states = 0
                for step in options:
                    states |= step[2]
                part = self._part_of[self._heads[demand] if at_head else self._tails[demand]]
                if not (self._narrow(part, states) if len(options) != 1 else self._take(demand, options[0], at_head)):
                    self._due.clear()
                    return False
        return True

    def _undo(self, mark: int) -> None:
        self._due.clear()
        while len(self._trail) > mark:
            self._trail.pop()()

    def _ways(self, demands: Iterable[int]) -> Ways:
        return {demand: (*self._front[demand], *self._back[demand]) for demand in demands}


def _apart(regions: Mapping[int, int]) -> list[tuple[int, ...]]:
    """Demands in groups that have no part in common."""
    groups: list[tuple[int, list[int]]] = []
    for demand, region in regions.items():
        members, others = [demand], []
        for group in groups:
            if group[0] & region:
                region |= group[0]
                members += group[1]
            else:
                others.append(group)
        groups = [*others, (region, members)]
    return [tuple(sorted(members)) for _, members in groups]


def _run(first: _Sub) -> Any:
    """Runs generators that yield generators, without nesting them: a search may go deeper than the interpreter's stack."""
    stack = [first]
    answer: Any = None
    while stack:
        try:
            stack.append(stack[-1].send(answer))
            answer = None
        except StopIteration as ended:
            stack.pop()
            answer = ended.value
    return answer
