"""Light that is too weak, too strong for a receiver, or too strong for a switch."""

from typing import Any

import pytest

CALIENT = {"model": "calient-tl1 calient-s160", "size": "8"}
STRONG = "{type: 100g-lr4, tx_max_dbm: 16.0, rx_max_dbm: 30.0}"
"""Four lanes on one fibre: 22.0 dBm together."""


def test_a_link_within_its_budget_holds_with_loss_and_budget(rack: Any) -> None:
    plan = rack.plan(rack.testbed(loss_db=1.0))
    (one,) = rack.found(plan, "loss-budget")
    assert (one.state, one.subject, one.unit) == ("holds", "h0.eth0<->h1.eth0", "dB")
    assert (one.figure, one.limit) == (pytest.approx(3.7), pytest.approx(6.3))
    assert str(one) == "interlock loss-budget holds: h0.eth0<->h1.eth0: 3.7 dB, limit 6.3 dB"


def test_a_link_over_its_budget_is_refused_with_figure_limit_and_remedy(rack: Any) -> None:
    plan = rack.plan(rack.testbed(loss_db=5.0))
    one = plan.interlocks[0]
    assert (one.name, one.state) == ("loss-budget", "refused"), "what refuses is first"
    assert (one.figure, one.limit) == (pytest.approx(7.7), pytest.approx(6.3))
    assert str(one) == (
        "interlock loss-budget refused: h0.eth0<->h1.eth0: h0.eth0.tx -> h1.eth0.rx loses up to 7.7 dB, 1.4 dB over "
        "the budget of 6.3 dB. Take a way with fewer parts, clean or replace the fibre, or use a module of longer "
        "reach. It cannot be overridden: the testbed file does not allow it, as "
        "`interlocks: {loss-budget: {override: allowed}}` would"
    )


def test_a_link_that_is_there_already_is_judged_too(rack: Any) -> None:
    plan = rack.plan(rack.testbed(loss_db=5.0), there={"ocs1": "1A-2B 2A-1B"})
    assert plan.empty
    assert rack.states(plan, "loss-budget") == ["refused"]


def test_pairs_that_make_a_link_are_judged_as_the_link(rack: Any) -> None:
    assert rack.states(rack.plan(rack.testbed(loss_db=5.0), "ocs1:1A-2B,2A-1B"), "loss-budget") == ["refused"]


def test_a_way_out_of_a_lossy_link_is_not_refused(rack: Any) -> None:
    plan = rack.plan(rack.testbed(loss_db=5.0), "h1.eth0<->h2.eth0", there={"ocs1": "1A-2B 2A-1B"})
    assert not [one for one in plan.interlocks if one.state == "refused"], "h0 goes dark, and nothing lossy is lit"


def test_a_receiver_that_gets_too_much_is_refused(rack: Any) -> None:
    plan = rack.plan(rack.testbed(module="{type: 100g-lr4, rx_max_dbm: 1.0}"))
    (one,) = rack.found(plan, "overload")
    assert (one.state, one.unit, one.limit, one.figure) == ("refused", "dBm", 1.0, pytest.approx(3.0))
    assert "can bring 2.0 dB more than the 1.0 dBm that the receiver bears. Put an attenuator into" in one.why
    assert rack.states(rack.plan(rack.testbed()), "overload") == ["holds"]


def test_a_switch_sees_all_lanes_of_a_fibre_together(rack: Any) -> None:
    (one,) = rack.found(rack.plan(rack.testbed()), "input-power")
    assert (one.state, one.limit, one.unit) == ("holds", 20.0, "dBm"), "as the data table of a Polatis has it"
    assert one.figure == pytest.approx(4.5 + 6.02, abs=0.01), "four lanes of 4.5 dBm"


def test_light_that_a_switch_does_not_bear_is_refused_at_each_end(rack: Any) -> None:
    plan = rack.plan(rack.testbed(module=STRONG, loss_db=1.0))
    found = rack.found(plan, "input-power")
    assert [(one.subject, one.state) for one in found] == [("ocs1:1A", "refused"), ("ocs1:2A", "refused")]
    assert [one.figure for one in found] == [pytest.approx(21.02, abs=0.01), pytest.approx(22.02, abs=0.01)]
    assert "up to 22.0 dBm of h1.eth0.tx enter it, and it bears 20.0 dBm. Put an attenuator into" in found[1].why


def test_the_testbed_states_what_a_switch_bears_where_its_model_does_not(rack: Any) -> None:
    (unknown,) = rack.found(rack.plan(rack.testbed(**CALIENT)), "input-power")
    assert (unknown.state, unknown.limit, unknown.subject) == ("unknown", None, "ocs1:2A")
    assert "Set it by `interlocks: {input-power: {max_dbm: {ocs1: ...}}}`" in unknown.why
    for limit, state in ((10.0, "refused"), (11.0, "holds")):
        testbed = rack.testbed(f"interlocks: {{input-power: {{max_dbm: {{ocs1: {limit}}}}}}}", **CALIENT)
        assert set(rack.states(rack.plan(testbed), "input-power")) == {state}


def test_light_of_unknown_power_is_unknown_and_never_holds(rack: Any) -> None:
    testbed = rack.load(
        "testbed: rack\n"
        "switches: {ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, address: '10.0.0.5:3082'}}\n"
        "packet_switches: {sn1: {ports: 4}}\n"
        "hosts: {h0: {nics: {eth0: {module: 100g-lr4}}}}\n"
        "fibres:\n  - h0.eth0 <-> ocs1.1\n  - sn1.1 <-> ocs1.2\n"
    )
    (one,) = rack.found(rack.plan(testbed, "ocs1:1A-2B,2A-1B"), "input-power")
    assert (one.state, one.subject, one.figure, one.limit) == ("unknown", "ocs1:2A", None, 20.0)
    assert "how strong the light of sn1.1.tx is, is not known" in one.why
    assert rack.states(rack.plan(testbed, "ocs1:1A-2B"), "input-power") == ["holds"], "nothing of sn1 enters there"


def test_power_at_the_second_switch_is_less_by_the_loss_of_the_first(rack: Any) -> None:
    polatis = "{driver: polatis-tl1, model: polatis-6000, size: 8x8, address: '10.0.0.5:3082'}"
    text = (
        f"testbed: rack\nswitches: {{ocs1: {polatis}, ocs2: {polatis}}}\n"
        "hosts: {h0: {nics: {eth0: {module: 100g-lr4}}}, h1: {nics: {eth0: {module: 100g-dr1}}}}\n"
        "fibres:\n  - h0.eth0 <-> ocs1.1\n  - h1.eth0 <-> ocs2.1\n"
        "  - {from: ocs1.8, to: ocs2.8, loss_db: 0.5}\n"
        "interlocks: {input-power: {max_dbm: {ocs2: LIMIT}}}\n"
    )
    plan = rack.plan(rack.load(text.replace("LIMIT", "8.4")), "ocs1:1A-8B ocs2:8A-1B")
    assert [(one.subject, one.state) for one in rack.found(plan, "input-power")] == [
        ("ocs2:8A", "refused"),
        ("ocs1:1A", "holds"),
    ]
    assert rack.found(plan, "input-power")[0].figure == pytest.approx(10.52 - 1.5 - 0.5, abs=0.01)
    plan = rack.plan(rack.load(text.replace("LIMIT", "8.6")), "ocs1:1A-8B ocs2:8A-1B")
    assert rack.states(plan, "input-power") == ["holds", "holds"]
