"""No plan that nothing refuses has a circuit over a limit, whatever the rack loses and bears."""

import math
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hwd.model.interlock import refusal

LR4_LANES = 4


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    loss_db=st.floats(0, 12).map(lambda one: round(one, 2)),
    tx_min_dbm=st.floats(-9, 0).map(lambda one: round(one, 2)),
    spread_db=st.floats(0, 20).map(lambda one: round(one, 2)),
    rx_min_dbm=st.floats(-15, -3).map(lambda one: round(one, 2)),
    rx_max_dbm=st.floats(-3, 12).map(lambda one: round(one, 2)),
    input_max_dbm=st.one_of(st.none(), st.floats(-5, 25).map(lambda one: round(one, 2))),
    failed=st.sampled_from([None, 1, 2, 3, 7]),
    pair=st.permutations(["h0", "h1", "h2"]).map(lambda hosts: (f"{hosts[0]}.eth0", f"{hosts[1]}.eth0")),
    lit=st.sampled_from(["", "1A-2B 2A-1B", "1A-3B 3A-1B", "2A-3B"]),
)
@example(0.0, -4.3, 8.8, -10.6, 4.5, None, None, ("h0.eth0", "h1.eth0"), "")
def test_a_plan_that_passes_has_no_circuit_over_a_limit(
    rack: Any,
    loss_db: float,
    tx_min_dbm: float,
    spread_db: float,
    rx_min_dbm: float,
    rx_max_dbm: float,
    input_max_dbm: float | None,
    failed: int | None,
    pair: tuple[str, str],
    lit: str,
) -> None:
    module = (
        f"{{type: 100g-lr4, tx_min_dbm: {tx_min_dbm}, tx_max_dbm: {tx_min_dbm + spread_db:.2f}, "
        f"rx_min_dbm: {rx_min_dbm}, rx_max_dbm: {rx_max_dbm}, los_deassert_dbm: -30.0, los_assert_dbm: -31.0}}"
    )
    more = [] if failed is None else [f"ports: {{ocs1.{failed}: {{state: failed}}}}"]
    more += [] if input_max_dbm is None else [f"interlocks: {{input-power: {{max_dbm: {{ocs1: {input_max_dbm}}}}}}}"]
    testbed = rack.testbed(*more, module=module, loss_db=loss_db)
    plan = rack.plan(testbed, "<->".join(pair), there={"ocs1": lit})
    tx_max_dbm = round(tx_min_dbm + spread_db, 2)
    allowed_dbm = 20.0 if input_max_dbm is None else input_max_dbm
    ways = [(pair[0], pair[1]), (pair[1], pair[0])]
    lossy = "h0.eth0"
    losses_db = {(a, b): loss_db * (lossy in (a, b)) for a, b in ways}
    too_weak = any(tx_min_dbm - losses_db[way] - 2.7 < rx_min_dbm - 1e-6 for way in ways)
    too_strong = any(tx_max_dbm - losses_db[way] - 1.5 > rx_max_dbm + 1e-6 for way in ways)
    entering_dbm = [tx_max_dbm - loss_db * (a == lossy) + 10 * math.log10(LR4_LANES) for a, _ in ways]
    too_much = any(power > allowed_dbm + 1e-6 for power in entering_dbm)
    broken = failed is not None and f"h{failed - 1}.eth0" in pair
    assert bool(refusal(plan.interlocks)) == (too_weak or too_strong or too_much or broken)
