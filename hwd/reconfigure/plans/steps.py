"""The steps of a plan: its moves in an order in which the fewest links are dark at once.

What moves together is a group: the crossconnects that a new link adds, those that share an element of a switch, and
what is in their way.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hwd.model.circuit import RoutedLink
from hwd.model.link import Link, SwitchCrossconnect, switch_crossconnect
from hwd.model.nic_port import NicPortId
from hwd.model.plan_summary import PlanMoves, PlanOrder, PlanStep
from hwd.reconfigure.plans.move_order import Group, InterruptedLink, order_of
from hwd_drivers.core.values import Crossconnect, Element, natural_key
from hwd_drivers.switching.moves import SwitchMoves


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A change of crossconnects, from which the order of moves follows.

    `before`, `after`: the links that are lit before and after `moves`, with their crossconnects. `elements`: of each
    switch that has some.
    """

    moves: Sequence[SwitchMoves]
    before: Sequence[RoutedLink]
    after: Sequence[RoutedLink]
    elements: Mapping[str, Sequence[Element]]


def steps_of(transition: Transition) -> tuple[PlanOrder, tuple[tuple[SwitchMoves, ...], ...]]:
    """The steps, and the moves of each. Each holds by itself: an end is in at most one crossconnect, and only links of
    the plan are dark.

    See `order_of` for what is minimal.
    """
    groups = _Groups(transition)
    order = order_of(len(groups), [one for _, one in groups.interrupted])
    step_of = {group: number for number, step in enumerate(order.steps) for group in step}
    links = [link for link, _ in groups.interrupted]
    moves = (*groups.moves_by_step(step_of),)
    steps = [
        PlanStep(
            moves=[*map(PlanMoves.of, moved)],
            made=sorted((link for link, group in groups.made.items() if step_of[group] == number), key=natural_key),
            dark=sorted((links[one] for one in dark), key=natural_key),
        )
        for number, (moved, dark) in enumerate(zip(moves, order.dark, strict=True))
    ]
    found = PlanOrder.of(
        steps,
        dark_at_least=order.dark_at_least,
        steps_at_least=order.steps_at_least,
        dark_all_at_once=len(links),
    )
    return found, moves


class _Groups:
    """The groups of a transition, and the links that each of them interrupts or makes."""

    def __init__(self, transition: Transition) -> None:
        self._moves = transition.moves
        self._added = [switch_crossconnect(move.switch, one) for move in transition.moves for one in move.add]
        self._removed = [switch_crossconnect(move.switch, one) for move in transition.moves for one in move.remove]
        self._number: dict[SwitchCrossconnect, Group] = {}
        self._count = self._join(transition)
        self._first: dict[SwitchCrossconnect, frozenset[Group]] = {}
        """The groups that need each crossconnect to remove gone. It goes with the first of them."""
        taken = {(one.switch, end): self._number[one] for one in self._added for end in one.crossconnect.ends}
        for one in self._removed:
            own = {self._number[one]} if one in self._number else set[Group]()
            in_way = (taken.get((one.switch, end)) for end in one.crossconnect.ends)
            self._first[one] = frozenset(own) or frozenset(group for group in in_way if group is not None)
        self.made: dict[Link, Group] = {}
        for link in transition.after:
            for one in link.crossconnects:
                if one in self._number:
                    self.made[link.link] = self._number[one]
        self.interrupted = [*self._interrupted(transition.before)]
        self._count = max(self._count, 1 if self._removed else 0)  # what is only removed makes one step

    def __len__(self) -> int:
        return self._count

    def moves_by_step(self, step_of: Mapping[Group, int]) -> Iterator[tuple[SwitchMoves, ...]]:
        """The moves of each switch in each step, with what is there before it."""
        there = {move.switch: move.before for move in self._moves}
        made: dict[str, tuple[Crossconnect, ...]] = {move.switch: () for move in self._moves}
        removes: dict[tuple[str, int], list[Crossconnect]] = {}
        adds: dict[tuple[str, int], list[Crossconnect]] = {}
        for one in self._removed:
            removes.setdefault((one.switch, self._step(self._first[one], step_of)), []).append(one.crossconnect)
        for one in self._added:
            adds.setdefault((one.switch, step_of[self._number[one]]), []).append(one.crossconnect)
        for number in range(1 + max(step_of.values(), default=-1)):
            step: list[SwitchMoves] = []
            for move in self._moves:
                remove, add = (tuple(part.get((move.switch, number), ())) for part in (removes, adds))
                if not (remove or add):
                    continue
                before, gone, changed = there[move.switch], frozenset(remove), frozenset((*remove, *add))
                step.append(
                    SwitchMoves(
                        switch=move.switch,
                        remove=remove,
                        add=add,
                        keep=(*move.keep, *made[move.switch]),
                        before=before,
                        failed=tuple(one for one in move.failed if one in before) if move.failed else (),
                        lasting=tuple(one for one in move.lasting if one in changed),
                    )
                )
                there[move.switch] = (*(one for one in before if one not in gone), *add)
                made[move.switch] += add
            yield tuple(step)

    def _step(self, groups: frozenset[Group], step_of: Mapping[Group, int]) -> int:
        return min((step_of[group] for group in groups), default=0)

    def _join(self, transition: Transition) -> int:
        """Number what moves together; returns how many groups there are."""
        parent: dict[SwitchCrossconnect, SwitchCrossconnect] = {one: one for one in self._added}

        def root(one: SwitchCrossconnect) -> SwitchCrossconnect:
            while parent[one] != one:
                parent[one] = parent[parent[one]]
                one = parent[one]
            return one

        def join(some: Iterable[SwitchCrossconnect]) -> None:
            for one, other in pairwise(some):
                parent[root(other)] = root(one)

        changed = set(self._removed).union(self._added)
        for move in transition.moves:
            for element in transition.elements.get(move.switch, ()):
                of_element = [
                    one for each in element.crossconnects if (one := switch_crossconnect(move.switch, each)) in changed
                ]
                parent |= {one: one for one in of_element if one not in parent}
                join(of_element)
        for link in transition.after:
            join(one for one in link.crossconnects if one in parent)
        numbers: dict[SwitchCrossconnect, Group] = {}
        for one in (*self._added, *self._removed):
            if one in parent:
                self._number[one] = numbers.setdefault(root(one), len(numbers))
        return len(numbers)

    def _interrupted(self, links: Iterable[RoutedLink]) -> Iterator[tuple[Link, InterruptedLink]]:
        """The links that lose a crossconnect, and have ends that get light again."""
        made_at: dict[NicPortId, set[Group]] = {}
        for link, group in self.made.items():
            for end in link.ends:
                made_at.setdefault(end, set()).add(group)
        cut = {one.link: loses for one in links if (loses := one.crossconnects & self._first.keys())}
        good_by = {link: frozenset(group for end in link.ends for group in made_at.get(end, ())) for link in cut}
        for link, loses in cut.items():  # nothing needs it gone by itself: it goes as soon as its link is dark
            cut_by = frozenset[Group]().union(*(self._first[one] for one in loses)) or good_by[link]
            for one in loses:
                self._first[one] = self._first[one] or cut_by
        for link, loses in cut.items():
            cut_by = frozenset[Group]().union(*(self._first[one] for one in loses))
            if cut_by and good_by[link]:
                yield link, InterruptedLink(cut_by=cut_by, good_by=good_by[link])
