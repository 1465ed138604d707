"""Ports of a host behind its own switches, and ways over several hosts."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hwd.daemon.installed_drivers import load
from hwd.fabric.fabric import Fabric
from hwd.fabric.host_ports import ports_behind
from hwd.fabric.neighbour import state_with_link
from hwd.fabric.next_hops import next_hops
from hwd.model.nic_port import NicPortId
from hwd_drivers.core.values import Crossconnect

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
        state = {"tx0": [one], "rx0": [one], **({} if theirs is None else {"tx1": [Crossconnect.parse(theirs)]})}
        completed = state_with_link(fabric, NicPortId(host="h0", port="eth0"), state, {"tx1", "rx1"})
        links = [str(link) for link in fabric.links_of(completed)]
        if mine == "in-4":  # nothing is there: no carrier proves anything
            assert links == []
            assert completed["tx1"] == {Crossconnect.parse("in-1")}
        else:
            assert links == ["h0.eth0<->h1.eth0"]
            assert completed["tx1"] == completed["rx1"] == {one}


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
