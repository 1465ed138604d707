"""Elements that have moved too often, and switches that are changed too fast."""

from typing import Any

from hwd.interlocks import Motion

WEAR = "interlocks: {wear: {moves: {ocs1: 100}, moves_per_hour: {ocs1: 10}}}"
RATE = "interlocks: {rate: {changes: {ocs1: 3}, per_s: 20}}"


def test_without_a_limit_nothing_is_checked(rack: Any) -> None:
    motion = Motion(in_life={"ocs1": {"1A": 10**9}}, changes={"ocs1": 10**9})
    plan = rack.plan(rack.testbed(), motion=motion)
    assert not rack.found(plan, "wear")
    assert not rack.found(plan, "rate")


def test_the_most_worn_element_that_moves_is_named(rack: Any) -> None:
    motion = Motion(in_life={"ocs1": {"1A": 7, "2B": 99, "5A": 10**6}}, in_hour={"ocs1": {"2A": 9}})
    life, hour = rack.found(rack.plan(rack.testbed(WEAR), motion=motion), "wear")
    assert (life.state, life.subject, life.figure, life.limit, life.unit) == ("holds", "ocs1:2B", 100, 100, "moves")
    assert (hour.state, hour.subject, hour.figure, hour.unit) == ("holds", "ocs1:2A", 10, "moves an hour")


def test_each_element_over_a_limit_is_refused(rack: Any) -> None:
    motion = Motion(in_life={"ocs1": {"1A": 100, "2B": 100}}, in_hour={"ocs1": {"2A": 10}})
    found = [one for one in rack.plan(rack.testbed(WEAR), motion=motion).interlocks if one.name == "wear"]
    assert [(one.subject, one.state, one.figure) for one in found] == [
        ("ocs1:1A", "refused", 101),
        ("ocs1:2B", "refused", 101),
        ("ocs1:2A", "refused", 11),
    ]
    assert found[0].why.startswith("it has 100 moves, and 100 are allowed. Use other ports")
    assert found[2].why.startswith("it has 10 moves an hour, and 10 are allowed. Use other ports, or wait")


def test_a_worn_switch_that_does_not_move_is_no_matter(rack: Any) -> None:
    motion = Motion(in_life={"ocs1": {"1A": 100, "2B": 100}}, changes={"ocs1": 99})
    plan = rack.plan(rack.testbed(WEAR), motion=motion, there={"ocs1": "1A-2B 2A-1B"})
    assert not rack.found(plan, "wear")


def test_elements_of_few_states_move_as_one(rack: Any) -> None:
    testbed = rack.load(
        "testbed: rack\nswitches: {x1: {driver: ttl, model: 2x2, twin: {}}}\ninterlocks: {wear: {moves: {x1: 5}}}\n"
    )
    capabilities = testbed.switches["x1"].capabilities
    assert len(capabilities.elements) == 1
    name = capabilities.elements[0].name
    assert capabilities.moved_by(capabilities.elements[0].crossconnects) == (name,)
    motion = Motion(in_life={"x1": {name: 5}})
    cross = ",".join(map(str, capabilities.elements[0].states[1]))
    bar = " ".join(map(str, capabilities.elements[0].states[0]))
    (one,) = rack.found(rack.plan(testbed, f"x1:{cross}", there={"x1": bar}, motion=motion), "wear")
    assert (one.subject, one.figure, one.state) == (f"x1:{name}", 6, "refused")


def test_a_switch_is_changed_as_often_as_allowed_and_no_more(rack: Any) -> None:
    testbed = rack.testbed(RATE)
    (holds,) = rack.found(rack.plan(testbed, motion=Motion(changes={"ocs1": 2})), "rate")
    assert (holds.state, holds.subject, holds.figure, holds.limit) == ("holds", "ocs1", 3, 3)
    (over,) = rack.found(rack.plan(testbed, motion=Motion(changes={"ocs1": 3})), "rate")
    assert (over.state, over.figure, over.unit) == ("refused", 4, "changes in 20 s")
    assert over.why.startswith("it was changed 3 times in the last 20 s, and 3 are allowed. Wait")
