"""The search for paths through a composite: one for each demand, no fibre end used twice, each element in one state,
the fewest moves.

Disjoint paths through elements whose states are coupled are a hard problem in general. The search is exact. Each demand
extends its path from both its ends. A step that is the only one left is taken, and excludes the element's states that
do not have it, which leaves other demands fewer steps (in a fabric of 2x2s this is the looping algorithm of Benes
networks). Where nothing follows any more, each step is tried in turn. Demands without a common element are searched
separately. A branch is cut off where the moves so far, plus a lower bound for the rest, are not fewer than in the best
solution.

It counts its steps; when they are used up it raises `ExhaustedError`, and nothing is proved.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

from hwd.fabric.partial_paths import Effort, PartialPaths, PathProblem, Step, Ways

_Sub = Generator[Any, Any, Any]


class Search:
    """One search: `feasible`, and then `fewest` where that found something. Both raise ExhaustedError."""

    def __init__(self, given: PathProblem, effort: Effort) -> None:
        inside = given.inside
        self._growth = PartialPaths(given, effort)
        self.moves_found = 0
        """Moves of the paths that `feasible` found."""
        self._serves = max(
            (len(state) for part in inside.parts if part.element for state in part.element.states), default=1
        )
        self._passes = self._serves if inside.comes_back else 1
        """Crossings of one path that one move may serve."""

    @property
    def at_least(self) -> int:
        """A lower bound of the moves, from the problem alone; valid after `feasible`."""
        return self._growth.moves

    # --- questions

    def feasible(self) -> Ways | None:
        """Some path for each demand; None where there is none."""
        if not self._growth.begin():
            return None
        regions = {}
        for demand in self._growth.open:
            if (outlook := self._growth.outlook(demand)) is None:
                return None
            regions[demand] = outlook[1]
        mark = len(self._growth.trail)
        found = all(_run(self._first(group)) for group in _apart(regions))
        ways = self._growth.ways(range(len(self._growth.heads))) if found else None
        self.moves_found = self._growth.moves
        self._growth.undo(mark)
        return ways

    def fewest(self, below: int) -> Ways | None:
        """Paths with the fewest moves; None where at least `below` moves are needed."""
        settled = self._growth.ways(demand for demand in range(len(self._growth.heads)) if self._growth.done[demand])
        found = (
            _run(self._least(self._growth.open, below - 1 - self._growth.moves)) if below > self._growth.moves else None
        )
        return None if found is None else settled | found[1]

    # --- from the present state to a path for all

    def _first(self, demands: tuple[int, ...]) -> _Sub:
        """Leaves the first solution in place."""
        chosen = self._choose(demand for demand in demands if not self._growth.done[demand])
        if chosen is None:
            return True
        demand, options, at_head = chosen
        if self._growth.outlook(demand) is None:
            return False
        for step in self._best_first(options):
            mark = len(self._growth.trail)
            if self._growth.take(demand, step, at_head) and self._growth.settle() and (yield self._first(demands)):
                return True
            self._growth.undo(mark)
        return False

    def _least(self, demands: tuple[int, ...], budget: int) -> _Sub:
        """(moves, paths) with the fewest additional moves, at most `budget`; None where there is none.
        Restores the state.
        """
        if not demands:
            return 0, {}
        outlooks = {}
        for demand in demands:
            if (outlook := self._growth.outlook(demand)) is None:
                return None
            outlooks[demand] = outlook
        groups = _apart({demand: region for demand, (_, region) in outlooks.items()})
        least = [self._at_least([outlooks[demand][0] for demand in group]) for group in groups]
        if sum(least) > budget:
            return None
        if len(groups) > 1:
            moves, ways = 0, Ways()
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
        before = self._growth.moves
        for step in self._best_first(options):
            mark = len(self._growth.trail)
            if (
                self._growth.take(demand, step, at_head)
                and self._growth.settle()
                and self._growth.moves - before <= budget
            ):
                more = self._growth.moves - before
                settled = self._growth.ways(one for one in demands if self._growth.done[one])
                found = yield self._least(tuple(one for one in demands if not self._growth.done[one]), budget - more)
                if found is not None:
                    best = more + found[0], settled | found[1]
                    budget = best[0] - 1
            self._growth.undo(mark)
            if budget < 0:
                break
        return best

    def _at_least(self, distances: Sequence[int]) -> int:
        """Moves that these demands need: one move serves as many crossings as a state has crossconnects, of one demand
        where its path comes back.
        """
        return max(-(-max(distances) // max(1, self._passes)), -(-sum(distances) // max(1, self._serves)))

    def _choose(self, demands: Iterable[int]) -> tuple[int, list[Step], bool] | None:
        """The demand with the shortest partial path, from outside in, at its end with fewer steps to choose from."""
        demand = min(demands, key=lambda one: len(self._growth.front[one]) + len(self._growth.back[one]), default=None)
        if demand is None:
            return None
        ahead, behind = self._growth.options(demand, True), self._growth.options(demand, False)
        return (demand, ahead, True) if len(ahead) <= len(behind) else (demand, behind, False)

    def _best_first(self, options: list[Step]) -> list[Step]:
        return sorted(
            options, key=lambda step: self._growth.costs(self._growth.part_of[step[0]], step[2], step[0], step[1])
        )


def _apart(regions: Mapping[int, int]) -> list[tuple[int, ...]]:
    """Demands in groups without a common part."""
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
    """Runs generators that yield generators, without nesting them: a search may go deeper than the
    interpreter's stack.
    """
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
