import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwd.config import topologies
from hwd.daemon.installed_drivers import load
from hwd.fabric.fabric import Fabric
from hwd.model.circuit import Topology
from hwd.model.demand import DemandMatrix
from hwd.model.link import Link
from hwd.model.testbed import Testbed
from hwd.topology import Given, Party, TopologyKind, generate
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import Draws

from ..answers import check_golden

Rack = Callable[..., Testbed]
REFUSALS = Path(__file__).with_name("refusals.txt")
OPUS_GROUPS = (("dp0", "pp0"), ("dp0", "pp1"), ("dp1", "pp0"), ("dp1", "pp1"))


def made(name: str, testbed: Testbed, arguments: dict[str, str]) -> Topology:
    return generate(name, topologies.find(name), testbed, arguments, draws=Draws)


def links(topology: Topology) -> list[str]:
    return [str(link) for link in topology.links]


def test_links_of_rings_and_pairs(rack: Rack) -> None:
    grouped = rack(4, groups=OPUS_GROUPS)
    cases: list[tuple[str, Testbed, dict[str, str], str]] = [
        # A ring leaves each host by its second port for the first of the next; two hosts have two parallel links.
        ("ring", rack(4), {"rail": "1"}, "h0.eth3-h1.eth2 h1.eth3-h2.eth2 h2.eth3-h3.eth2 h0.eth2-h3.eth3"),
        ("ring", rack(4), {"hosts": "h3,h1", "rail": "0"}, "h1.eth0-h3.eth1 h1.eth1-h3.eth0"),
        ("ring", rack(3), {"hosts": "h0,h2,h1", "rail": "0"}, "h0.eth1-h2.eth0 h1.eth0-h2.eth1 h0.eth0-h1.eth1"),
        # A group stands for its numbered labels, each a ring of its own.
        ("ring", grouped, {"groups": "dp1", "rail": "0"}, "h2.eth1-h3.eth0 h2.eth0-h3.eth1"),
        (
            "ring",
            grouped,
            {"groups": "dp", "rail": "0"},
            "h0.eth1-h1.eth0 h0.eth0-h1.eth1 h2.eth1-h3.eth0 h2.eth0-h3.eth1",
        ),
        ("pairs", rack(4), {"rail": "0"}, "h0.eth0-h1.eth0 h0.eth1-h1.eth1 h2.eth0-h3.eth0 h2.eth1-h3.eth1"),
        # Pairs of the pipeline groups cross the data groups.
        (
            "pairs",
            grouped,
            {"groups": "pp", "rail": "0"},
            "h0.eth0-h2.eth0 h0.eth1-h2.eth1 h1.eth0-h3.eth0 h1.eth1-h3.eth1",
        ),
        # Ports on packet switches are not chosen.
        ("pairs", rack(2, ports=3, rails=0, electrical=1), {}, "h0.eth0-h1.eth0 h0.eth1-h1.eth1 h0.eth2-h1.eth2"),
    ]
    for name, testbed, arguments, found in cases:
        topology = made(name, testbed, arguments)
        assert " ".join(links(topology)).replace("<->", "-") == found
        assert topology.name == " ".join([name, *(f"{key}={value}" for key, value in arguments.items())])
    assert len(links(made("ring", rack(4), {}))) == 8, "every rail has its ring where none is named"


def test_giant_ring_goes_over_all_hosts_of_every_rail(rack: Rack) -> None:
    topology = made("giant-ring", rack(4, groups=OPUS_GROUPS), {})
    assert len(topology.links) == 8
    for rail_ports in ({"eth0", "eth1"}, {"eth2", "eth3"}):
        hosts = Counter(end.host for link in topology.links for end in link.ends if end.port in rail_ports)
        assert hosts == {"h0": 2, "h1": 2, "h2": 2, "h3": 2}


OF_GROUPS: list[tuple[str, dict[str, str]]] = [
    ("rings", {}),
    ("ring", {"host": "h0"}),
    ("giant-ring", {"groups": "dp"}),
    ("ring", {"hosts": "h0"}),
    ("ring", {"hosts": "h0,h9"}),
    ("ring", {"hosts": "h0,h0"}),
    ("ring", {"hosts": ","}),
    ("ring", {"rail": "5"}),
    ("ring", {"groups": "tp"}),
    ("pairs", {"groups": "dp,pp"}),
    ("ring", {"groups": "dp1,dp1"}),
    ("pairs", {"hosts": "h0,h1,h2"}),
]
OF_TWO_PORTS: list[tuple[str, dict[str, str]]] = [
    ("torus", {}),
    ("torus", {"dims": "3x2"}),
    ("torus", {"dims": "4x1"}),
    ("torus", {"dims": "2x2"}),
    ("full-mesh", {}),
    ("rotor", {"slot": "-1"}),
    ("expander", {"degree": "0"}),
    ("expander", {"degree": "4"}),
    ("expander", {"hosts": "h0,h1,h2", "degree": "1"}),
    ("splittable-expander", {"degree": "1"}),
    ("splittable-expander", {"split": "maybe"}),
    ("matching", {}),
    ("mfabric", {}),
    ("mfabric", {"demand": "h0:h1:1", "variant": "go"}),
    ("matching", {"demand": "h0:h9:5"}),
    ("matching", {"demand": "h0:h1:nan"}),
    ("matching", {"demand": "h0:h1:-1"}),
    ("matching", {"demand": "h0:h0:1"}),
]
"""What no topology is made of: on hosts of two rails in groups, and on hosts of two ports."""


def test_impossible_request_says_why(rack: Rack) -> None:
    """To take over what is said now: delete the file and run this twice."""
    grouped, plain = rack(4, groups=OPUS_GROUPS), rack(4, ports=2, rails=0)
    asked = [*((grouped, *one) for one in OF_GROUPS), *((plain, *one) for one in OF_TWO_PORTS)]
    asked.append((rack(2, ports=2, rails=2), "ring", {"rail": "0"}))  # one port on each rail
    said = ""
    for testbed, name, arguments in asked:
        with pytest.raises(ConfigError) as caught:
            made(name, testbed, arguments)
        said += f"{' '.join([name, *(f'{key}={value}' for key, value in arguments.items())])}\n  {caught.value}\n"
    check_golden(REFUSALS, said)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(topologies.names()), hosts=st.integers(2, 9), rails=st.integers(0, 3), each=st.integers(1, 8)
)
def test_what_is_generated_can_be_routed_and_uses_no_port_twice(
    rack: Rack, name: str, hosts: int, rails: int, each: int
) -> None:
    testbed = rack(hosts, ports=each * max(rails, 1), rails=rails)
    demand = {"demand": "h0:h1:3"}
    arguments = {"torus": {"dims": str(hosts)}, "matching": demand, "mfabric": demand}.get(name, {})
    try:
        topology = made(name, testbed, arguments)
    except ConfigError as error:
        if not re.search("needs|must be even|more than|no connected", str(error)):
            raise
        return
    ends = [end for link in topology.links for end in link.ends]
    assert len(set(ends)) == len(ends)
    assert len(Fabric(testbed).routes(topology.links)) == len(topology.links)
    assert all(testbed.port(link.a).rail == testbed.port(link.b).rail for link in topology.links)


def hosts_of(topology: Topology) -> list[tuple[str, str]]:
    return [(link.a.host, link.b.host) for link in topology.links]


def test_rotor_joins_every_two_hosts_in_a_round_of_slots_and_stands_still_with_a_port_for_each(rack: Rack) -> None:
    for hosts, ports, slots in ((4, 1, 3), (5, 1, 5), (8, 2, 4), (8, 3, 3), (2, 1, 1)):
        bed = rack(hosts, ports=ports, rails=0)
        joined = Counter(pair for slot in range(slots) for pair in hosts_of(made("rotor", bed, {"slot": str(slot)})))
        assert {*joined} == {*itertools.combinations([f"h{n}" for n in range(hosts)], 2)}
        assert hosts_of(made("rotor", bed, {"slot": str(hosts * ports * slots)})), "slots go on after the last round"
    for ports in (3, 5):
        bed = rack(4, ports=ports, rails=0)
        assert made("rotor", bed, {"slot": "0"}).links == made("rotor", bed, {"slot": "1"}).links


@pytest.mark.parametrize(("hosts", "ports"), [(8, 2), (8, 3), (9, 4), (6, 5)])
def test_opera_moves_one_port_from_slot_to_slot_and_joins_all_in_a_round(rack: Rack, hosts: int, ports: int) -> None:
    testbed = rack(hosts, ports=ports, rails=0)
    rounds = hosts if hosts % 2 else hosts - 1
    slots = [made("opera", testbed, {"slot": str(slot), "seed": "3"}) for slot in range(ports * rounds)]
    assert {pair for slot in slots for pair in hosts_of(slot)} == {
        *itertools.combinations([f"h{n}" for n in range(hosts)], 2)
    }
    for number, (one, following) in enumerate(itertools.pairwise(slots)):
        moved = {end.port for link in {*one.links} ^ {*following.links} for end in link.ends}
        port = (number + 1) % ports
        has_others = len(range(port, rounds, ports)) > 1
        assert moved == ({f"eth{port}"} if has_others else set())


def test_torus_is_a_ring_in_each_dimension_and_full_mesh_joins_every_two_hosts_once(rack: Rack) -> None:
    topology = made("torus", rack(6, ports=4, rails=0), {"dims": "2x3"})
    assert len(topology.links) == 12
    columns = [link for link in topology.links if {link.a.port, link.b.port} == {"eth0", "eth1"}]
    assert Counter(tuple(sorted((link.a.host, link.b.host))) for link in columns) == {
        ("h0", "h3"): 2, ("h1", "h4"): 2, ("h2", "h5"): 2,
    }  # fmt: skip
    rows = Counter(pair for pair in hosts_of(topology)) - Counter(hosts_of(Topology(name="", links=tuple(columns))))
    assert {*rows} == {("h0", "h1"), ("h1", "h2"), ("h0", "h2"), ("h3", "h4"), ("h4", "h5"), ("h3", "h5")}
    joined = Counter(hosts_of(made("full-mesh", rack(6, ports=5, rails=0), {})))
    assert joined == Counter(itertools.combinations([f"h{n}" for n in range(6)], 2))


@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_expander_is_regular_and_connected_and_the_same_for_the_same_seed(rack: Rack, seed: str) -> None:
    testbed = rack(16, ports=4, rails=0)
    topology = made("expander", testbed, {"degree": "3", "seed": seed})
    assert {*Counter(host for pair in hosts_of(topology) for host in pair).values()} == {3}
    assert len({*hosts_of(topology)}) == len(topology.links) == 24
    assert reached(hosts_of(topology), "h0") == {f"h{n}" for n in range(16)}
    assert made("expander", testbed, {"degree": "3", "seed": seed}) == topology
    assert made("expander", testbed, {"degree": "3", "seed": f"{seed}7"}).links != topology.links


def test_splittable_expander_of_acos_splits_into_two_complete_graphs(rack: Rack) -> None:
    """ACOS, section 4.2: half of each GPU's links cross; 16 split into two K8 with a perfect matching."""
    testbed = rack(16, ports=8, rails=0)
    halves = {f"h{n}": n // 8 for n in range(16)}
    whole, split = (
        hosts_of(made("splittable-expander", testbed, {"split": split, "seed": "5"})) for split in ("no", "yes")
    )
    crossing = [pair for pair in whole if halves[pair[0]] != halves[pair[1]]]
    assert Counter(host for pair in crossing for host in pair) == dict.fromkeys(halves, 4)
    assert len(crossing) * 4 == len(whole) * 2
    assert reached(whole, "h0") == {*halves}
    assert all(halves[one] == halves[other] for one, other in split)
    pairs = Counter(split)
    assert len(pairs) == 2 * 28
    assert Counter(host for pair, times in pairs.items() if times == 2 for host in pair) == dict.fromkeys(halves, 1)
    stays = Counter(whole) - Counter(crossing)
    assert not stays - pairs, "what does not cross stays"


def reached(pairs: list[tuple[str, str]], host: str) -> set[str]:
    found, left = {host}, [host]
    while left:
        at = left.pop()
        new = {other for pair in pairs if at in pair for other in pair} - found
        found |= new
        left += new
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(demand=st.dictionaries(st.sampled_from([*itertools.combinations(range(6), 2)]), st.integers(0, 9), min_size=1))
def test_matching_serves_the_most_demand(rack: Rack, demand: dict[tuple[int, int], int]) -> None:
    """Against all perfect matchings of six hosts."""
    text = ",".join(f"h{one}:h{other}:{amount}" for (one, other), amount in demand.items())
    found = hosts_of(made("matching", rack(6, ports=1, rails=0), {"demand": text}))
    weights = {(f"h{one}", f"h{other}"): amount for (one, other), amount in demand.items()}
    best = max(sum(weights.get(pair, 0) for pair in pairs) for pairs in perfect([f"h{n}" for n in range(6)]))
    assert (len(found), sum(weights.get(pair, 0) for pair in found)) == (3, best)


def test_mfabric_gives_links_to_who_would_take_longest_and_as_printed_stops_at_the_first_pair_without_a_port(
    rack: Rack,
) -> None:
    # Four hosts of two ports: h0 and h1 send 9 and get one link as all pairs do at first; then nobody has two left.
    testbed = rack(4, ports=2, rails=0)
    found = hosts_of(made("mfabric", testbed, {"demand": "h0:h1:9,h2:h3:8,h0:h2:1,h1:h3:2"}))
    assert found == [("h0", "h1"), ("h0", "h2"), ("h1", "h3"), ("h2", "h3")]
    assert hosts_of(made("mfabric", testbed, {"demand": "h0:h1:9,h2:h3:8"})) == [("h0", "h1")] * 2 + [("h2", "h3")] * 2
    testbed = rack(4, ports=1, rails=0)
    demand = "h0:h1:9,h0:h2:8,h2:h3:1"
    assert hosts_of(made("mfabric", testbed, {"demand": demand})) == [("h0", "h1"), ("h2", "h3")]
    assert hosts_of(made("mfabric", testbed, {"demand": demand, "variant": "stop"})) == [("h0", "h1")]


def test_mfabric_on_its_own_testbed_is_a_full_mesh_or_uses_both_numa_nodes() -> None:
    testbed = load(Path(__file__).parents[2] / "examples" / "mfabric-testbed.yaml").require()
    all_pairs = ",".join(f"h{one}:h{other}:{one + other}" for one, other in itertools.combinations(range(4), 2))
    mesh = hosts_of(made("mfabric", testbed, {"demand": all_pairs}))
    assert sorted(mesh) == [(f"h{one}", f"h{other}") for one, other in itertools.combinations(range(4), 2)]
    two = made("mfabric", testbed, {"demand": "h0:h1:9,h0:h2:1,h1:h3:1"})
    ports = [port for link in two.links for port in link.ends if {end.host for end in link.ends} == {"h0", "h1"}]
    assert len(ports) == 4
    for host in ("h0", "h1"):
        assert {testbed.port(port).numa for port in ports if port.host == host} == {0, 1}


def perfect(hosts: list[str]) -> Iterator[list[tuple[str, str]]]:
    if not hosts:
        yield []
    for other in hosts[1:]:
        rest = [host for host in hosts[1:] if host != other]
        yield from ([(hosts[0], other), *pairs] for pairs in perfect(rest))


# --- those of other packages


def of_a_stranger(rack: Rack, links: Callable[[Party, Given], Any]) -> Topology:
    kind = TopologyKind(links=links, arguments=("slot",))
    return generate("strange", kind, rack(4, ports=2, rails=0), {"slot": "1"}, draws=Draws)


def test_topology_of_ten_lines(rack: Rack) -> None:
    def chain(party: Party, given: Given) -> Iterator[Link]:
        for one, other in itertools.pairwise(party.hosts[given.number("slot") :]):
            yield party.link(one, 1, other, 0)

    assert links(of_a_stranger(rack, chain)) == ["h1.eth1<->h2.eth0", "h2.eth1<->h3.eth0"]


def test_bug_of_a_stranger_is_named_as_his(rack: Rack) -> None:
    strangers: dict[str, Callable[[Party, Given], list[Any]]] = {
        "topology strange: a bug in it, IndexError": lambda party, given: [party.link("h0", 7, "h1", 0)],
        "topology strange: a bug in it: h0.eth0<->h9.eth0 is no link of NIC ports of the testbed": (
            lambda party, given: [Link.parse("h0.eth0<->h9.eth0")]
        ),
        "topology strange: a bug in it: h0.eth0<->h1.eth0 is no link": lambda party, given: ["h0.eth0<->h1.eth0"],
        "h0.eth0 would be in h0.eth0<->h1.eth0 and in h0.eth0<->h2.eth0": (
            lambda party, given: [party.link("h0", 0, f"h{other}", 0) for other in (1, 2)]
        ),
    }
    for said, links in strangers.items():
        with pytest.raises(ConfigError, match=re.escape(said)):
            of_a_stranger(rack, links)


def stored(hosts: list[str], rows: list[list[float]]) -> DemandMatrix:
    return DemandMatrix(name="moe", layer=3, microbatch=0, hosts=hosts, bytes=rows)


def test_stored_demand_counts_both_ways_and_hosts_that_it_lacks_send_nothing(rack: Rack) -> None:
    demand = stored(["h3", "h1", "h2"], [[0, 4, 5], [4, 0, 0], [1, 0, 0]])
    arguments = {"demand": "moe", "layer": "3"}
    testbed = rack(4, ports=1, rails=0)
    topology = generate("matching", topologies.find("matching"), testbed, arguments, draws=Draws, stored=demand)
    assert hosts_of(topology) == [("h0", "h2"), ("h1", "h3")]
    assert topology.name == "matching demand=moe layer=3"
    assert demand.between == {("h1", "h3"): 8, ("h2", "h3"): 6, ("h1", "h2"): 0}


def test_layer_of_a_topology_without_demand_is_its_own(rack: Rack) -> None:
    def chain(party: Party, given: Given) -> Iterator[Link]:
        assert given.number("layer") == 3
        yield party.link("h0", 0, "h1", 0)

    kind = TopologyKind(links=chain, arguments=("layer",))
    found = generate("chain", kind, rack(2, ports=1, rails=0), {"layer": "3"}, draws=Draws)
    assert found.name == "chain layer=3"


def test_stored_demand_that_nobody_looked_up_or_of_other_hosts_is_refused(rack: Rack) -> None:
    with pytest.raises(
        ConfigError, match="mfabric: demand=moe: stored demands are for plans, prepared sets and playbooks"
    ):
        made("mfabric", rack(4), {"demand": "moe"})
    kind = topologies.find("mfabric")
    with pytest.raises(
        ConfigError, match=r"moe has demand of host h7, which testbed rack does not have\. `hwd demand add"
    ):
        generate(
            "mfabric", kind, rack(4), {"demand": "moe"}, draws=Draws, stored=stored(["h0", "h7"], [[0, 1], [1, 0]])
        )
