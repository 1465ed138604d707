"""Plans: the least moves for what is wanted, what goes dark by them, and whose ports they touch."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.config.testbed.wanted_state import parse_what
from hwd.daemon.installed_drivers import load_text
from hwd.fabric.fabric import Fabric
from hwd.model.link import SwitchCrossconnect
from hwd.model.plan import Plan
from hwd.model.request import Request, WantedState
from hwd.model.testbed import Testbed
from hwd.reconfigure.plans.planner import Planner
from hwd_drivers.core.errors import ConfigError, LinkError, RefusedError
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.switching.moves import ApplyMode

from .conftest import TWO_HOSTS, Desk, pairs

STRAIGHT, CROSSED = "1A-3B 3A-1B 2A-4B 4A-2B", "1A-4B 4A-1B 2A-3B 3A-2B"
TESTBED = load_text(TWO_HOSTS, file="testbed.yaml").require()


def make(what: str, there: str = "", *, testbed: Testbed = TESTBED, failed: str = "", **body: Any) -> Plan:
    desk = Desk(testbed, lambda switches, links: (1.5, f"told for {' '.join(switches)}{'' if links else ', no link'}"))
    what = f"ocs1:{','.join(what.split())}" if "-" in what else what
    return desk.plan(what, {"ocs1": there}, failed=failed, **body)


def set_of(text: str) -> set[Crossconnect]:
    return {*pairs(text)}


def moved(plan: Plan) -> tuple[set[Crossconnect], set[Crossconnect], set[Crossconnect]]:
    (move,) = plan.moves
    return set(move.remove), set(move.add), set(move.keep)


def test_a_switch_that_is_emptied_loses_all() -> None:
    plan = make("ocs1:none", STRAIGHT)
    assert moved(plan) == (set_of(STRAIGHT), set(), set())
    assert [str(link) for link in plan.dark] == ["h0.eth0<->h1.eth0", "h0.eth1<->h1.eth1"]
    assert make("ocs1:none").empty


def test_a_switch_in_use_is_not_emptied_safely() -> None:
    with pytest.raises(RefusedError, match="ocs1: cannot be emptied: it carries"):
        make("ocs1:none", STRAIGHT, mode=ApplyMode.SAFE)


def test_an_end_that_is_freed_loses_what_it_carries_and_no_other_does() -> None:
    plan = make("1A-none 5A-none", STRAIGHT)
    assert moved(plan) == (set_of("1A-3B"), set(), set())
    assert [str(link) for link in plan.dark] == ["h0.eth0<->h1.eth0"]
    assert {"ocs1.1", "ocs1.3", "h0.eth0", "h1.eth0"} == plan.touches
    assert moved(make("1A-none 5A-6B", STRAIGHT)) == (set_of("1A-3B"), set_of("5A-6B"), set())
    assert make("1A-none").empty


def test_an_end_that_carries_something_is_not_freed_safely() -> None:
    with pytest.raises(RefusedError, match="ocs1: cannot free 3B: it carries 1A-3B"):
        make("3B-none", STRAIGHT, mode=ApplyMode.SAFE)


def test_a_dark_switch_gets_all_and_loses_nothing() -> None:
    plan = make(STRAIGHT)
    assert moved(plan) == (set(), set_of(STRAIGHT), set())
    assert [str(one.routed.link) for one in plan.links] == ["h0.eth0<->h1.eth0", "h0.eth1<->h1.eth1"]
    assert (plan.dark, plan.expected_s, plan.expected_from) == ((), 1.5, "told for ocs1")


def test_of_moves_that_make_no_link_only_the_switches_are_expected() -> None:
    assert make("5A-6B").expected_from == "told for ocs1, no link"
    assert make("ocs1:none", STRAIGHT).expected_from == "told for ocs1, no link"
    assert make("1A-3B 3A-1B").expected_from == "told for ocs1"
    assert make("5A-6B", ready_within_s=5.0).expected_from == "told for ocs1, no link", "none is waited for"
    assert make("1A-3B", ready_within_s=5.0).expected_from == "told for ocs1, no link", "one way is no link"
    assert make("1A-3B 3A-1B", ready_within_s=5.0).expected_from == "told for ocs1"


def test_what_is_there_stays_and_nothing_is_expected_of_it() -> None:
    plan = make(STRAIGHT, STRAIGHT)
    assert moved(plan) == (set(), set(), set_of(STRAIGHT))
    assert plan.empty
    assert all(one.kept for one in plan.links)
    assert (plan.expected_s, plan.expected_from) == (0.0, "nothing moves")


def test_links_that_lose_their_light_are_named() -> None:
    plan = make(CROSSED, STRAIGHT)
    assert moved(plan) == (set_of(STRAIGHT), set_of(CROSSED), set())
    assert [str(link) for link in plan.dark] == ["h0.eth0<->h1.eth0", "h0.eth1<->h1.eth1"]


def test_a_link_of_which_half_moves_is_not_kept() -> None:
    plan = make(STRAIGHT, "1A-3B 2A-4B 4A-2B")
    assert moved(plan) == (set(), set_of("3A-1B"), set_of("1A-3B 2A-4B 4A-2B"))
    assert [one.kept for one in plan.links] == [False, True]


def test_safe_refuses_and_names_both_and_update_replaces() -> None:
    with pytest.raises(RefusedError, match="cannot connect 1A-4B: 1A already carries 1A-3B"):
        make("1A-4B", "1A-3B", mode=ApplyMode.SAFE)
    assert moved(make("1A-4B", "1A-3B 5A-6B")) == (set_of("1A-3B"), set_of("1A-4B"), set())
    assert moved(make("1A-4B", "5A-6B", mode=ApplyMode.SAFE)) == (set(), set_of("1A-4B"), set())


def test_overwrite_removes_all_the_rest() -> None:
    assert moved(make("1A-4B", "1A-3B 5A-6B", mode=ApplyMode.OVERWRITE)) == (
        set_of("1A-3B 5A-6B"),
        set_of("1A-4B"),
        set(),
    )


@pytest.mark.parametrize("mode", list(ApplyMode))
def test_a_crossconnect_that_failed_is_made_anew_and_warned_of(mode: ApplyMode) -> None:
    plan = make("1A-3B", "1A-3B", failed="1A-3B", mode=mode)
    assert moved(plan) == (set_of("1A-3B"), set_of("1A-3B"), set())
    assert plan.warnings == ("ocs1:1A-3B is reported as failed; it will be made anew",)


def test_touched_are_moved_ports_and_both_ends_of_what_changes() -> None:
    assert make(STRAIGHT, STRAIGHT).touches == frozenset()
    dark = make("1A-6B", STRAIGHT).touches
    assert dark == {"ocs1.1", "ocs1.3", "ocs1.6", "h0.eth0", "h1.eth0"}


def test_what_cannot_be_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="9A"):
        make("9A-1B")
    planner = Planner(TESTBED, Fabric(TESTBED), lambda switches, links: (0.0, ""))
    both = tuple(SwitchCrossconnect(switch="ocs1", crossconnect=one) for one in set_of("1A-2B 1A-3B"))
    with pytest.raises(ConfigError, match="ocs1: 1A-3B and 1A-2B both want 1A"):
        planner.route(Request(wanted=WantedState(name="x", crossconnects=both)))
    with pytest.raises(ConfigError, match="asks for no crossconnect"):
        planner.route(Request(wanted=WantedState(name="nothing")))
    wanted = parse_what("ocs1:1A-2B", TESTBED)
    with pytest.raises(LinkError, match="ocs1: cannot plan"):
        planner.plan(planner.route(Request(wanted=wanted)), {})


def test_a_switch_of_a_host_is_refused() -> None:
    owned = load_text(TWO_HOSTS.replace("size: 8x8", "size: 8x8, owner: h0"), file="owned.yaml").require()
    with pytest.raises(RefusedError, match="ocs1 belongs to host h0, and what it carries is not known now"):
        make("1A-2B", testbed=owned)


def _states() -> st.SearchStrategy[str]:
    """Crossconnects on eight ports, no end twice."""
    return st.permutations(range(1, 9)).flatmap(
        lambda order: st.sets(st.integers(0, 7), min_size=1).map(
            lambda at: " ".join(f"{place + 1}A-{order[place]}B" for place in sorted(at))
        )
    )


@given(_states(), _states(), st.sampled_from([ApplyMode.UPDATE, ApplyMode.OVERWRITE]))
def test_after_any_plan_what_is_wanted_is_there_and_no_end_is_used_twice(
    wanted: str, there: str, mode: ApplyMode
) -> None:
    plan = make(wanted, there, mode=mode)
    (move,) = plan.moves
    assert set_of(wanted) <= move.after
    ends = [end for one in move.after for end in one.ends]
    assert len(ends) == len(set(ends))
    assert not set(move.remove) & set(move.keep)
    if mode is ApplyMode.OVERWRITE:
        assert move.after == set_of(wanted)
    else:
        wanted_ends = {end for one in set_of(wanted) for end in one.ends}
        spared = {one for one in set_of(there) if not wanted_ends & set(one.ends)}
        assert spared <= move.after
    again = make(wanted, " ".join(map(str, move.after)), mode=mode)
    assert again.empty
    assert make(wanted, there, mode=mode).hash == plan.hash


def test_the_summary_has_sums_without_the_rounding_of_the_machine() -> None:
    summary = make("1A-3B 3A-1B").summary
    figures = [figure for link in summary.links for one in link.circuits for figure in (one.margin_db, one.loss_db_max)]
    assert figures
    assert [len(repr(figure)) for figure in figures if len(repr(figure)) > 8] == [], figures
