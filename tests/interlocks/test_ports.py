"""Ports that are set aside, and pairs that are forbidden."""

from typing import Any

import pytest


@pytest.mark.parametrize("state", ["spare", "reserved", "maintenance", "failed"])
def test_a_port_that_is_set_aside_carries_no_light(rack: Any, state: str) -> None:
    testbed = rack.testbed(f"ports: {{ocs1.2: {{state: {state}, why: dirty, until: 2027-01-10}}}}")
    (one,) = rack.found(rack.plan(testbed), "port-state")
    assert (one.state, one.subject, one.figure, one.limit, one.unit) == ("refused", "ocs1.2", 1, 0, "ports")
    assert one.why.startswith(f"it is set aside ({state}: dirty, until 2027-01-10). Use another port, or set its state")
    assert rack.states(rack.plan(testbed, "ocs1:2A-5B"), "port-state") == ["refused"], "by its name too"
    assert rack.states(rack.plan(testbed, "h0.eth0<->h2.eth0"), "port-state") == ["holds"]


def test_ports_in_normal_use_hold(rack: Any) -> None:
    (one,) = rack.found(rack.plan(rack.testbed("ports: {ocs1.2: {state: normal}}")), "port-state")
    assert (one.state, one.subject, one.figure) == ("holds", "2 crossconnects", 0)


def test_what_leads_over_a_port_in_maintenance_may_be_removed(rack: Any) -> None:
    testbed = rack.testbed("ports: {ocs1.2: {state: maintenance}}")
    plan = rack.plan(testbed, "ocs1:none", there={"ocs1": "1A-2B 2A-1B"})
    assert [str(one) for one in plan.moves[0].remove] == ["1A-2B", "2A-1B"]
    assert not rack.found(plan, "port-state")


def test_the_port_of_a_composite_is_named_as_the_testbed_names_it(rack: Any) -> None:
    testbed = rack.load(
        "testbed: rack\n"
        "switches: {x1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, address: '10.0.0.5:3082'}}\n"
        "composites: {sel: {ports: {1A..2A: x1.1A..2A, 1B..2B: x1.1B..2B}}}\n"
        "hosts: {h0: {nics: {eth0: {module: 100g-lr4}}}, h1: {nics: {eth0: {module: 100g-lr4}}}}\n"
        "fibres:\n  - h0.eth0 <-> sel.1\n  - h1.eth0 <-> sel.2\n"
        "ports: {sel.2: {state: failed}}\n"
    )
    assert [(one.subject, one.state) for one in rack.found(rack.plan(testbed), "port-state")] == [("sel.2", "refused")]


def test_a_forbidden_pair_is_refused_as_link_and_as_crossconnect(rack: Any) -> None:
    testbed = rack.testbed(
        "interlocks:\n  forbidden-pair:\n    pairs: {h1.eth0 <-> h0.eth0: other tenants, 'ocs1:3A-5B': ''}\n"
    )
    (one,) = rack.found(rack.plan(testbed), "forbidden-pair")
    assert (one.state, one.subject, one.figure, one.limit) == ("refused", "h0.eth0<->h1.eth0", 1, 0)
    assert one.why.startswith("the testbed file forbids it (other tenants). Ask for another pair")
    (pairs,) = rack.found(rack.plan(testbed, "ocs1:1A-2B,2A-1B"), "forbidden-pair")
    assert (pairs.subject, pairs.state) == ("h0.eth0<->h1.eth0", "refused"), "whoever names only the crossconnects"
    (crossconnect,) = rack.found(rack.plan(testbed, "ocs1:3A-5B"), "forbidden-pair")
    assert (crossconnect.subject, crossconnect.state) == ("ocs1:3A-5B", "refused")
    (holds,) = rack.found(rack.plan(testbed, "h0.eth0<->h2.eth0"), "forbidden-pair")
    assert (holds.state, holds.subject) == ("holds", "2 forbidden pairs")


def test_where_nothing_is_forbidden_no_pair_is_checked(rack: Any) -> None:
    assert not rack.found(rack.plan(rack.testbed()), "forbidden-pair")
