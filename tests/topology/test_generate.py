from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwd.fabric.fabric import Fabric
from hwd.model.link import Topology
from hwd.model.testbed import Testbed
from hwd.topology.generate import GENERATORS, generate
from hwd_drivers.core.errors import ConfigError

Rack = Callable[..., Testbed]
OPUS_GROUPS = (("dp0", "pp0"), ("dp0", "pp1"), ("dp1", "pp0"), ("dp1", "pp1"))


def links(topology: Topology) -> list[str]:
    return [str(link) for link in topology.links]


def test_ring_leaves_each_host_by_its_second_port_for_the_first_of_the_next(rack: Rack) -> None:
    topology = generate("ring", rack(4), {"rail": "1"})
    assert links(topology) == ["h0.eth3<->h1.eth2", "h1.eth3<->h2.eth2", "h2.eth3<->h3.eth2", "h0.eth2<->h3.eth3"]
    assert topology.name == "ring rail=1"


def test_ring_of_two_hosts_is_two_parallel_links(rack: Rack) -> None:
    assert links(generate("ring", rack(4), {"hosts": "h3,h1", "rail": "0"})) == [
        "h1.eth0<->h3.eth1",
        "h1.eth1<->h3.eth0",
    ]


def test_ring_keeps_the_order_of_the_hosts_named(rack: Rack) -> None:
    found = links(generate("ring", rack(3), {"hosts": "h0,h2,h1", "rail": "0"}))
    assert found == ["h0.eth1<->h2.eth0", "h1.eth0<->h2.eth1", "h0.eth0<->h1.eth1"]


def test_every_rail_has_its_ring_where_none_is_named(rack: Rack) -> None:
    assert len(links(generate("ring", rack(4), {}))) == 8


def test_group_stands_for_its_numbered_labels_each_a_ring_of_its_own(rack: Rack) -> None:
    found = links(generate("ring", rack(4, groups=OPUS_GROUPS), {"groups": "dp", "rail": "0"}))
    assert found == ["h0.eth1<->h1.eth0", "h0.eth0<->h1.eth1", "h2.eth1<->h3.eth0", "h2.eth0<->h3.eth1"]
    assert links(generate("ring", rack(4, groups=OPUS_GROUPS), {"groups": "dp1", "rail": "0"})) == found[2:]


def test_group_that_is_named_twice_is_refused(rack: Rack) -> None:
    with pytest.raises(ConfigError, match="a group is named twice"):
        generate("ring", rack(4, groups=OPUS_GROUPS), {"groups": "dp1,dp1", "rail": "0"})


def test_pairs_join_neighbours_port_by_port(rack: Rack) -> None:
    assert links(generate("pairs", rack(4), {"rail": "0"})) == [
        "h0.eth0<->h1.eth0",
        "h0.eth1<->h1.eth1",
        "h2.eth0<->h3.eth0",
        "h2.eth1<->h3.eth1",
    ]


def test_pairs_of_the_pipeline_groups_cross_the_data_groups(rack: Rack) -> None:
    found = links(generate("pairs", rack(4, groups=OPUS_GROUPS), {"groups": "pp", "rail": "0"}))
    assert found == ["h0.eth0<->h2.eth0", "h0.eth1<->h2.eth1", "h1.eth0<->h3.eth0", "h1.eth1<->h3.eth1"]


def test_giant_ring_goes_over_all_hosts_of_every_rail(rack: Rack) -> None:
    topology = generate("giant-ring", rack(4, groups=OPUS_GROUPS), {})
    assert len(topology.links) == 8
    for rail_ports in ({"eth0", "eth1"}, {"eth2", "eth3"}):
        hosts = Counter(end.host for link in topology.links for end in link.ends if end.port in rail_ports)
        assert hosts == {"h0": 2, "h1": 2, "h2": 2, "h3": 2}


def test_ports_on_packet_switches_are_not_chosen(rack: Rack) -> None:
    found = links(generate("pairs", rack(2, ports=3, rails=0, electrical=1), {}))
    assert found == ["h0.eth0<->h1.eth0", "h0.eth1<->h1.eth1", "h0.eth2<->h1.eth2"]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("torus", {}, "topology 'torus': unknown; there are giant-ring, pairs, ring"),
        ("ring", {"host": "h0"}, "topology ring: no argument 'host'; it takes hosts, rail, groups"),
        ("giant-ring", {"groups": "dp"}, "topology giant-ring: no argument 'groups'; it takes hosts, rail"),
        ("ring", {"hosts": "h0"}, "ring: needs two hosts at least; h0 is alone on rail 0"),
        ("ring", {"hosts": "h0,h9"}, "hosts=h0,h9: no host 'h9'; testbed rack has h0, h1, h2, h3"),
        ("ring", {"hosts": "h0,h0"}, "hosts=h0,h0: a host is named twice"),
        ("ring", {"hosts": ","}, "an argument without a value; write hosts=h0,h1"),
        ("ring", {"rail": "5"}, "rail=5: the hosts have no optical NIC port on rail 5; they have 0, 1"),
        ("ring", {"groups": "tp"}, "groups=tp: none of the hosts has a group tp; they have dp0, dp1, pp0, pp1"),
        (
            "pairs",
            {"groups": "dp,pp"},
            "pairs groups=dp,pp: h0.eth0 would be in h0.eth0<->h1.eth0 and in h0.eth0<->h2.eth0. Name groups that "
            "share no hosts",
        ),
        (
            "pairs",
            {"hosts": "h0,h1,h2"},
            "pairs: needs an even number of hosts; there are 3 (h0, h1, h2) on rail 0. Name an even number with "
            "hosts=...",
        ),
    ],
)
def test_impossible_request_says_why(rack: Rack, name: str, arguments: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        generate(name, rack(4, groups=OPUS_GROUPS), arguments)
    assert str(caught.value) == said


def test_ring_over_hosts_with_one_port_says_what_would_do(rack: Rack) -> None:
    with pytest.raises(ConfigError) as caught:
        generate("ring", rack(2, ports=2, rails=2), {"rail": "0"})
    assert str(caught.value) == (
        "ring: needs 2 NIC ports on optical switches a host; h0 has 1 (eth0) on rail 0. "
        "Leave h0 out with hosts=..., or choose another rail or topology"
    )


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(GENERATORS)), hosts=st.integers(2, 9), rails=st.integers(0, 3), each=st.integers(2, 3)
)
def test_what_is_generated_can_be_routed_and_uses_no_port_twice(
    rack: Rack, name: str, hosts: int, rails: int, each: int
) -> None:
    testbed = rack(hosts, ports=each * max(rails, 1), rails=rails)
    if name == "pairs" and hosts % 2:
        with pytest.raises(ConfigError):
            generate(name, testbed, {})
        return
    topology = generate(name, testbed, {})
    ends = [end for link in topology.links for end in link.ends]
    assert len(set(ends)) == len(ends)
    assert len(Fabric(testbed).routes(topology.links)) == len(topology.links)
    assert all(testbed.port(link.a).rail == testbed.port(link.b).rail for link in topology.links)
