"""The order of moves against every order: the fewest links dark at once, then the fewest steps."""

from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.reconfigure.plans import move_order
from hwd.reconfigure.plans.move_order import Interrupted, Order, order_of

from .conftest import divisions

GROUPS = 5
some = st.frozensets(st.integers(0, GROUPS - 1), max_size=3)
several = st.lists(st.builds(lambda cut, good: Interrupted(cut_by=cut, good_by=good), some, some), max_size=6)


def link(cut_by: str, good_by: str | None = None) -> Interrupted:
    return Interrupted(
        cut_by=frozenset(map(int, cut_by)), good_by=frozenset(map(int, cut_by if good_by is None else good_by))
    )


def ring(size: int, first: int = 0) -> list[Interrupted]:
    """Each link is taken by two groups, which both have to be done: as where pairs become other pairs."""
    pairs = [(first + one, first + (one + 1) % size) for one in range(size)]
    return [Interrupted(cut_by=frozenset(pair), good_by=frozenset(pair)) for pair in pairs]


def chain(size: int) -> list[Interrupted]:
    return [Interrupted(cut_by=(both := frozenset((one, one + 1))), good_by=both) for one in range(size)]


@cache
def every_division(groups: int) -> list[list[frozenset[int]]]:
    return [*divisions(frozenset(range(groups)))]


def dark_in(steps: Sequence[frozenset[int]], links: Sequence[Interrupted]) -> list[tuple[int, ...]]:
    """As the definition says it: cut by a step up to this one, and not made good by those before it."""
    found = []
    for at in range(len(steps)):
        before = frozenset[int]().union(*steps[:at])
        upto = before | steps[at]
        found.append(
            tuple(
                number
                for number, one in enumerate(links)
                if one.good_by and one.cut_by & upto and not one.good_by <= before
            )
        )
    return found


def check(order: Order, groups: int, links: Sequence[Interrupted]) -> None:
    assert sorted(one for step in order.steps for one in step) == [*range(groups)]
    assert [*order.dark] == dark_in([*map(frozenset, order.steps)], links)
    assert order.dark_at_least <= order.dark_at_once
    assert order.steps_at_least <= len(order.steps)


@given(several)
def test_no_order_has_fewer_links_dark_at_once_nor_fewer_steps_with_as_few(links: list[Interrupted]) -> None:
    order = order_of(GROUPS, links)
    check(order, GROUPS, links)
    best = min((max(map(len, dark_in(steps, links))), len(steps)) for steps in every_division(GROUPS))
    assert (order.dark_at_once, len(order.steps)) == best
    assert (order.dark_at_least, order.steps_at_least) == best, "and that is known"


@given(several)
def test_what_is_found_without_trying_every_order_keeps_its_bounds(links: list[Interrupted]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(move_order, "EXACT_GROUPS", 1)
        patch.setattr(move_order, "EXACT_STEPS", 1)
        quick = order_of(GROUPS, links)
    check(quick, GROUPS, links)
    best = min((max(map(len, dark_in(steps, links))), len(steps)) for steps in every_division(GROUPS))
    assert quick.dark_at_least <= best[0] <= quick.dark_at_once
    if quick.dark_at_once == best[0]:
        assert quick.steps_at_least <= best[1] <= len(quick.steps)


def test_groups_that_cut_nothing_go_at_once() -> None:
    assert order_of(3, []).steps == ((0, 1, 2),)
    assert order_of(0, []).steps == ()
    assert order_of(3, [link("0", ""), link("", "1")]).dark == ((),), "gone for good, or not touched"


def test_independent_swaps_go_one_after_the_other() -> None:
    order = order_of(8, [one for first in range(0, 8, 2) for one in ring(2, first)])
    assert (len(order.steps), order.dark_at_once, order.dark_at_least) == (4, 2, 2)


@pytest.mark.parametrize("size", [3, 5, 12, 40, 300])
def test_a_ring_of_any_size_has_three_links_dark_and_a_chain_two_and_that_is_known(size: int) -> None:
    for groups, links, dark in ((size, ring(size), 3), (size + 1, chain(size), 2)):
        order = order_of(groups, links)
        check(order, groups, links)
        assert (order.dark_at_once, order.dark_at_least) == (dark, dark)
