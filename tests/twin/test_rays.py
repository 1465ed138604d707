"""Light of a rack by what its fibres and switches let through."""

from collections.abc import Callable

import pytest

from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Testbed
from hwd.twin.rays import Rays, Touched
from hwd_drivers.core.values import Crossconnect, FibreEnd, Side, sum_dbm

MakeTestbed = Callable[..., Testbed]
SENT_DBM = (1.0, 2.0, 3.0, 4.0)


def rays_of(testbed: Testbed, *, dark: str = "") -> Rays:
    return Rays(testbed, {port.id: SENT_DBM for port in testbed.ports() if str(port.id) != dark})


def let_through(rays: Rays, *crossconnects: str, switch: str = "ocs1") -> Touched:
    return rays.pass_through(switch, {Crossconnect.parse(text): 1.0 for text in crossconnects})


def port(text: str) -> NicPortId:
    return NicPortId.parse(text)


def test_receiver_gets_each_lane_less_the_loss(make_testbed: MakeTestbed) -> None:
    rays = rays_of(make_testbed())
    assert let_through(rays, "1A-3B").receivers == (port("h1.eth0"),)
    received = rays.received(port("h1.eth0"))
    assert received.sender == port("h0.eth0")
    assert received.lanes_dbm == pytest.approx((0.0, 1.0, 2.0, 3.0))
    assert rays.received(port("h0.eth0")).lanes_dbm == (None,) * 4


def test_only_what_changed_is_touched(make_testbed: MakeTestbed) -> None:
    rays = rays_of(make_testbed())
    let_through(rays, "1A-3B", "3A-1B")
    assert let_through(rays, "1A-3B", "3A-1B") == Touched()
    assert let_through(rays, "1A-3B", "3A-1B", "5A-7B").receivers == (port("h3.eth0"),)
    assert let_through(rays, "1A-5B", "3A-1B", "5A-7B").receivers == (port("h1.eth0"), port("h2.eth0"))


def test_switch_ends_get_the_sum_of_the_lanes(make_testbed: MakeTestbed) -> None:
    rays = rays_of(make_testbed())
    assert rays.at_switch(FibreEnd(owner="ocs1", port="1", side=Side.A)) == pytest.approx(sum_dbm(*SENT_DBM))
    assert rays.at_switch(FibreEnd(owner="ocs1", port="16", side=Side.A)) is None


def test_light_of_two_transmitters_adds_up_and_belongs_to_nobody(make_testbed: MakeTestbed) -> None:
    """A splitter, used the fibres swapped, brings light of two."""
    testbed = make_testbed(
        hosts="  h4: {twin: {timing: ideal}, nics: {eth0: {module: 100g-lr4}}}",
        extra="""
  - {from: ocs1.9B, to: sp1.out1}
  - {from: ocs1.10B, to: sp1.out2}
  - {from: sp1.in, to: h4.eth0.rx}
  - {from: h4.eth0.tx, to: ocs1.9A}
passives: {sp1: {kind: splitter, ports: 2, loss_db: 3.5}}
""",
    )
    rays = rays_of(testbed)
    let_through(rays, "1A-9B")
    assert rays.received(port("h4.eth0")).sender == port("h0.eth0")
    let_through(rays, "1A-9B", "3A-10B")
    both = rays.received(port("h4.eth0"))
    assert both.sender is None
    assert both.lanes_dbm[0] == pytest.approx(sum_dbm(-3.5, -3.5))


def test_transmitter_without_a_twin_is_dark(make_testbed: MakeTestbed) -> None:
    rays = rays_of(make_testbed(), dark="h0.eth0")
    let_through(rays, "1A-3B")
    assert rays.received(port("h1.eth0")).sender is None


def test_packet_switch_sends_always_and_tells_whether_it_is_lit(make_testbed: MakeTestbed) -> None:
    testbed = make_testbed(
        hosts="  h4: {twin: {timing: ideal}, nics: {eth0: {module: 100g-lr4}}}",
        extra="  - h4.eth0 <-> sn1.1\npacket_switches: {sn1: {ports: 4}}",
    )
    rays = rays_of(testbed)
    assert rays.received(port("h4.eth0")).sender == port("sn1.1")
    assert rays.lights(port("sn1.1"))
    assert not rays_of(testbed, dark="h4.eth0").lights(port("sn1.1"))
