"""Interlocks that somebody overrides by name, with a reason."""

from typing import Any

import pytest

from hwd.interlocks import Motion
from hwd.model.interlock import InterlockName, refusal
from hwd_drivers.core.errors import RefusedError

LIMITS = {
    "input-power": "max_dbm: {ocs1: 1.0}",
    "wear": "moves: {ocs1: 1}",
    "rate": "changes: {ocs1: 1}",
    "forbidden-pair": "pairs: {h0.eth0 <-> h1.eth0: ''}",
}
OF_PLANS = tuple(name for name in InterlockName if name is not InterlockName.TRANSFER_IN_FLIGHT)
"""A planner finds the others; transfers are asked for when a plan is shown, and again when it is applied."""
MOTION = Motion(in_life={"ocs1": {"1A": 1}}, changes={"ocs1": 1})


def everything_wrong(rack: Any, *, allowed: bool) -> Any:
    keys = []
    for name in InterlockName:
        inner = [*(["override: allowed"] if allowed else []), *([LIMITS[name]] if name in LIMITS else [])]
        keys.append(f"  {name}: {{{', '.join(inner)}}}")
    return rack.testbed(
        "ports: {ocs1.2: {state: failed}}",
        "interlocks:",
        *keys,
        module="{type: 100g-lr4, rx_min_dbm: 0.0, rx_max_dbm: 1.0}",
    )


@pytest.mark.parametrize("name", OF_PLANS)
def test_each_can_be_overridden_alone_and_the_reason_stays_in_the_plan(rack: Any, name: InterlockName) -> None:
    plan = rack.plan(everything_wrong(rack, allowed=True), overrides={name: "measured by hand"}, motion=MOTION)
    assert {one.name for one in plan.interlocks if one.state == "refused"} == {*OF_PLANS} - {name}
    assert {(one.name, one.reason) for one in plan.overridden} == {(name, "measured by hand")}
    assert plan.overridden[0].finding.endswith(". Overridden: measured by hand")
    assert f"--override {name}=REASON" not in refusal(plan.interlocks)


def test_all_of_them_overridden_refuse_nothing(rack: Any) -> None:
    reasons = dict.fromkeys(InterlockName, "a test of the worst")
    plan = rack.plan(everything_wrong(rack, allowed=True), overrides=reasons, motion=MOTION)
    assert refusal(plan.interlocks) == ""
    assert {one.name for one in plan.overridden} == {*OF_PLANS}


@pytest.mark.parametrize("name", InterlockName)
def test_none_is_overridden_where_the_testbed_does_not_allow_it(rack: Any, name: InterlockName) -> None:
    testbed = everything_wrong(rack, allowed=False)
    with pytest.raises(RefusedError, match=f"interlock {name}: cannot be overridden.*{name}: {{override: allowed}}"):
        rack.plan(testbed, overrides={name: "because"}, motion=MOTION)


def test_a_refusal_that_can_be_overridden_says_how(rack: Any) -> None:
    plan = rack.plan(everything_wrong(rack, allowed=True), motion=MOTION)
    for one in plan.interlocks:
        if one.state == "refused":
            assert one.why.endswith(f", or override it by --override {one.name}=REASON")


def test_an_override_that_nothing_needs_is_a_warning(rack: Any) -> None:
    testbed = rack.testbed("interlocks: {loss-budget: {override: allowed}}")
    plan = rack.plan(testbed, overrides={"loss-budget": "to be sure"})
    assert plan.warnings == ("the override of loss-budget is not needed: it refuses nothing",)
    assert plan.hash == rack.plan(testbed).hash


def test_a_long_refusal_names_the_first_and_counts_the_rest(rack: Any) -> None:
    text = refusal(rack.plan(everything_wrong(rack, allowed=True), motion=MOTION).interlocks)
    assert text.count("interlock ") == 4
    assert text.endswith("more refuse; `hwd plan` lists all")
