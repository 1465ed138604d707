"""Where packets of a rack go for a state of its light, without a kernel."""

from collections.abc import Callable, Iterable
from ipaddress import IPv4Address

import pytest

from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Testbed
from hwd.twin.packet_ways import PacketWays, Way

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
MakeTestbed = Callable[..., Testbed]
Light = dict[NicPortId, tuple[NicPortId, ...]]


def port(text: str) -> NicPortId:
    return NicPortId.parse(text)


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


def test_second_fibre_between_two_packet_switches_passes_no_packets_until_the_first_one_is_dark(
    ways: PacketWays,
) -> None:
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


def test_packet_switches_without_a_lit_fibre_between_them_are_apart(ways: PacketWays) -> None:
    ways.see(lit(FIBRES))
    assert way(ways, "e0", "10.5.0.2") is None


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


def test_address_of_the_second_link_between_two_hosts_is_reached_over_that_link(ways: PacketWays) -> None:
    ways.see(lit(["h0.eth0-h1.eth0", "h0.eth1-h1.eth1", "h1.eth0-h0.eth0"]))
    assert way(ways, "h0", "10.1.1.1") == Way(port=port("h0.eth0"))
    assert way(ways, "h0", "10.1.1.2") == Way(port=port("h0.eth1"))


def test_far_host_of_a_chain_is_reached_via_the_host_in_between(ways: PacketWays) -> None:
    ways.see(lit(["h0.eth1-h1.eth0", "h1.eth1-h2.eth0"]))
    for far in ("10.1.2.1", "10.1.2.2"):
        assert way(ways, "h0", far) == Way(port=port("h0.eth1"), via=IPv4Address("10.1.1.1"))
    assert way(ways, "h0", "10.1.1.2") == Way(port=port("h0.eth1"), via=IPv4Address("10.1.1.1")), "its other port"
