"""Least losses, against a search from each transmitter, and pairs over their budget."""

import heapq
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwd.daemon.installed_drivers import load
from hwd.fabric.fabric import Fabric
from hwd.fabric.graph import Graph
from hwd.fabric.host_ports import ports_behind
from hwd.fabric.loss_budget import over_budget
from hwd.fabric.losses import LeastLosses
from hwd.fabric.neighbour import state_with_link
from hwd.fabric.next_hops import next_hops
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Testbed
from hwd_drivers.core.values import Crossconnect, FibreEnd

ANY_KIND = """
switches:
  one: {driver: oxc, model: one-way, size: 3, address: "10.0.0.1"}
  both: {driver: oxc, model: both-ways, size: 3, address: "10.0.0.2"}
  any: {driver: oxc, model: any, size: 8, address: "10.0.0.3"}
  more: {driver: oxc, model: any, size: 5, address: "10.0.0.3"}
  sel: {driver: oxc, model: 1xn, size: 3, address: "10.0.0.4"}
passives:
  sp: {kind: splitter, ports: 3, loss_db: 2.0}
  c: {kind: circulator, loss_db: 0.5}
"""
ENDS = (
    *(f"{switch}.{port}{side}" for switch in ("one", "both") for side in "AB" for port in (1, 2, 3)),
    *(f"any.{port}" for port in range(1, 9)),
    *(f"more.{port}" for port in range(1, 6)),
    *(f"sel.{port}" for port in ("in", "1", "2", "3")),
    *(f"sp.{end}" for end in ("in", "out1", "out2", "out3")),
    *(f"c.{end}" for end in (1, 2, 3)),
)
NICS = tuple(f"h{host}.eth0.{side}" for host in range(4) for side in ("tx", "rx"))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_least_losses_are_those_that_a_search_from_each_transmitter_finds(
    make: Callable[[str], Testbed], data: st.DataObject
) -> None:
    """Over switches of all kinds, splitters and circulators, joined at random: light does not go back by the end that
    it came in by.
    """
    order = data.draw(st.permutations(ENDS))
    fibres = [(nic, order.pop()) if nic.endswith("tx") else (order.pop(), nic) for nic in NICS]
    for _ in range(data.draw(st.integers(0, len(order) // 2))):
        fibres.append((order.pop(), order.pop()))
    losses = st.sampled_from([0.0, 0.5, 1.5, 3.0, 4.5, 6.0])
    lines = [f"  - {{from: {one}, to: {other}, loss_db: {data.draw(losses)}}}" for one, other in fibres]
    hosts = "\n".join(f"  h{host}: {{nics: {{eth0: {{module: 100g-lr4}}}}}}" for host in range(4))
    graph = Graph(make("\n".join([ANY_KIND + "hosts:", hosts, "fibres:", *lines])))
    shared = LeastLosses(graph)
    for source in graph.sources:
        found: dict[FibreEnd, float] = {}
        for leg in graph.legs.get(source, ()):
            ways = {leg.end: 0.0}
            if leg.end.owner in graph.testbed.switches:
                ways = dict(shared.behind(leg.end, source).losses_db)
            for end, loss in ways.items():
                found[end] = min(leg.loss_db + loss, found.get(end, leg.loss_db + loss))
        own = {end for end in (*found, *_least(graph, source)) if end.owner == source.owner}
        asked = {end: loss for end, loss in _least(graph, source).items() if end not in own}
        assert {end: loss for end, loss in found.items() if end not in own} == pytest.approx(asked)


def _least(graph: Graph, source: FibreEnd) -> dict[FibreEnd, float]:
    """Dijkstra over the ends of switches."""
    serial = count()
    heap = [(leg.loss_db, next(serial), leg.end) for leg in graph.legs.get(source, ())]
    heapq.heapify(heap)
    seen: dict[FibreEnd, float] = {}
    while heap:
        loss, _, end = heapq.heappop(heap)
        if end in seen:
            continue
        seen[end] = loss
        if (switch := graph.testbed.switches.get(end.owner)) is not None:
            for out in graph.outs_of(end):
                for leg in graph.legs[out]:
                    passed = loss + switch.capabilities.loss_db_max + leg.loss_db
                    heapq.heappush(heap, (passed, next(serial), leg.end))
    return {end: loss for end, loss in seen.items() if end.owner not in graph.testbed.switches}


RACK = """
switches:
  ocs1: {{driver: oxc, model: one-way, size: 8, address: "10.0.0.1"}}
  ocs2: {{driver: oxc, model: one-way, size: 8, address: "10.0.0.2"}}
hosts:
  h0: {{nics: {{eth0: {{module: 100g-lr4}}}}}}
  h1: {{nics: {{eth0: {{module: 100g-lr4}}}}}}
  h2: {{nics: {{eth0: {{module: 100g-lr4}}}}}}
fibres:
  - h0.eth0 <-> ocs1.1
  - h1.eth0 <-> ocs1.2
  - h2.eth0 <-> ocs2.1
  - {{from: ocs1.7, to: ocs2.7, loss_db: {one}}}
  - {{from: ocs1.8, to: ocs2.8, loss_db: {other}}}
"""


def test_pair_is_named_with_its_way_of_least_loss_unless_one_is_within_its_budget_or_they_cannot_be_joined(
    make: Callable[[str], Testbed],
) -> None:
    assert over_budget(Graph(make(RACK.format(one=6.0, other=1.0)))) == ()
    found = over_budget(Graph(make(RACK.format(one=6.0, other=4.0))))
    assert [(str(one.source), list(map(str, one.targets)), one.more, one.loss_db_max) for one in found] == [
        ("h0.eth0", ["h2.eth0"], 0, 7.0),
        ("h1.eth0", ["h2.eth0"], 0, 7.0),
        ("h2.eth0", ["h0.eth0", "h1.eth0"], 0, 7.0),
    ]
    assert str(found[2]).startswith(
        "h2.eth0 can never meet its loss budget with h0.eth0, h1.eth0: the way to h0.eth0 loses up to 7.0 dB"
    )
    text = RACK.format(one=6.0, other=6.0).replace(
        "h2: {nics: {eth0: {module: 100g-lr4", "h2: {nics: {eth0: {module: 100g-dr1"
    )
    assert over_budget(Graph(make(text))) == ()


def test_the_first_four_of_many_are_named_and_the_sender_is_none_of_them(make: Callable[[str], Testbed]) -> None:
    lines = ["switches: {ocs1: {driver: oxc, model: one-way, size: 16, address: '10.0.0.5'}}", "hosts:"]
    lines += [f"  h{host}: {{nics: {{eth0: {{module: 100g-lr4}}}}}}" for host in range(7)]
    lines += ["fibres:", *(f"  - {{from: h{host}.eth0, to: ocs1.{host + 1}, loss_db: 3.0}}" for host in range(7))]
    found = {str(one.source): one for one in over_budget(Graph(make("\n".join(lines))))}
    assert list(map(str, found["h1.eth0"].targets)) == ["h0.eth0", "h2.eth0", "h3.eth0", "h4.eth0"]
    assert "with h0.eth0, h1.eth0, h2.eth0, h3.eth0 and 2 more: the way to h0.eth0" in str(found["h6.eth0"])


# --- ports of a host behind its own switches, and ways over several hosts


EXAMPLE = Path(__file__).parents[2] / "examples" / "own-switches.yaml"
ROW = """
testbed: row
switches:
  near: {driver: osw, model: osw, size: 1x4, owner: h0, twin: {timing: ideal, seed: 1}}
  far: {driver: osw, model: osw, size: 1x4, owner: h0, twin: {timing: ideal, seed: 2}}
  lone: {driver: osw, model: osw, size: 1x4, owner: h0, twin: {timing: ideal, seed: 3}}
passives: {pp1: {kind: panel, ports: 8, loss_db: 0.3}}
hosts:
  h0:
    twin: {seed: 1}
    nics:
      eth0: {ip: 10.1.0.1/32, module: 100g-lr4}
      eth1: {ip: 10.1.0.2/32, module: 100g-lr4}
  h1:
    twin: {seed: 2}
    nics: {eth0: {ip: 10.1.1.1/32, module: 100g-lr4}}
fibres:
  - {from: h0.eth1.tx, to: near.in, via: [pp1.3]}
  - near.1 -> far.in
  - far.1 -> h1.eth0.rx
  - h1.eth0.tx -> h0.eth1.rx
"""


def test_ports_are_behind_the_switch_that_a_fibre_joins_them_to_and_one_in_a_row_with_it(tmp_path: Path) -> None:
    testbed = load(EXAMPLE).require()
    assert ports_behind(testbed, "h0") == {"tx0": ("eth0",), "rx0": ("eth0",)}
    assert ports_behind(testbed, "h1") == {"tx1": ("eth0",), "rx1": ("eth0",)}
    path = tmp_path / "row.yaml"
    path.write_text(ROW)
    testbed = load(path).require()
    assert ports_behind(testbed, "h0") == {"near": ("eth1",), "far": ("eth1",), "lone": ()}
    assert ports_behind(testbed, "h1") == {}


def test_the_far_end_of_a_port_that_came_up_stood_where_its_light_leads() -> None:
    fabric = Fabric(load(EXAMPLE).require())
    for mine, theirs in (("in-2", "in-1"), ("in-1", None), ("in-4", "in-1")):
        one = Crossconnect.parse(mine)
        far = {} if theirs is None else {"tx1": frozenset({Crossconnect.parse(theirs)})}
        state = {"tx0": frozenset({one}), "rx0": frozenset({one}), **far}
        completed = state_with_link(fabric, NicPortId(host="h0", port="eth0"), state, {"tx1", "rx1"})
        links = [str(link) for link in fabric.links_of(completed)]
        if mine == "in-4":  # nothing is there: no carrier proves anything
            assert links == []
            assert completed["tx1"] == frozenset({Crossconnect.parse("in-1")})
        else:
            assert links == ["h0.eth0<->h1.eth0"]
            assert completed["tx1"] == completed["rx1"] == frozenset({one})


def ring(hosts: int) -> dict[NicPortId, list[NicPortId]]:
    """Port `next` of each host is joined with port `last` of the next one, both ways."""
    found: dict[NicPortId, list[NicPortId]] = {}
    for host in range(hosts):
        one = NicPortId(host=f"h{host}", port="next")
        other = NicPortId(host=f"h{(host + 1) % hosts}", port="last")
        found[one], found[other] = [other], [one]
    return found


def test_the_far_side_of_a_ring_goes_the_shorter_way_and_a_host_without_a_way_is_left_out() -> None:
    hops = next_hops(ring(5))
    assert str(hops["h0"]["h1"]) == "h0.next to h1.last"
    assert str(hops["h0"]["h2"]) == "h0.next to h1.last"
    assert str(hops["h0"]["h3"]) == "h0.last to h4.next"
    one, other, third = (NicPortId(host=host, port="p") for host in ("a", "b", "c"))
    hops = next_hops({one: [other], third: []})
    assert list(hops["a"]) == ["b"]
    assert hops["c"] == {}
    assert "b" not in hops, "light goes one way"


PORTS = st.builds(NicPortId, host=st.sampled_from("abcdefg"), port=st.sampled_from("xyz"))


@given(st.dictionaries(PORTS, st.lists(PORTS, max_size=4)))
def test_packets_arrive_in_as_many_steps_as_there_must_be(reaches: dict[NicPortId, list[NicPortId]]) -> None:
    hops = next_hops(reaches)
    edges = {(port.host, to.host) for port, others in reaches.items() for to in others if port.host != to.host}
    for host in "abcdefg":
        near, steps = {host}, 0
        while len(more := near | {to for one, to in edges if one in near}) > len(near):
            near, steps, fresh = more, steps + 1, more - near
            for other in fresh:
                at, walked = host, 0
                while at != other:
                    assert hops[at][other].to in reaches[hops[at][other].port]
                    assert hops[at][other].port.host == at
                    at, walked = hops[at][other].to.host, walked + 1
                assert walked == steps
        assert set(hops.get(host, ())) == near - {host}
