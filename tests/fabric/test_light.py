from collections.abc import Callable

import pytest

from hwd.fabric.light import LightMap, light_paths
from hwd.model.link import SwitchCrossconnect
from hwd.model.testbed import Testbed
from hwd_drivers.core.values import FibreEnd, PortSide, Side

Make = Callable[[str], Testbed]


def tx(host: str) -> FibreEnd:
    return FibreEnd(owner=host, port="eth0", side=Side.TX)


def rx(host: str) -> FibreEnd:
    return FibreEnd(owner=host, port="eth0", side=Side.RX)


def passing(**losses_db: float) -> dict[SwitchCrossconnect, float]:
    return {SwitchCrossconnect.parse(f"ocs1:{name.replace('_', '-')}"): loss_db for name, loss_db in losses_db.items()}


def test_light_passes_a_crossconnect_with_its_own_loss_arrives_without_any_and_not_against_the_direction(
    star: Callable[..., Testbed],
) -> None:
    (lit,) = light_paths(star(2, 1), {SwitchCrossconnect.parse("ocs1:1A-2B"): 0.7})
    assert (lit.source, lit.target, lit.loss_db) == (tx("h0"), rx("h1"), 0.7)
    assert [str(one) for one in lit.crossconnects] == ["ocs1:1A-2B"]
    light = LightMap(star(2, 1)).light({})
    assert light.lit == ()
    assert [str(arrival.end) for arrival in light.arrivals] == ["ocs1.1A", "ocs1.2A"]
    powers_dbm = light.powers_dbm("ocs1", lambda source: 1.5)
    assert powers_dbm == {PortSide.parse("1A"): pytest.approx(1.5), PortSide.parse("2A"): pytest.approx(1.5)}
    light = LightMap(star(2, 1)).light(passing(**{"3A_1B": 1.0}))
    assert light.at_receiver(rx("h0")) is None


def test_splitter_lights_all_its_outputs_and_collision_is_no_light(make: Make) -> None:
    testbed = make(
        """
switches: {ocs1: {driver: oxc, model: one-way, address: "10.0.0.1"}}
passives: {sp: {kind: splitter, ports: 2, loss_db: 3.5}, joint: {kind: splitter, ports: 2, loss_db: 3.5}}
hosts:
  h0: {nics: {eth0: {module: 100g-lr4}}}
  h1: {nics: {eth0: {module: 100g-lr4}}}
  h2: {nics: {eth0: {module: 100g-lr4}}}
fibres:
  - h0.eth0.tx -> sp.in
  - sp.out1 -> h1.eth0.rx
  - sp.out2 -> joint.out1
  - h2.eth0.tx -> joint.out2
  - joint.in -> h2.eth0.rx
  - h1.eth0.tx -> h0.eth0.rx
"""
    )
    light = LightMap(testbed).light({})
    found = light.at_receiver(rx("h1"))
    assert found is not None
    assert found.source == tx("h0")
    assert found.loss_db == pytest.approx(3.5)
    assert {lit.source for lit in light.lit if lit.target == rx("h2")} == {tx("h0"), tx("h2")}
    assert light.at_receiver(rx("h2")) is None


def test_light_goes_through_two_switches_and_is_seen_at_both(make: Make) -> None:
    testbed = make(
        """
switches:
  ocs1: {driver: oxc, model: one-way, address: "10.0.0.1"}
  ocs2: {driver: oxc, model: one-way, address: "10.0.0.2"}
hosts: {h0: {nics: {eth0: {module: 100g-lr4}}}, h1: {nics: {eth0: {module: 100g-lr4}}}}
fibres: [h0.eth0 <-> ocs1.1, h1.eth0 <-> ocs2.1, {from: ocs1.9B, to: ocs2.9A, loss_db: 0.5}]
"""
    )
    crossconnects = {SwitchCrossconnect.parse("ocs1:1A-9B"): 1.0, SwitchCrossconnect.parse("ocs2:9A-1B"): 2.0}
    light = LightMap(testbed).light(crossconnects)
    (lit,) = light.lit
    assert (lit.target, lit.loss_db) == (rx("h1"), 3.5)
    assert light.powers_dbm("ocs2", lambda source: 2.0)[PortSide.parse("9A")] == pytest.approx(0.5)


def test_ring_of_fibre_ends_and_a_packet_switch_sends_and_receives(make: Make) -> None:
    testbed = make(
        """
switches: {ocs1: {driver: oxc, model: both-ways, address: "10.0.0.1"}}
hosts: {h0: {nics: {eth0: {module: 100g-lr4}}}}
fibres: [h0.eth0.tx <-> ocs1.1A, h0.eth0.rx <-> ocs1.1B, ocs1.2B <-> ocs1.3A, ocs1.3B <-> ocs1.2A]
"""
    )
    light = LightMap(testbed).light(passing(**{"1A_2B": 1.0, "3A_3B": 1.0, "2A_1B": 1.0}))
    assert [(lit.target, lit.loss_db) for lit in light.lit] == [(rx("h0"), 3.0)]
    text = "packet_switches: {eps1: {ports: 2}}\nhosts: {h0: {nics: {eth0: {module: 100g-lr4}}}}\n"
    light = LightMap(make(f"{text}fibres: [h0.eth0 <-> eps1.1]\n")).light({})
    found = {(str(lit.source), str(lit.target)) for lit in light.lit}
    assert found == {("h0.eth0.tx", "eps1.1.rx"), ("eps1.1.tx", "h0.eth0.rx")}
