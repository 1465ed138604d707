"""The order of moves: which go first, so that the fewest links are dark at once, and then in the fewest steps.

No I/O, and no switch: `Group` is what moves together, `InterruptedLink` is a link that is dark meanwhile.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

EXACT_GROUPS: Final = 10
"""The most groups that depend on each other of which every order is tried: twice as long for each one more."""
EXACT_STEPS: Final = 8
"""The most groups of which every division into steps is tried: three times as long for each one more."""
STARTS: Final = 8
"""The number of groups that are tried as the first, where there are more than `EXACT_GROUPS`."""

Group = int
"""The number of some moves that go together, from 0 on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptedLink:
    """A link that moves take away, and after which its ends have light again.

    `cut_by`: the first of these groups takes its light. `good_by`: all of these together give its ends light again.
    """

    cut_by: frozenset[Group]
    good_by: frozenset[Group]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Groups step by step. `dark`: by step, the numbers of the interrupted links that are dark in it.

    `dark_at_least`: no order has fewer links dark at once. `steps_at_least`: nor, with as few, fewer steps.
    """

    steps: tuple[tuple[Group, ...], ...]
    dark: tuple[tuple[int, ...], ...]
    dark_at_least: int
    steps_at_least: int

    @property
    def dark_at_once(self) -> int:
        return max(map(len, self.dark), default=0)


def order_of(groups: int, links: Sequence[InterruptedLink]) -> Order:
    """The order of all groups: minimal in the most links that are dark at once, then in the number of steps.

    A link is dark in a step where a group up to that step cuts it, and not all that make it good come before. The first
    number is proven minimal where groups that depend on each other are at most `EXACT_GROUPS`, or form a ring or a
    chain; the second where all are at most `EXACT_STEPS`. `Order` has the bounds.
    """
    search = _Search(groups, links)
    sequences = [search.sequence(part) for part in search.parts]
    most = max((search.most_dark(one) for one in sequences), default=0)
    dark_at_least = max((search.least_dark(part) for part in search.parts), default=0)
    if sum(map(len, sequences)) <= EXACT_STEPS:
        steps = search.fewest_steps(most)
        steps_at_least = len(steps)
    else:
        steps = search.packed(sequences, most)
        # a link is dark at least in the step of a group that cuts it and helps to make it good
        surely_dark = sum(bool(link.cut & link.good) for link in search.links)
        steps_at_least = -(-surely_dark // max(1, most))
    if free := set(range(groups)).difference(*steps):  # no link is dark for these
        steps = [sorted((*steps[0], *free)), *steps[1:]] if steps else [sorted(free)]
        steps_at_least = max(steps_at_least, 1)
    return Order(
        steps=tuple(map(tuple, steps)),
        dark=tuple(search.dark_by_step(steps)),
        dark_at_least=dark_at_least,
        steps_at_least=steps_at_least,
    )


class _Search:
    """Sets of groups are bits of a number: bit 3 is group 3."""

    def __init__(self, groups: int, links: Sequence[InterruptedLink]) -> None:
        self.links = [
            _Link(number=number, cut=_bits(one.cut_by), good=_bits(one.good_by))
            for number, one in enumerate(links)
            if one.cut_by and one.good_by
        ]
        self._of: dict[Group, list[_Link]] = {}
        for link in self.links:
            for group in _members(link.cut | link.good):
                self._of.setdefault(group, []).append(link)
        self.parts = [*self._connected(groups)]

    def sequence(self, part: Sequence[Group]) -> list[Group]:
        """These groups one by one, so that the fewest links are dark at once."""
        return self._best(part) if len(part) <= EXACT_GROUPS else self._swept(part)

    def most_dark(self, sequence: Sequence[Group]) -> int:
        """The most links that are dark at once where these groups go one by one."""
        links, done, most = self._links_of(sequence), 0, 0
        for group in sequence:
            most = max(most, _dark(links, done, done | 1 << group))
            done |= 1 << group
        return most

    def least_dark(self, part: Sequence[Group]) -> int:
        """No order of these groups has fewer links dark at once."""
        if len(part) <= EXACT_GROUPS:
            return self.most_dark(self._best(part))
        is_ring = (
            len(part) > 2
            and all(len(self._of[group]) == 2 for group in part)
            and all(link.cut == link.good and link.cut.bit_count() == 2 for link in self._links_of(part))
        )
        if is_ring:
            return 3  # the first group leaves two links dark, and any other one cuts a third
        return max(sum(bool(link.cut & link.good & 1 << group) for link in self._of[group]) for group in part)

    def fewest_steps(self, most: int) -> list[list[Group]]:
        """The fewest steps with at most so many links dark: every division is tried, shorter ones first."""
        every = _bits(self._of)
        came: dict[int, int] = {0: 0}
        layer = [0]
        while every not in came:
            following: list[int] = []
            for done in layer:
                rest = every & ~done
                step = rest
                while step:
                    if done | step not in came and _dark(self.links, done, done | step) <= most:
                        came[done | step] = done
                        following.append(done | step)
                    step = (step - 1) & rest
            layer = following
        steps: list[list[Group]] = []
        done = every
        while done:
            steps.append([*_members(done & ~came[done])])
            done = came[done]
        return steps[::-1]

    def packed(self, sequences: Iterable[Sequence[Group]], most: int) -> list[list[Group]]:
        """Steps by first fit: sequence after sequence, as fast as `most` lets each, and beside it what fits whole."""
        waiting = sorted(sequences, key=lambda one: (-len(self._links_of(one)), one))
        steps: list[list[Group]] = []
        while waiting:
            sequence = waiting.pop(0)
            links, done, at = self._links_of(sequence), 0, 0
            while at < len(sequence):
                begun, dark, step = done, 0, list[Group]()
                while at < len(sequence) and (more := _dark(links, begun, done | 1 << sequence[at])) <= most:
                    step.append(sequence[at])
                    done, dark, at = done | 1 << sequence[at], more, at + 1
                beside: list[Sequence[Group]] = []
                for other in waiting:
                    if dark + len(self._links_of(other)) <= most:
                        dark += len(self._links_of(other))
                        beside.append(other)
                waiting = [one for one in waiting if one not in beside]
                steps.append(sorted([*step, *(group for other in beside for group in other)]))
        return steps

    def dark_by_step(self, steps: Iterable[Iterable[Group]]) -> Iterator[tuple[int, ...]]:
        """The numbers of the links that are dark in each step."""
        done = 0
        for step in steps:
            then = done | _bits(step)
            yield tuple(link.number for link in self.links if link.cut & then and link.good & ~done)
            done = then

    def _connected(self, groups: int) -> Iterator[list[Group]]:
        """The groups that links make depend on each other, directly or through others."""
        left = {group for group in range(groups) if group in self._of}
        while left:
            found, new = set[Group](), {min(left)}
            while new:
                found |= new
                new = {near for group in new for near in self._near(group)} - found
            left -= found
            yield sorted(found)

    def _near(self, group: Group) -> set[Group]:
        return {one for link in self._of[group] for one in _members(link.cut | link.good)}

    def _links_of(self, part: Iterable[Group]) -> list["_Link"]:
        return [*{link.number: link for group in part for link in self._of[group]}.values()]

    def _best(self, part: Sequence[Group]) -> list[Group]:
        """Find the best order by the best way to each set of groups that are done."""
        links = self._links_of(part)
        best: dict[int, tuple[int, list[Group]]] = {0: (0, [])}
        for _ in part:
            following: dict[int, tuple[int, list[Group]]] = {}
            for done, (most, before) in best.items():
                for group in part:
                    then = done | 1 << group
                    if then == done:
                        continue
                    dark = max(most, _dark(links, done, then))
                    if then not in following or dark < following[then][0]:
                        following[then] = dark, [*before, group]
            best = following
        ((_, sequence),) = best.values()
        return sequence

    def _swept(self, part: Sequence[Group]) -> list[Group]:
        """Always beside what is dark already, and there what cuts the fewest links; from several first groups."""
        starts = sorted(part, key=lambda group: (len(self._of[group]), group))[:STARTS]
        return min((self._sweep(part, start) for start in starts), key=self.most_dark)

    def _sweep(self, part: Sequence[Group], start: Group) -> list[Group]:
        sequence, done, left = [start], 1 << start, set(part) - {start}
        near = self._near(start) & left
        while left:
            group = min(near or left, key=lambda one: self._cost(one, done))
            sequence.append(group)
            done |= 1 << group
            left.discard(group)
            near = (near | self._near(group)) & left
        return sequence

    def _cost(self, group: Group, done: int) -> tuple[int, int, Group]:
        """Links that it cuts, less links that it makes good, then its number."""
        then = done | 1 << group
        cut = sum(bool(link.cut & then) and not link.cut & done for link in self._of[group])
        good = sum(bool(link.cut & then) and not link.good & ~then for link in self._of[group])
        return cut, -good, group


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    """An `InterruptedLink` by its number, with its groups as bits."""

    number: int
    cut: int
    good: int


def _dark(links: Iterable[_Link], done: int, then: int) -> int:
    """How many links are dark while a step leads from `done` to `then`."""
    return sum(1 for link in links if link.cut & then and link.good & ~done)


def _bits(groups: Iterable[Group]) -> int:
    bits = 0
    for group in groups:
        bits |= 1 << group
    return bits


def _members(bits: int) -> Iterator[Group]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
