"""Plans for switches whose elements are in one of few states each, and for composites of them."""

from collections.abc import Mapping

import msgspec
import pytest

from hwd.config.testbed.wanted_state import parse_what
from hwd.model.plan import Plan
from hwd.model.request import Request
from hwd_drivers.core.errors import ConfigError, RefusedError

from .conftest import Desk

HEAD = """testbed: array
switches:
  osw1: {driver: osw, model: osw, size: 2x4, twin: {}}
  x1: {driver: thorlabs-osw, model: osw22, twin: {}}
  x2: {driver: thorlabs-osw, model: osw22, twin: {}}
  p1: {driver: thorlabs-osw, model: osw12, twin: {}}
hosts:
  h0: {nics: {eth0: {module: 100g-lr4}, eth1: {module: 100g-lr4}}}
"""
LONE = f"""{HEAD}fibres:
  - h0.eth0.tx -> x1.1A
  - x1.1B -> h0.eth1.rx
  - h0.eth1.tx -> osw1.1A
  - osw1.1B -> h0.eth0.rx
"""
BANYAN = f"""{HEAD}composites:
  sel: {{ports: {{1A..2A: x1.1A..2A, 1B..2B: x2.1B..2B, 3B: p1.1, 4B: p1.2, 3A: osw1.1A, 5B..8B: osw1.1B..4B}}}}
fibres:
  - x1.1B <-> x2.1A
  - x1.2B <-> p1.in
  - h0.eth0.tx -> sel.1A
  - sel.1B -> h0.eth1.rx
  - h0.eth1.tx -> sel.3A
  - sel.5B -> h0.eth0.rx
"""
BENES = ("a1", "a2", "m1", "m2", "z1", "z2")
BENES_WIRES = tuple(
    (f"{one}.{port}B", f"{other}.{back}A")
    for ones, others in ((("a1", "a2"), ("m1", "m2")), (("m1", "m2"), ("z1", "z2")))
    for back, one in enumerate(ones, 1)
    for port, other in enumerate(others, 1)
)


@pytest.fixture(scope="module")
def lone() -> Desk:
    return Desk(LONE)


@pytest.fixture(scope="module")
def banyan() -> Desk:
    """Two to four: a 2x2 that leads to another, and to a 1x2; a 1x4 that can be dark stands apart."""
    return Desk(BANYAN)


REST = {"osw1": "", "x1": "1A-1B 2A-2B", "x2": "1A-1B 2A-2B", "p1": "in-1"}


def plan(desk: Desk, what: str, mode: str = "update", failed: str = "", **there: str) -> Plan:
    return desk.plan(what, REST | there, failed=failed, mode=mode)


def moves(made: Plan) -> Mapping[str, str]:
    """What changes, by switch: `-1A-1B +1A-2B`."""
    return {
        move.switch: " ".join([*(f"-{one}" for one in move.remove), *(f"+{one}" for one in move.add)])
        for move in made.moves
        if move.remove or move.add
    }


# --- one switch with elements


def test_a_state_is_completed(lone: Desk) -> None:
    assert moves(plan(lone, "x1:1A-2B")) == {"x1": "-1A-1B -2A-2B +1A-2B +2A-1B"}
    assert plan(lone, "x1:2A-2B").empty
    assert moves(plan(lone, "osw1:1A-3B")) == {"osw1": "+1A-3B"}
    assert moves(plan(lone, "osw1:1A-3B", osw1="1A-1B 2A-6B")) == {"osw1": "-1A-1B +1A-3B"}


def test_what_shall_be_kept_is_named_so_and_no_more(lone: Desk) -> None:
    (move,) = plan(lone, "x1:2A-2B").moves
    assert [str(one) for one in move.keep] == ["2A-2B"]


def test_a_crossconnect_that_no_element_has_is_refused_with_those_that_it_has(lone: Desk) -> None:
    with pytest.raises(
        RefusedError, match="osw1: cannot connect 1A-5B: 1A is of element 1, which joins it with 1B, 2B, 3B, 4B only"
    ):
        plan(lone, "osw1:1A-5B")


def test_what_can_be_dark_is_freed_and_what_cannot_is_refused_with_a_remedy(lone: Desk) -> None:
    assert moves(plan(lone, "osw1:1A-none", osw1="1A-1B 2A-6B")) == {"osw1": "-1A-1B"}
    assert moves(plan(lone, "osw1:none", osw1="1A-1B 2A-6B")) == {"osw1": "-1A-1B -2A-6B"}
    with pytest.raises(RefusedError, match=r"x1: cannot free 1A: element 1 always joins something: .* `hwd block`"):
        plan(lone, "x1:1A-none")
    with pytest.raises(RefusedError, match="p1: cannot be emptied: element 1 always joins something: in-1, in-2"):
        plan(lone, "p1:none")
    assert plan(lone, "p1:2-none").empty, "nothing is there to be freed"


def test_overwrite_takes_away_what_it_can_and_leaves_what_cannot_be_dark(lone: Desk) -> None:
    made = plan(lone, "osw1:1A-2B", "overwrite", osw1="1A-1B 2A-6B")
    assert moves(made) == {"osw1": "-1A-1B -2A-6B +1A-2B"}
    made = plan(lone, "x1:1A-1B", "overwrite")
    assert made.empty
    assert [str(one) for one in made.moves[0].keep] == ["1A-1B", "2A-2B"], "what stays is no difference at read-back"


def test_safe_refuses_what_was_set_on_purpose_or_carries_light(lone: Desk) -> None:
    with pytest.raises(RefusedError, match="osw1: cannot connect 1A-2B: 1A already carries 1A-1B"):
        plan(lone, "osw1:1A-2B", "safe", osw1="1A-1B")
    assert moves(plan(lone, "osw1:1A-2B", "safe")) == {"osw1": "+1A-2B"}
    with pytest.raises(RefusedError, match="x1: cannot connect 1A-2B: 1A already carries 1A-1B"):
        plan(lone, "x1:1A-2B", "safe")
    assert moves(plan(lone, "x2:1A-2B", "safe")) == {"x2": "-1A-1B -2A-2B +1A-2B +2A-1B"}, "no light comes to x2"


def test_a_failed_crossconnect_of_an_element_is_made_anew(lone: Desk) -> None:
    made = plan(lone, "osw1:1A-1B", osw1="1A-1B", failed="1A-1B")
    assert moves(made) == {"osw1": "-1A-1B +1A-1B"}
    assert made.warnings == ("osw1:1A-1B is reported as failed; it will be made anew",)


def test_of_a_failed_2x2_the_whole_state_is_made_anew(lone: Desk) -> None:
    """Its driver takes nothing less."""
    made = plan(lone, "x1:1A-1B", failed="1A-1B 2A-2B")
    assert moves(made) == {"x1": "-1A-1B -2A-2B +1A-1B +2A-2B"}


def test_light_that_an_element_joins_too_is_told(lone: Desk) -> None:
    """A 2x2 that swaps one pair swaps the other: light of h0.eth0 gets to h0.eth1 by what nobody asked for."""
    made = plan(lone, "x1:2A-2B", x1="1A-2B 2A-1B")
    said = (
        "x1:1A-1B comes with it, as its element moves as one: it joins light of h0.eth0, h0.eth1 that was not asked for"
    )
    assert made.warnings == (said,)
    assert plan(lone, "x2:2A-1B").warnings == (), "no light comes to x2"


@pytest.mark.parametrize("mode", ["safe", "update"])
def test_what_an_element_has_that_nobody_can_tell_is_leased_warned_of_and_not_brought_back(
    lone: Desk, mode: str
) -> None:
    """A latching 2x2 without contacts says nothing of where it is until it was moved."""
    made = plan(lone, "x1:2A-1B", mode, x1="")
    (move,) = made.moves
    assert {*map(str, move.lasting)} == {"1A-2B", "2A-1B"}
    assert {"x1.1", "x1.2", "h0.eth0", "h0.eth1"} <= made.touches
    assert made.warnings == (
        "x1: what 1A-2B, 2A-1B removes is unknown: the switch does not say where its element is. "
        "It is not brought back where this is rolled back",
    )
    made = plan(lone, "p1:in-1", mode, p1="")
    assert {"p1.in", "p1.1", "p1.2"} <= made.touches, "it may have been at 2"
    assert plan(lone, "osw1:2A-5B", osw1="").moves[0].lasting == (), "it can be dark, and is"


@pytest.mark.parametrize("what", ["x1:none", "x1:1A-none", "p1:none", "p1:2-none"])
def test_nothing_is_called_empty_that_always_joins_something_and_does_not_say_what(lone: Desk, what: str) -> None:
    with pytest.raises(RefusedError, match="element 1 always joins something"):
        plan(lone, what, x1="", p1="")


# --- composites


def test_a_plan_names_the_demand_and_the_moves_of_elements(banyan: Desk) -> None:
    made = plan(banyan, "sel:1A-4B")
    assert moves(made) == {"x1": "-1A-1B -2A-2B +1A-2B +2A-1B", "p1": "-in-1 +in-2"}
    (composite,) = made.composites
    assert str(composite) == "sel: -1A-1B -2A-3B +1A-4B (0 kept), 2 element moves"
    data = msgspec.to_builtins(made.summary.composites)
    assert data == [
        {
            "composite": "sel",
            "remove": ["1A-1B", "2A-3B"],
            "add": ["1A-4B"],
            "keep": [],
            "through": {"1A-4B": ["x1:1A-2B", "p1:in-2"]},
            "moves": 2,
            "moves_at_least": 2,
            "darkened": 0,
        }
    ]
    assert made.warnings == ("sel: 2A-3B carries no light and gives way",)
    assert {"x1.1", "x1.2", "p1.in", "p1.1", "p1.2"} <= made.touches, "a lease is about ports of elements"


def test_demands_that_conflict_are_refused_before_a_switch_is_read(banyan: Desk) -> None:
    with pytest.raises(RefusedError, match="sel: cannot make 1A-1B, 2A-2B at once: they meet in x1 1, x2 1"):
        plan(banyan, "sel:1A-1B,2A-2B")
    with pytest.raises(RefusedError, match="sel: cannot make 3A-1B: no path leads inside from 3A to 1B"):
        plan(banyan, "sel:3A-1B")


def test_existing_crossconnects_stay_and_a_demand_that_would_end_them_is_refused(banyan: Desk) -> None:
    there = {"osw1": "1A-1B"}
    assert moves(plan(banyan, "sel:2A-4B", **there)) == {"p1": "-in-1 +in-2"}
    with pytest.raises(RefusedError, match=r"2A-2B, 1A-1B at once.*1A-1B stands already; free it first"):
        plan(banyan, "sel:2A-2B", **there)
    assert moves(plan(banyan, "sel:2A-2B", "overwrite", **there)) == {
        "osw1": "-1A-1B",
        "x1": "-1A-1B -2A-2B +1A-2B +2A-1B",
        "x2": "-1A-1B -2A-2B +1A-2B +2A-1B",
    }


def test_safe_takes_nothing_from_a_demand_that_stands(banyan: Desk) -> None:
    with pytest.raises(RefusedError, match="sel: cannot connect 1A-3B: 1A already carries 1A-1B"):
        plan(banyan, "sel:1A-3B", "safe")
    assert moves(plan(banyan, "sel:3A-6B", "safe")) == {"osw1": "+1A-2B"}


def test_elements_that_have_nothing_to_do_with_it_are_not_read(banyan: Desk) -> None:
    routed = banyan.planner.route(Request(wanted=parse_what("sel:3A-6B", banyan.testbed)))
    assert routed.switches == ("osw1",)
    assert routed.ports == {"osw1.1", "osw1.2"}


def test_ends_of_a_composite_are_freed_where_an_element_can_be_dark(banyan: Desk) -> None:
    assert moves(plan(banyan, "sel:3A-none", osw1="1A-3B")) == {"osw1": "-1A-3B"}
    with pytest.raises(
        RefusedError,
        match=r"sel: cannot free 1A: none of the elements that 1A-1B leads through \(x1:1A-1B, x2:1A-1B\) can be dark",
    ):
        plan(banyan, "sel:1A-none")
    with pytest.raises(RefusedError, match="sel: cannot be emptied"):
        plan(banyan, "sel:none")


def test_elements_that_go_dark_are_counted_beside_those_that_move(banyan: Desk) -> None:
    def counts(what: str, **there: str) -> tuple[int, int]:
        (composite,) = plan(banyan, what, **there).composites
        assert (composite.summary.moves, composite.summary.darkened) == (composite.moves, composite.darkened)
        return composite.moves, composite.darkened

    assert counts("sel:3A-none", osw1="1A-3B") == (0, 1)
    assert counts("sel:3A-none") == (0, 0)
    assert counts("sel:3A-6B", osw1="1A-3B") == (1, 0)


def test_what_elements_come_to_join_is_refused_at_an_end_that_shall_be_free() -> None:
    """A Benes switch of six 2x2 joins all ends always: where something is freed there comes something else."""
    parts = "".join(f"  {name}: {{driver: thorlabs-osw, model: osw22, twin: {{}}}}\n" for name in BENES)
    wires = "".join(f"  - {one} <-> {other}\n" for one, other in BENES_WIRES)
    text = f"""testbed: benes
switches:
{parts}hosts:
  h0: {{nics: {{eth0: {{module: 100g-lr4}}}}}}
composites:
  sel: {{ports: {{1A..2A: a1.1A..2A, 3A..4A: a2.1A..2A, 1B..2B: z1.1B..2B, 3B..4B: z2.1B..2B}}}}
fibres:
  - h0.eth0 <-> sel.1
{wires}"""
    there = dict.fromkeys(BENES, "1A-1B 2A-2B") | dict.fromkeys(("a1", "m1", "m2", "z2"), "1A-2B 2A-1B")
    with pytest.raises(
        RefusedError, match="sel: cannot free 4A: 4A-3B would be there, by elements that move and always"
    ):
        plan(Desk(text), "sel:1A-1B,2A-2B,4A-none", **there)


def test_what_cannot_go_is_not_said_to_go(banyan: Desk) -> None:
    made = plan(banyan, "sel:2A-4B", "overwrite", p1="in-1")
    assert moves(made) == {"p1": "-in-1 +in-2"}
    (composite,) = made.composites
    assert "sel: 1A-1B stays: none of the elements that it leads through can be dark" in made.warnings
    assert [*map(str, composite.remove)] == ["2A-3B"]


def test_elements_may_be_named_beside_their_composite(banyan: Desk) -> None:
    assert moves(plan(banyan, "sel:1A-4B x2:1A-2B")) == {
        "p1": "-in-1 +in-2",
        "x1": "-1A-1B -2A-2B +1A-2B +2A-1B",
        "x2": "-1A-1B -2A-2B +1A-2B +2A-1B",
    }
    with pytest.raises(RefusedError, match="sel: cannot make 1A-1B: the crossconnects needed of its elements"):
        plan(banyan, "sel:1A-1B x2:1A-2B")


def test_an_end_that_the_composite_does_not_have_is_bad_input(banyan: Desk) -> None:
    with pytest.raises(ConfigError, match="sel has no 9A"):
        plan(banyan, "sel:9A-1B")
