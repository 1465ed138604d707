"""Steps of plans, held against the light of the fabric: what is legal, what is dark, and whether fewer could be."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwd.model.link import Link
from hwd.model.plan import Plan
from hwd.model.plan_summary import PlanMoves, PlanOrder
from hwd.reconfigure.plans import move_order
from hwd.reconfigure.plans.move_order import InterruptedLink, Order, order_of
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.switching.moves import ApplyMode

from .conftest import Desk, divisions
from .test_plans import BANYAN

NICS = "\n".join(f"      eth{port}: {{module: 100g-lr4}}" for port in range(4))
HOSTS = f"""hosts:
  h0:
    nics:
{NICS}
  h1:
    nics:
{NICS}
"""
ONE = f"""testbed: one
switches:
  ocs1: {{driver: polatis-tl1, model: polatis-6000, size: 16x16, twin: {{}}}}
{HOSTS}fibres:
""" + "".join(f"  - h{port // 4}.eth{port % 4} <-> ocs1.{port + 1}\n" for port in range(8))
TRUNKS = (
    f"""testbed: trunks
switches:
  ocs1: {{driver: polatis-tl1, model: polatis-6000, size: 16x16, twin: {{}}}}
  ocs2: {{driver: polatis-tl1, model: polatis-6000, size: 16x16, twin: {{}}}}
{HOSTS}fibres:
"""
    + "".join(f"  - h{host}.eth{port} <-> ocs{host + 1}.{port + 1}\n" for host in (0, 1) for port in range(4))
    + "".join(f"  - ocs1.{trunk} <-> ocs2.{trunk}\n" for trunk in (5, 6, 7))
)
State = Mapping[str, frozenset[Crossconnect]]


def joined(*ports: tuple[int, int]) -> str:
    """The crossconnects that join the NIC ports at these switch ports, both ways."""
    return " ".join(f"{one}A-{other}B {other}A-{one}B" for one, other in ports)


class Rack(Desk):
    def __init__(self, text: str) -> None:
        super().__init__(text, lambda switches, links: (4.0, "ready") if links else (0.5, "settled"))

    def in_steps(self, what: str, there: Mapping[str, str], **body: Any) -> Plan:
        return self.plan(what, there, steps=True, **body)

    def links(self, state: State) -> frozenset[Link]:
        return frozenset(self.fabric.links_of(state))

    def check(self, plan: Plan) -> PlanOrder:
        """Hold each step against the fabric, and return them."""
        assert plan.order is not None
        now = {move.switch: frozenset(move.before) for move in plan.moves}
        then = {move.switch: move.after for move in plan.moves}
        before, after = self.links(now), self.links(then)
        touched = {move.switch: {*move.remove, *move.add} for move in plan.moves}
        stays = {link for link in before & after if self.is_untouched(link, now, touched)}
        state: State = now
        for step, moves in zip(plan.order.steps, plan.step_moves, strict=True):
            assert step.moves == [*map(PlanMoves.of, moves)] != []
            for move in moves:
                assert frozenset(move.before) == state[move.switch]
            bare = {**state, **{move.switch: state[move.switch] - {*move.remove} for move in moves}}
            full = {**state, **{move.switch: move.after for move in moves}}
            for each in (bare, full):
                for crossconnects in each.values():
                    ends = [end for one in crossconnects for end in one.ends]
                    assert len(ends) == len(set(ends)), "an end is in at most one crossconnect"
                assert stays <= self.links(each), "bystanders never go dark"
            assert {*step.dark} == dark(before, after, self.links(state), self.links(bare))
            assert {*step.made} == {link for link in self.links(full) - self.links(bare) if link in after}
            state = full
        assert state == then
        return plan.order

    def is_untouched(self, link: Link, state: State, touched: Mapping[str, set[Crossconnect]]) -> bool:
        (crossconnects,) = (one.crossconnects for one in self.fabric.routed_of(state) if one.link == link)
        return all(one.crossconnect not in touched.get(one.switch, ()) for one in crossconnects)


def dark(before: frozenset[Link], after: frozenset[Link], lit: frozenset[Link], within: frozenset[Link]) -> set[Link]:
    """The definition: links that were lit, are not within the step, and have an end whose new link is not up before it.

    `lit`: links before the step; `within`: links between its removes and its adds.
    """
    at = {end: link for link in after for end in link.ends}
    return {
        link
        for link in before - within
        if any(end in at and (at[end] not in lit or at[end] not in within) for end in link.ends)
    }


@pytest.fixture(scope="module")
def one() -> Rack:
    return Rack(ONE)


@pytest.fixture(scope="module")
def trunks() -> Rack:
    return Rack(TRUNKS)


@st.composite
def matchings(draw: st.DrawFn) -> list[tuple[int, int]]:
    ports = draw(st.permutations(range(1, 9)))
    count = draw(st.integers(0, 4))
    return [(min(pair), max(pair)) for pair in zip(ports[: 2 * count : 2], ports[1 : 2 * count : 2], strict=True)]


def most_dark(there: Sequence[tuple[int, int]], steps: Sequence[frozenset[tuple[int, int]]]) -> int:
    """The most links of `there` dark at once where links come in these steps: counted by ports alone."""
    wanted = {port: link for step in steps for link in step for port in link}
    most, done = 0, set[tuple[int, int]]()
    for step in steps:
        taken = {port for link in (*done, *step) for port in link}
        cut = [one for one in there if one not in wanted.values() and not taken.isdisjoint(one)]
        most = max(most, sum(any(wanted.get(port, (0, 0)) not in {*done, (0, 0)} for port in one) for one in cut))
        done |= step
    return most


@settings(deadline=None, max_examples=60)
@given(there=matchings(), wanted=matchings(), mode=st.sampled_from([ApplyMode.UPDATE, ApplyMode.OVERWRITE]))
def test_each_step_holds_and_no_division_into_steps_has_fewer_links_dark(
    one: Rack, there: list[tuple[int, int]], wanted: list[tuple[int, int]], mode: ApplyMode
) -> None:
    if not wanted:
        return
    plan = one.in_steps(f"ocs1:{','.join(joined(*wanted).split())}", {"ocs1": joined(*there)}, mode=mode)
    if plan.empty:
        assert plan.order is None
        return
    order = one.check(plan)
    new = frozenset(wanted) - set(there)
    if new:
        best = min((most_dark(there, steps), len(steps)) for steps in divisions(new))
        assert (order.dark_at_once, len(order.steps)) == best
        assert (order.dark_at_least, order.steps_at_least) == best


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_each_step_holds_over_trunks(trunks: Rack, data: st.DataObject) -> None:
    """Both switches get their crossconnects at random, so that light is cut in the middle and in both ways apart."""

    def state() -> str:
        ports = range(1, 8)
        targets = data.draw(st.permutations(ports))
        count = data.draw(st.integers(1, 7))
        chosen = data.draw(st.permutations(ports))[:count]
        return " ".join(f"{port}A-{target}B" for port, target in zip(chosen, targets, strict=False))

    there = {"ocs1": state(), "ocs2": state()}
    what = " ".join(f"{name}:{','.join(state().split())}" for name in there)
    plan = trunks.in_steps(what, there)
    if plan.order is not None:
        trunks.check(plan)


def test_a_trunk_is_freed_before_another_link_takes_it(trunks: Rack) -> None:
    """The link over trunk 5 goes to the free trunk 7, then that over trunk 6 to trunk 5: one link is dark at a time."""
    there = joined((1, 5), (2, 6))
    plan = trunks.in_steps(
        " ".join(f"{name}:{','.join(joined((1, 7), (2, 5)).split())}" for name in ("ocs1", "ocs2")),
        {"ocs1": there, "ocs2": there},
    )
    order = trunks.check(plan)
    assert [[*map(str, step.dark)] for step in order.steps] == [["h0.eth0<->h1.eth0"], ["h0.eth1<->h1.eth1"]]
    assert (order.dark_at_once, order.dark_all_at_once) == (1, 2)
    assert [[move.switch for move in step.moves] for step in order.steps] == [["ocs1", "ocs2"]] * 2


def test_a_swap_is_one_step_and_says_that_no_order_has_fewer(one: Rack) -> None:
    plan = one.in_steps("ocs1:" + joined((1, 5), (2, 6)).replace(" ", ","), {"ocs1": joined((1, 6), (2, 5))})
    assert plan.order is not None
    assert str(plan.order) == "1 step, at most 2 links dark at once (no order has fewer); all at once 2"


def test_elements_of_a_switch_move_as_one() -> None:
    rack = Rack(BANYAN)
    rest = {"osw1": "", "x1": "1A-1B 2A-2B", "x2": "1A-1B 2A-2B", "p1": "in-1"}
    plan = rack.in_steps("h0.eth0<->h0.eth1", rest)
    assert plan.step_moves
    for moves in plan.step_moves:
        for move in moves:
            for element in rack.testbed.switches[move.switch].capabilities.elements:
                assert frozenset(move.after) & element.crossconnects in element.state_sets


def test_without_steps_a_plan_and_its_hash_are_as_before(one: Rack) -> None:
    what, there = "ocs1:" + joined((1, 5)).replace(" ", ","), {"ocs1": joined((1, 6))}
    plain, stepped = one.plan(what, there), one.in_steps(what, there)
    assert plain.order is None
    assert plain.hash != stepped.hash
    assert plain.moves == stepped.moves


@pytest.mark.parametrize(
    ("steps", "ready_within_s", "expected"),
    [
        (True, 20.0, (8.0, "sum of 2 steps; ready")),
        (True, None, (4.5, "sum of 2 steps; settled; ready")),
        (False, 20.0, (4.0, "ready")),
    ],
    ids=["each waits for its links", "only the last has links to come", "all at once"],
)
def test_a_plan_with_steps_is_expected_to_take_the_sum_of_its_steps(
    trunks: Rack, steps: bool, ready_within_s: float | None, expected: tuple[float, str]
) -> None:
    there = joined((1, 5), (2, 6))
    what = " ".join(f"{name}:{','.join(joined((1, 7), (2, 5)).split())}" for name in ("ocs1", "ocs2"))
    plan = trunks.plan(what, {"ocs1": there, "ocs2": there}, steps=steps, ready_within_s=ready_within_s)
    assert (plan.expected_s, plan.expected_from) == expected


def test_a_step_without_a_link_is_expected_to_take_as_long_as_its_switch(one: Rack) -> None:
    plan = one.in_steps("ocs1:none", {"ocs1": joined((1, 6), (2, 5))}, ready_within_s=20.0)
    assert plan.order is not None
    assert plan.expected_s == 0.5 * len(plan.order.steps)


# --- the order of moves against every order: the fewest links dark at once, then the fewest steps


GROUPS = 5
some = st.frozensets(st.integers(0, GROUPS - 1), max_size=3)
several = st.lists(st.builds(lambda cut, good: InterruptedLink(cut_by=cut, good_by=good), some, some), max_size=6)


def link(cut_by: str, good_by: str | None = None) -> InterruptedLink:
    return InterruptedLink(
        cut_by=frozenset(map(int, cut_by)), good_by=frozenset(map(int, cut_by if good_by is None else good_by))
    )


def ring(size: int, first: int = 0) -> list[InterruptedLink]:
    """Each link is taken by two groups, which both have to be done: as where pairs become other pairs."""
    pairs = [(first + one, first + (one + 1) % size) for one in range(size)]
    return [InterruptedLink(cut_by=frozenset(pair), good_by=frozenset(pair)) for pair in pairs]


def chain(size: int) -> list[InterruptedLink]:
    return [InterruptedLink(cut_by=(both := frozenset((one, one + 1))), good_by=both) for one in range(size)]


@cache
def every_division(groups: int) -> list[list[frozenset[int]]]:
    return [*divisions(frozenset(range(groups)))]


def dark_in(steps: Sequence[frozenset[int]], links: Sequence[InterruptedLink]) -> list[tuple[int, ...]]:
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


def check(order: Order, groups: int, links: Sequence[InterruptedLink]) -> None:
    assert sorted(one for step in order.steps for one in step) == [*range(groups)]
    assert [*order.dark] == dark_in([*map(frozenset, order.steps)], links)
    assert order.dark_at_least <= order.dark_at_once
    assert order.steps_at_least <= len(order.steps)


@given(several)
def test_no_order_has_fewer_links_dark_at_once_nor_fewer_steps_with_as_few(links: list[InterruptedLink]) -> None:
    order = order_of(GROUPS, links)
    check(order, GROUPS, links)
    best = min((max(map(len, dark_in(steps, links))), len(steps)) for steps in every_division(GROUPS))
    assert (order.dark_at_once, len(order.steps)) == best
    assert (order.dark_at_least, order.steps_at_least) == best, "and that is known"


@given(several)
def test_what_is_found_without_trying_every_order_keeps_its_bounds(links: list[InterruptedLink]) -> None:
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
