"""Light of a rack by what its fibres and switches let through, and where packets go for a state of it."""

from collections.abc import Callable, Iterable
from ipaddress import IPv4Address

import pytest

from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Testbed
from hwd.twin.packet_ways import PacketWays, Way
from hwd.twin.rays import AffectedEnds, Rays
from hwd_drivers.core.values import Crossconnect, FibreEnd, Side, sum_dbm

MakeTestbed = Callable[..., Testbed]
SENT_DBM = (1.0, 2.0, 3.0, 4.0)


def rays_of(testbed: Testbed, *, dark: str = "") -> Rays:
    return Rays(testbed, {port.id: SENT_DBM for port in testbed.ports() if str(port.id) != dark})


def let_through(rays: Rays, *crossconnects: str, switch: str = "ocs1") -> AffectedEnds:
    return rays.pass_through(switch, {Crossconnect.parse(text): 1.0 for text in crossconnects})


def port(text: str) -> NicPortId:
    return NicPortId.parse(text)


def test_receiver_and_switch_ends_get_what_is_left_and_only_what_changed_is_touched(make_testbed: MakeTestbed) -> None:
    rays = rays_of(make_testbed())
    assert let_through(rays, "1A-3B").receivers == (port("h1.eth0"),)
    received = rays.received(port("h1.eth0"))
    assert received.sender == port("h0.eth0")
    assert received.lanes_dbm == pytest.approx((0.0, 1.0, 2.0, 3.0))
    assert rays.received(port("h0.eth0")).lanes_dbm == (None,) * 4
    rays = rays_of(make_testbed())
    assert rays.at_switch(FibreEnd(owner="ocs1", port="1", side=Side.A)) == pytest.approx(sum_dbm(*SENT_DBM))
    assert rays.at_switch(FibreEnd(owner="ocs1", port="16", side=Side.A)) is None
    rays = rays_of(make_testbed())
    let_through(rays, "1A-3B", "3A-1B")
    assert let_through(rays, "1A-3B", "3A-1B") == AffectedEnds()
    assert let_through(rays, "1A-3B", "3A-1B", "5A-7B").receivers == (port("h3.eth0"),)
    assert let_through(rays, "1A-5B", "3A-1B", "5A-7B").receivers == (port("h1.eth0"), port("h2.eth0"))
    rays = rays_of(make_testbed(), dark="h0.eth0")
    let_through(rays, "1A-3B")
    assert rays.received(port("h1.eth0")).sender is None


def test_light_of_two_transmitters_belongs_to_nobody_and_a_packet_switch_sends_always_and_tells_whether_it_is_lit(
    make_testbed: MakeTestbed,
) -> None:
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
    testbed = make_testbed(
        hosts="  h4: {twin: {timing: ideal}, nics: {eth0: {module: 100g-lr4}}}",
        extra="  - h4.eth0 <-> sn1.1\npacket_switches: {sn1: {ports: 4}}",
    )
    rays = rays_of(testbed)
    assert rays.received(port("h4.eth0")).sender == port("sn1.1")
    assert rays.lights(port("sn1.1"))
    assert not rays_of(testbed, dark="h4.eth0").lights(port("sn1.1"))


HOSTS = """
  e0: {twin: {kernel: true, timing: ideal, seed: 10}, nics: {eth0: {ip: 10.5.0.1/32, module: 100g-lr4}}}
  e1: {twin: {kernel: true, timing: ideal, seed: 11}, nics: {eth0: {ip: 10.5.0.2/32, module: 100g-lr4}}}
"""
TWO_SWITCHES = """
  - e0.eth0 <-> eps1.1
  - e1.eth0 <-> eps2.1
  - eps1.7 <-> eps2.7
  - eps1.8 <-> eps2.8
packet_switches: {eps1: {ports: 8}, eps2: {ports: 8}}
"""
Light = dict[NicPortId, tuple[NicPortId, ...]]


def lit(pairs: Iterable[str]) -> Light:
    """Both ways between the ports of each pair, `h0.eth0-h1.eth0`."""
    found: Light = {}
    for one, other in (pair.split("-") for pair in pairs):
        found[port(one)], found[port(other)] = (port(other),), (port(one),)
    return found


@pytest.fixture
def ways(make_testbed: MakeTestbed) -> PacketWays:
    return PacketWays(make_testbed(kernel=True, hosts=HOSTS, extra=TWO_SWITCHES))


def way(ways: PacketWays, host: str, ip: str) -> Way | None:
    return ways.routes().get(host, {}).get(IPv4Address(ip))


FIBRES = ("e0.eth0-eps1.1", "e1.eth0-eps2.1")


def test_packet_switches_without_a_lit_fibre_between_them_are_apart_until_the_second_is_needed(
    ways: PacketWays,
) -> None:
    ways.see(lit(FIBRES))
    assert way(ways, "e0", "10.5.0.2") is None
    ways.see(lit([*FIBRES, "eps1.7-eps2.7", "eps1.8-eps2.8"]))
    assert ways.carried(port("eps1.7")) == (port("eps2.7"),)
    assert ways.carried(port("eps2.7")) == (port("eps1.7"),)
    assert ways.carried(port("eps1.8")) == ways.carried(port("eps2.8")) == ()
    assert way(ways, "e0", "10.5.0.2") == Way(port=port("e0.eth0"))
    moved = ways.see({port("eps1.7"): ()})
    assert set(moved) == {port(f"eps{switch}.{number}") for switch in (1, 2) for number in (7, 8)}
    assert ways.carried(port("eps2.7")) == (), "a fibre that is lit one way alone"
    assert ways.carried(port("eps1.8")) == (port("eps2.8"),)
    assert way(ways, "e0", "10.5.0.2") == Way(port=port("e0.eth0"))


def test_address_on_a_packet_switch_is_not_reached_over_light_nor_the_other_way_round(
    make_testbed: MakeTestbed,
) -> None:
    """e0 and e1 have a link of light at eth0 and a packet switch at eth1: a cut of either must not go unseen."""
    hosts = "".join(
        f"  e{n}: {{twin: {{kernel: true, timing: ideal, seed: {n}}}, nics: {{eth0: {{ip: 10.6.{n}.1/32, "
        f"module: 100g-lr4}}, eth1: {{ip: 10.6.{n}.2/32, module: 100g-lr4}}}}}}\n"
        for n in range(2)
    )
    fibres = "\n  - e0.eth0 <-> ocs1.15\n  - e1.eth0 <-> ocs1.16\n  - e0.eth1 <-> eps1.1\n  - e1.eth1 <-> eps1.2"
    ways = PacketWays(
        make_testbed(kernel=True, hosts=hosts, extra=f"{fibres}\npacket_switches: {{eps1: {{ports: 4}}}}")
    )
    ways.see(lit(["e0.eth0-e1.eth0", "e0.eth1-eps1.1", "e1.eth1-eps1.2"]))
    assert way(ways, "e0", "10.6.1.1") == Way(port=port("e0.eth0"))
    assert way(ways, "e0", "10.6.1.2") == Way(port=port("e0.eth1"))
    ways.see({port("e0.eth1"): (), port("eps1.1"): ()})
    assert way(ways, "e0", "10.6.1.2") is None
    ways.see(lit(["e0.eth1-eps1.1"]))
    ways.see({port("e0.eth0"): (), port("e1.eth0"): ()})
    assert way(ways, "e0", "10.6.1.1") is None
    assert way(ways, "e0", "10.6.1.2") == Way(port=port("e0.eth1"))


def test_second_address_is_reached_over_its_link_and_the_far_host_of_a_chain_via_the_one_in_between(
    ways: PacketWays,
) -> None:
    ways.see(lit(["h0.eth0-h1.eth0", "h0.eth1-h1.eth1", "h1.eth0-h0.eth0"]))
    assert way(ways, "h0", "10.1.1.1") == Way(port=port("h0.eth0"))
    assert way(ways, "h0", "10.1.1.2") == Way(port=port("h0.eth1"))
    ways.see(lit(["h0.eth1-h1.eth0", "h1.eth1-h2.eth0"]) | {port("h0.eth0"): ()})
    for far in ("10.1.2.1", "10.1.2.2"):
        assert way(ways, "h0", far) == Way(port=port("h0.eth1"), via=IPv4Address("10.1.1.1"))
    assert way(ways, "h0", "10.1.1.2") == Way(port=port("h0.eth1"), via=IPv4Address("10.1.1.1")), "its other port"
