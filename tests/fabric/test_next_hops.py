"""Ways over several hosts: each step comes nearer."""

from hypothesis import given
from hypothesis import strategies as st

from hwd.fabric.next_hops import next_hops
from hwd.model.nic_port import NicPortId


def ring(hosts: int) -> dict[NicPortId, list[NicPortId]]:
    """Port `next` of each host is joined with port `last` of the next one, both ways."""
    found: dict[NicPortId, list[NicPortId]] = {}
    for host in range(hosts):
        one = NicPortId(host=f"h{host}", port="next")
        other = NicPortId(host=f"h{(host + 1) % hosts}", port="last")
        found[one], found[other] = [other], [one]
    return found


def test_neighbour_is_one_step_away_and_the_far_side_of_a_ring_goes_the_shorter_way() -> None:
    hops = next_hops(ring(5))
    assert str(hops["h0"]["h1"]) == "h0.next to h1.last"
    assert str(hops["h0"]["h2"]) == "h0.next to h1.last"
    assert str(hops["h0"]["h3"]) == "h0.last to h4.next"


def test_host_without_a_way_is_left_out() -> None:
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
