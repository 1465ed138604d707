"""Steps of plans, held against the light of the fabric: what is legal, what is dark, and whether fewer could be."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwd.model.link import Link
from hwd.model.plan import Plan, PlanSteps
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

    def check(self, plan: Plan) -> PlanSteps:
        """Hold each step against the fabric, and return them."""
        assert plan.order is not None
        now = {move.switch: frozenset(move.before) for move in plan.moves}
        then = {move.switch: move.after for move in plan.moves}
        before, after = self.links(now), self.links(then)
        touched = {move.switch: {*move.remove, *move.add} for move in plan.moves}
        stays = {link for link in before & after if self.is_untouched(link, now, touched)}
        state: State = now
        for step in plan.order.steps:
            assert step.moves
            for move in step.moves:
                assert frozenset(move.before) == state[move.switch]
            bare = {**state, **{move.switch: state[move.switch] - {*move.remove} for move in step.moves}}
            full = {**state, **{move.switch: move.after for move in step.moves}}
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
        crossconnects = self.fabric.routed_in(link, state).crossconnects
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
    assert str(plan.order.summary) == "1 step, at most 2 links dark at once (no order has fewer); all at once 2"


def test_elements_of_a_switch_move_as_one() -> None:
    rack = Rack(BANYAN)
    rest = {"osw1": "", "x1": "1A-1B 2A-2B", "x2": "1A-1B 2A-2B", "p1": "in-1"}
    plan = rack.in_steps("h0.eth0<->h0.eth1", rest)
    assert plan.order is not None
    for step in plan.order.steps:
        for move in step.moves:
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
