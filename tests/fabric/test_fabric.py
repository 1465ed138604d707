from collections.abc import Callable, Iterator, Mapping
from itertools import chain

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwd.fabric.fabric import Fabric
from hwd.fabric.light import LightMap, Trace
from hwd.fabric.state import Carried, State, crossconnect_ports, lighting, needed
from hwd.model.circuit import RoutedLink
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, FibreEnd, Side

Make = Callable[[str], Testbed]
Star = Callable[..., Testbed]

NICS = "hosts: {h0: {nics: {eth0: {module: 100g-lr4}}}, h1: {nics: {eth0: {module: 100g-lr4}}}}"
ONE_SWITCH = f'switches: {{ocs1: {{driver: oxc, model: one-way, address: "10.0.0.1"}}}}\n{NICS}\n'
LINK = Link.parse("h0.eth0<->h1.eth0")
TWO_SWITCHES = """
switches:
  ocs1: {driver: oxc, model: one-way, size: 8, address: "10.0.0.1"}
  ocs2: {driver: oxc, model: one-way, size: 8, address: "10.0.0.2"}
hosts:
  h0: {nics: {eth0: {module: 100g-lr4}}}
  h1: {nics: {eth0: {module: 100g-lr4}}}
  h2: {nics: {eth0: {module: 100g-lr4}}}
  h3: {nics: {eth0: {module: 100g-lr4}}}
fibres:
  - h0.eth0 <-> ocs1.1
  - h1.eth0 <-> ocs1.2
  - h2.eth0 <-> ocs2.1
  - h3.eth0 <-> ocs2.2
"""


def crossconnects(routed: RoutedLink) -> list[list[str]]:
    return [[str(one) for one in circuit.crossconnects] for circuit in routed.circuits]


def test_link_on_one_switch_takes_a_crossconnect_each_way(star: Star) -> None:
    routed = Fabric(star(2, 1)).routes([LINK])[0]
    assert crossconnects(routed) == [["ocs1:1A-2B"], ["ocs1:2A-1B"]]
    assert [str(circuit) for circuit in routed.circuits] == [
        "h0.eth0.tx -> h1.eth0.rx through ocs1:1A-2B, loss <= 1.5 dB, margin +4.8 dB",
        "h1.eth0.tx -> h0.eth0.rx through ocs1:2A-1B, loss <= 1.5 dB, margin +4.8 dB",
    ]


def test_loss_sums_strands_panels_passives_and_crossconnects(make: Make) -> None:
    testbed = make(
        """
switches: {ocs1: {driver: oxc, model: one-way, address: "10.0.0.1"}}
passives: {pp1: {kind: panel, ports: 4, loss_db: 0.25}, att: {kind: attenuator, loss_db: 1.5}}
hosts: {h0: {nics: {eth0: {module: 100g-lr4}}}, h1: {nics: {eth0: {module: 100g-lr4}}}}
fibres:
  - {from: h0.eth0.tx, to: ocs1.1A, via: [pp1.1], loss_db: 0.5}
  - ocs1.1B -> h0.eth0.rx
  - h1.eth0.tx -> ocs1.2A
  - ocs1.2B -> att.in
  - att.out -> h1.eth0.rx
"""
    )
    out, back = Fabric(testbed).routes([LINK])[0].circuits
    assert [out.loss_db_typical, out.loss_db_max] == pytest.approx([3.25, 3.75])
    assert out.margin_db == pytest.approx(6.3 - 3.75)
    assert out.overload_db == pytest.approx(-3.25)
    assert [str(strand) for strand in out.strands] == [
        "h0.eth0.tx - ocs1.1A",
        "ocs1.2B - att.in",
        "att.out - h1.eth0.rx",
    ]
    assert back.loss_db_max == pytest.approx(1.5)


def test_fewest_crossconnects_win_over_less_loss_and_a_spare_trunk_is_avoided(make: Make) -> None:
    testbed = make(
        TWO_SWITCHES + "  - {from: ocs1.8, to: ocs2.8, loss_db: 0.2}\n  - {from: ocs1.7, to: ocs2.7, loss_db: 0.1}\n"
    )
    fabric = Fabric(testbed)
    assert crossconnects(fabric.routes([LINK])[0]) == [["ocs1:1A-2B"], ["ocs1:2A-1B"]]
    across = fabric.routes([Link.parse("h0.eth0<->h2.eth0")])[0]
    assert crossconnects(across) == [["ocs1:1A-7B", "ocs2:7A-1B"], ["ocs2:1A-7B", "ocs1:7A-1B"]]
    spare = make(TWO_SWITCHES + "  - ocs1.7 <-> ocs2.7\n  - ocs1.8 <-> ocs2.8\nports: {ocs1.7: {state: spare}}\n")
    across = Fabric(spare).routes([Link.parse("h0.eth0<->h2.eth0")])[0]
    assert crossconnects(across) == [["ocs1:1A-8B", "ocs2:8A-1B"], ["ocs2:1A-8B", "ocs1:8A-1B"]]


def test_links_that_stand_at_once_share_no_fibre_between_switches(make: Make) -> None:
    one_trunk = make(TWO_SWITCHES + "  - ocs1.8 <-> ocs2.8\n")
    wanted = [Link.parse("h0.eth0<->h2.eth0"), Link.parse("h1.eth0<->h3.eth0")]
    Fabric(one_trunk).routes(wanted[:1])
    with pytest.raises(ConfigError, match=r"^h1\.eth0<->h3\.eth0: no way for the light .* used by other wanted links"):
        Fabric(one_trunk).routes(wanted)
    two_trunks = make(TWO_SWITCHES + "  - ocs1.8 <-> ocs2.8\n  - ocs1.7 <-> ocs2.7\n")
    assert [routed.link for routed in Fabric(two_trunks).routes(wanted)] == wanted


def test_routing_puts_a_link_first_that_found_its_only_way_taken(make: Make) -> None:
    """Both selection switches lead to h2, the first with less loss; only that one leads to h3."""
    testbed = make(
        """
switches:
  ocs1: {driver: oxc, model: one-way, size: 8, address: "10.0.0.1"}
  sel1: {driver: oxc, model: 1xn, size: 2, address: "10.0.0.2"}
  sel2: {driver: oxc, model: 1xn, size: 2, address: "10.0.0.3"}
passives: {joint: {kind: splitter, ports: 2, loss_db: 0.5}}
hosts:
  h0: {nics: {eth0: {module: 100g-lr4}}}
  h1: {nics: {eth0: {module: 100g-lr4}}}
  h2: {nics: {eth0: {module: 100g-lr4}}}
  h3: {nics: {eth0: {module: 100g-lr4}}}
fibres:
  - h0.eth0.tx -> ocs1.1A
  - h1.eth0.tx -> ocs1.2A
  - ocs1.7B -> sel1.in
  - {from: ocs1.8B, to: sel2.in, loss_db: 0.4}
  - sel1.1 -> joint.out1
  - sel2.1 -> joint.out2
  - joint.in -> h2.eth0.rx
  - sel1.2 -> h3.eth0.rx
  - h2.eth0.tx -> h0.eth0.rx
  - h3.eth0.tx -> h1.eth0.rx
"""
    )
    fabric = Fabric(testbed)
    first, second = Link.parse("h0.eth0<->h2.eth0"), Link.parse("h1.eth0<->h3.eth0")
    assert crossconnects(fabric.routes([first])[0])[0] == ["ocs1:1A-7B", "sel1:in-1"]
    routed = fabric.routes([first, second])
    assert [crossconnects(one)[0] for one in routed] == [["ocs1:1A-8B", "sel2:in-1"], ["ocs1:2A-7B", "sel1:in-2"]]


def test_port_set_aside_is_used_only_where_nothing_else_leads_there(star: Star) -> None:
    fabric = Fabric(star(2, 1, more="ports: {ocs1.2: {state: maintenance, why: dirty, until: 2027-01-10}}"))
    link = LINK
    assert crossconnects(fabric.routes([link])[0]) == [["ocs1:1A-2B"], ["ocs1:2A-1B"]], "an interlock judges it"
    with pytest.raises(ConfigError, match=r"port ocs1\.2 is reserved \(maintenance: dirty, until 2027-01-10\)"):
        fabric.router.ways([link], set_aside=False)
    assert {str(end): str(note) for end, note in fabric.set_aside.items()} == {
        "ocs1.2A": "maintenance: dirty, until 2027-01-10",
        "ocs1.2B": "maintenance: dirty, until 2027-01-10",
    }


def test_port_on_a_packet_switch_is_told_apart(make: Make) -> None:
    two_ports = ONE_SWITCH.replace("h0: {nics: {", "h0: {nics: {eth1: {module: 100g-lr4}, ")
    fibres = "fibres: [h0.eth0 <-> ocs1.1, h1.eth0 <-> ocs1.2, h0.eth1 <-> eps1.1]"
    fabric = Fabric(make(f"{two_ports}packet_switches: {{eps1: {{ports: 4}}}}\n{fibres}\n"))
    assert [str(port.id) for port in fabric.optical_ports()] == ["h0.eth0", "h1.eth0"]
    with pytest.raises(ConfigError, match=r"eps1\.1\.rx of a packet switch, which is not driven"):
        fabric.routes([Link.parse("h0.eth1<->h1.eth0")])[0]


def test_way_that_cannot_be_is_told_with_the_reason(make: Make, star: Star) -> None:
    across = ONE_SWITCH + "fibres: [h0.eth0.tx <-> ocs1.1B, h0.eth0.rx <-> ocs1.1A, h1.eth0 <-> ocs1.2]\n"
    other_lanes = ONE_SWITCH.replace("h1: {nics: {eth0: {module: 100g-lr4", "h1: {nics: {eth0: {module: 100g-dr1")
    selector = ONE_SWITCH.replace("one-way", "1xn").replace("ocs1", "sel0")
    for text, said in {
        across: r"leads to ocs1\.1B, where no light can enter.*fibres swapped",
        f"{other_lanes}fibres: [h0.eth0 <-> ocs1.1, h1.eth0 <-> ocs1.2]\n": "their lanes differ",
        f"{selector}fibres: [h0.eth0.tx -> sel0.1, sel0.2 -> h1.eth0.rx, h1.eth0.tx -> h0.eth0.rx]\n": (
            "sel0 cannot join 1 to 2: it joins its end `in` to one of the others"
        ),
    }.items():
        with pytest.raises(ConfigError, match=said):
            Fabric(make(text)).routes([LINK])[0]
    fabric = Fabric(make(TWO_SWITCHES))
    with pytest.raises(
        ConfigError, match=r"enters at ocs1\.1A and would have to leave at ocs2\.1B, and no fibre joins"
    ):
        fabric.routes([Link.parse("h0.eth0<->h2.eth0")])[0]
    with pytest.raises(ConfigError, match=r"h9\.eth0: no such NIC port in testbed hand-made"):
        fabric.routes([Link.parse("h0.eth0<->h9.eth0")])[0]
    with pytest.raises(ConfigError, match=r"h1\.eth0 is used by h0\.eth0<->h1\.eth0 already"):
        Fabric(star(3, 1)).routes([LINK, Link.parse("h1.eth0<->h2.eth0")])


def test_way_over_budget_has_a_negative_margin_and_light_that_is_too_strong_is_an_overload(make: Make) -> None:
    text = f"{ONE_SWITCH}fibres: [h0.eth0 <-> ocs1.1, {{from: h1.eth0, to: ocs1.2, loss_db: 5.0}}]\n"
    circuits = Fabric(make(text)).routes([LINK])[0].circuits
    assert [(one.loss_db_max, one.margin_db) for one in circuits] == [pytest.approx((6.5, -0.2))] * 2
    strong = NICS.replace("100g-lr4", "{type: 100g-lr4, rx_max_dbm: 2.0}")
    circuits = Fabric(make(f"{strong}\nfibres: [h0.eth0 <-> h1.eth0]\n")).routes([LINK])[0].circuits
    assert [one.overload_db for one in circuits] == [pytest.approx(2.5)] * 2


def test_parallel_module_has_a_circuit_a_lane(make: Make) -> None:
    fibres = "".join(
        f"  - h{host}.eth0/{lane} <-> ocs1.{4 * host + lane}\n" for host in (0, 1) for lane in (1, 2, 3, 4)
    )
    fabric = Fabric(make(f"{ONE_SWITCH.replace('lr4', 'psm4')}fibres:\n{fibres}"))
    routed = fabric.routes([LINK])[0]
    assert len(routed.circuits) == 8
    assert crossconnects(routed)[:2] == [["ocs1:1A-5B"], ["ocs1:2A-6B"]]
    state = {"ocs1": frozenset(one.crossconnect for one in routed.crossconnects)}
    assert fabric.routed_of(state) == (routed,)
    state = {"ocs1": state["ocs1"] - {Crossconnect.parse("4A-8B")}}
    assert fabric.links_of(state) == ()


def test_circulators_bring_both_ways_through_one_crossconnect(make: Make) -> None:
    testbed = make(
        """
switches: {ocs1: {driver: oxc, model: any, address: "10.0.0.1"}}
passives: {c0: {kind: circulator, loss_db: 0.8}, c1: {kind: circulator, loss_db: 0.8}}
hosts: {h0: {nics: {eth0: {module: 100g-lr4}}}, h1: {nics: {eth0: {module: 100g-lr4}}}}
fibres:
  - h0.eth0.tx -> c0.1
  - c0.2 <-> ocs1.1
  - c0.3 -> h0.eth0.rx
  - h1.eth0.tx -> c1.1
  - c1.2 <-> ocs1.5
  - c1.3 -> h1.eth0.rx
"""
    )
    fabric = Fabric(testbed)
    link = LINK
    routed = fabric.routes([link])[0]
    assert crossconnects(routed) == [["ocs1:1-5"], ["ocs1:1-5"]]
    assert needed([routed]) == {"ocs1": {Crossconnect.parse("1-5")}}
    assert fabric.links_of({"ocs1": (Crossconnect.parse("5-1"),)}) == (link,)
    assert routed.circuits[0].loss_db_max == pytest.approx(0.8 * 2 + 1.5)


def test_reciprocal_switch_takes_light_from_its_b_side(make: Make) -> None:
    text = f"{ONE_SWITCH}fibres: [h0.eth0.tx <-> ocs1.1B, h1.eth0.rx <-> ocs1.2A, h1.eth0.tx -> h0.eth0.rx]\n"
    assert crossconnects(Fabric(make(text.replace("one-way", "both-ways"))).routes([LINK])[0]) == [["ocs1:2A-1B"], []]
    with pytest.raises(ConfigError, match="fibres swapped"):
        Fabric(make(text)).routes([LINK])[0]


def test_half_of_a_link_and_a_port_looped_to_itself_are_no_link(star: Star) -> None:
    fabric = Fabric(star(2, 1))
    half = {"ocs1": (Crossconnect.parse("1A-2B"),)}
    assert fabric.links_of(half) == ()
    assert fabric.links_of({"ocs1": (Crossconnect.parse("1A-1B"),)}) == ()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_routes_use_no_end_twice_and_light_what_was_asked_for(star: Star, data: st.DataObject) -> None:
    testbed = star(6, 2)
    ends = data.draw(st.permutations([port.id for port in testbed.ports()]))
    count = data.draw(st.integers(0, len(ends) // 2))
    wanted = [Link.of(one, other) for one, other in zip(ends[: 2 * count : 2], ends[1 : 2 * count : 2], strict=True)]
    fabric = Fabric(testbed)
    routed = fabric.routes(wanted)
    assert [one.link for one in routed] == wanted
    used = list(chain.from_iterable(one.crossconnect.ends for link in routed for one in link.crossconnects))
    assert len(used) == len(set(used)) == 4 * count
    state = needed(routed)
    assert set(fabric.links_of(state)) == set(wanted)
    assert {*fabric.routed_of(state)} == {*routed}


FOLLOWED = """
switches:
  x1: {driver: oxc, model: both-ways, size: 4, address: "10.0.0.1"}
  x2: {driver: oxc, model: both-ways, size: 4, address: "10.0.0.2"}
passives: {sp: {kind: splitter, ports: 2, loss_db: 3.5}}
hosts:
  h0: {nics: {eth0: {module: 100g-lr4}}}
  h1: {nics: {eth0: {module: 100g-lr4}}}
  h2: {nics: {eth0: {module: 100g-lr4}}}
  h3: {nics: {eth0: {module: 100g-lr4}}}
fibres:
  - h0.eth0 <-> x1.1
  - h1.eth0 <-> x1.2
  - h2.eth0.tx -> x2.3A
  - x2.3B -> sp.in
  - sp.out1 -> h2.eth0.rx
  - sp.out2 -> h3.eth0.rx
  - h3.eth0.tx -> x2.4A
  - x1.3B -> x2.1A
  - x2.1B -> x1.3A
  - x1.4B -> x2.2A
  - x2.2B -> x1.4A
"""
PORTS = st.integers(1, 4)
PAIRS = st.builds("{}A-{}B".format, PORTS, PORTS).map(Crossconnect.parse)
READINGS = st.builds(CrossconnectReading, crossconnect=PAIRS, state=st.sampled_from(CrossconnectState))
CARRIED = st.frozensets(PAIRS, max_size=5) | st.lists(PAIRS | READINGS, max_size=5).map(tuple)
States = list[dict[str, Carried]]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.sampled_from(["x1", "x2", "gone"]), CARRIED), min_size=2, max_size=8))
def test_what_is_said_of_a_state_does_not_depend_on_the_states_before(make: Make, states: States) -> None:
    """Ends may be in two crossconnects, and switches come and go. Some begin to follow a state in parts, and go on
    while others ask of other ones.
    """
    testbed, walks = make(FOLLOWED), list[Iterator[None]]()
    followed, before = Fabric(testbed), dict[str, Carried]()
    for state in states:
        new, changed = Fabric(testbed), {name: found for name, found in state.items() if name in before}
        pairs = {name: [Crossconnect.parse("1A-2B"), Crossconnect.parse("3A-4B")] for name in ("x1", "x2")}
        then = {**before, **changed}
        assert followed.lost(before, changed) == {*new.links_of(before)} - {*new.links_of(then)}
        for asked in (then, state):
            walks.append(followed.follow(asked, switches_at_once=1))
            for walk in walks:
                next(walk, None)
            assert followed.circuits(asked) == new.circuits(asked)
            assert followed.routed_of(asked) == new.routed_of(asked)
            assert followed.input_powers(pairs, asked) == new.input_powers(pairs, asked)
            one = [*lighting(asked)][:1]
            through = [each for each in new.routed_of(asked) if not each.crossconnects.isdisjoint(one)]
            assert [*followed.routed_through(one, asked)] == through
        before = state


def test_a_question_that_cannot_be_answered_changes_no_later_answer(star: Star) -> None:
    fabric = Fabric(star(2, 1))
    state = {"ocs1": frozenset(map(Crossconnect.parse, ("1A-2B", "2A-1B")))}
    assert fabric.links_of(state) == (LINK,)
    with pytest.raises(AttributeError):
        fabric.links_of({"ocs1": ("1A-2B",)})  # type: ignore[dict-item]
    assert fabric.links_of({}) == ()
    assert fabric.links_of(state) == (LINK,)


def test_light_through_a_composite_loses_in_each_of_its_switches_and_on_the_fibres_between_them(make: Make) -> None:
    testbed = make(
        """
switches:
  x1: {driver: oxc, model: both-ways, size: 2, address: "10.0.0.1"}
  x2: {driver: oxc, model: both-ways, size: 2, address: "10.0.0.2"}
  x3: {driver: oxc, model: both-ways, size: 2, address: "10.0.0.3"}
composites: {sel: {ports: {1A..2A: x1.1A..2A, 1B..2B: x3.1B..2B}}}
hosts: {h0: {nics: {eth0: {module: 100g-lr4}}}, h1: {nics: {eth0: {module: 100g-lr4}}}}
fibres:
  - h0.eth0 <-> sel.1
  - h1.eth0 <-> sel.2
  - {from: x1.1B, to: x2.1A, loss_db: 0.2}
  - {from: x1.2B, to: x2.2A, loss_db: 0.2}
  - {from: x2.1B, to: x3.1A, loss_db: 0.4}
  - {from: x2.2B, to: x3.2A, loss_db: 0.4}
"""
    )
    for circuit in Fabric(testbed).routes([Link.parse("h0.eth0<->h1.eth0")])[0].circuits:
        assert [one.switch for one in circuit.crossconnects] == ["x1", "x2", "x3"]
        assert circuit.loss_db_max == pytest.approx(3 * 1.5 + 0.2 + 0.4)
        assert len(circuit.strands) == 4


# ---


def tx(host: str) -> FibreEnd:
    return FibreEnd(owner=host, port="eth0", side=Side.TX)


def rx(host: str) -> FibreEnd:
    return FibreEnd(owner=host, port="eth0", side=Side.RX)


def passing(**losses_db: float) -> dict[SwitchCrossconnect, float]:
    return {SwitchCrossconnect.parse(f"ocs1:{name.replace('_', '-')}"): loss_db for name, loss_db in losses_db.items()}


def received(testbed: Testbed, passing: Mapping[SwitchCrossconnect, float]) -> list[Trace]:
    """The light at receivers."""
    return [trace for trace in LightMap(testbed).traces(passing) if trace.end.owner not in testbed.switches]


def test_light_passes_a_crossconnect_with_its_own_loss_arrives_without_any_and_not_against_the_direction(
    star: Callable[..., Testbed],
) -> None:
    (lit,) = received(star(2, 1), passing(**{"1A_2B": 0.7}))
    assert (lit.source, lit.end, lit.loss_db) == (tx("h0"), rx("h1"), 0.7)
    assert [str(one) for one in lit.crossconnects] == ["ocs1:1A-2B"]
    assert [(str(trace.end), trace.loss_db) for trace in LightMap(star(2, 1)).traces({})] == [
        ("ocs1.1A", 0.0),
        ("ocs1.2A", 0.0),
    ]
    assert received(star(2, 1), passing(**{"3A_1B": 1.0})) == []


def test_splitter_lights_all_its_outputs_and_light_of_two_collides(make: Make) -> None:
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
    light = received(testbed, {})
    assert [(lit.source, lit.loss_db) for lit in light if lit.end == rx("h1")] == [(tx("h0"), 3.5)]
    assert {lit.source for lit in light if lit.end == rx("h2")} == {tx("h0"), tx("h2")}


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
    (lit,) = received(testbed, crossconnects)
    assert (lit.end, lit.loss_db) == (rx("h1"), 3.5)
    seen = {str(trace.end): trace.loss_db for trace in LightMap(testbed).traces(crossconnects)}
    assert seen["ocs2.9A"] == pytest.approx(1.5)


def test_ring_of_fibre_ends_and_a_packet_switch_sends_and_receives(make: Make) -> None:
    testbed = make(
        """
switches: {ocs1: {driver: oxc, model: both-ways, address: "10.0.0.1"}}
hosts: {h0: {nics: {eth0: {module: 100g-lr4}}}}
fibres: [h0.eth0.tx <-> ocs1.1A, h0.eth0.rx <-> ocs1.1B, ocs1.2B <-> ocs1.3A, ocs1.3B <-> ocs1.2A]
"""
    )
    light = received(testbed, passing(**{"1A_2B": 1.0, "3A_3B": 1.0, "2A_1B": 1.0}))
    assert [(lit.end, lit.loss_db) for lit in light] == [(rx("h0"), 3.0)]
    text = "packet_switches: {eps1: {ports: 2}}\nhosts: {h0: {nics: {eth0: {module: 100g-lr4}}}}\n"
    found = {(str(lit.source), str(lit.end)) for lit in received(make(f"{text}fibres: [h0.eth0 <-> eps1.1]\n"), {})}
    assert found == {("h0.eth0.tx", "eps1.1.rx"), ("eps1.1.tx", "h0.eth0.rx")}


# --- what light is where: ports that it reaches, and crossconnects that pass none


TRUNKED = """switches:
  ocs1: {driver: oxc, model: one-way, size: 8, address: '10.0.0.5'}
  ocs2: {driver: oxc, model: one-way, size: 8, address: '10.0.0.6'}
hosts:
  h0: {nics: {eth0: {module: 100g-lr4}, eth1: {module: 100g-lr4}}}
  h1: {nics: {eth0: {module: 100g-lr4}, eth1: {module: 100g-lr4}}}
fibres:
  - h0.eth0 <-> ocs1.1
  - h0.eth1 <-> ocs1.2
  - h1.eth0 <-> ocs2.1
  - h1.eth1 <-> ocs2.2
  - ocs1.8B -> ocs2.8A
  - ocs2.8B -> ocs1.8A
"""


def state(**crossconnects: str) -> State:
    return {switch: frozenset(map(Crossconnect.parse, texts.split())) for switch, texts in crossconnects.items()}


def reached(testbed: Testbed, crossconnect: str, there: State) -> set[str]:
    return set(map(str, Fabric(testbed).ports_reached([SwitchCrossconnect.parse(crossconnect)], there)))


def test_one_way_of_light_reaches_its_sender_and_its_receiver_also_over_a_dark_crossconnect(
    star: Callable[..., Testbed], make: Make
) -> None:
    testbed = star(hosts=2, ports=2)
    assert reached(testbed, "ocs1:1A-3B", state(ocs1="1A-3B 2A-4B")) == {"h0.eth0", "h1.eth0"}
    assert reached(testbed, "ocs1:1A-9B", state(ocs1="")) == {"h0.eth0"}
    assert reached(testbed, "ocs1:9A-10B", state(ocs1="")) == set()
    testbed = make(TRUNKED.replace("model: one-way", "model: both-ways"))
    assert reached(testbed, "ocs1:1A-8B", state(ocs1="1A-8B", ocs2="8A-2B")) == {"h0.eth0", "h1.eth1"}


def test_light_is_followed_with_its_direction_and_back_to_where_it_comes_from(make: Make) -> None:
    testbed = make(TRUNKED)
    for there, found in (
        (state(ocs1="1A-8B", ocs2="8A-1B"), {"h0.eth0", "h1.eth0"}),
        (state(ocs1="1A-8B", ocs2=""), {"h0.eth0"}),  # the next switch passes nothing
        (state(ocs1="1A-8B"), {"h0.eth0", "h1.eth0", "h1.eth1"}),  # anywhere where it was not read
    ):
        assert reached(testbed, "ocs1:1A-8B", there) == found
    assert reached(testbed, "ocs2:8A-1B", state(ocs1="2A-8B", ocs2="8A-1B")) == {"h0.eth1", "h1.eth0"}
    assert reached(testbed, "ocs2:8A-1B", state(ocs2="8A-1B")) == {"h0.eth0", "h0.eth1", "h1.eth0"}
    # A ring of fibres ends.
    assert reached(testbed, "ocs1:8A-8B", state(ocs1="8A-8B", ocs2="8A-8B")) == set()
    assert reached(testbed, "ocs1:8A-8B", {}) == {"h0.eth0", "h0.eth1", "h1.eth0", "h1.eth1"}


def reading(text: str, state: CrossconnectState = CrossconnectState.TUNED) -> CrossconnectReading:
    return CrossconnectReading(crossconnect=Crossconnect.parse(text), state=state)


def test_blocked_and_failed_crossconnects_light_nothing_and_their_ports_are_those_that_a_lease_names() -> None:
    states = {
        state: [str(one) for one in lighting({"ocs1": (reading("1A-2B", state),)})] for state in CrossconnectState
    }
    assert [state for state, lit in states.items() if not lit] == [CrossconnectState.BLOCKED, CrossconnectState.FAILED]
    found = crossconnect_ports([SwitchCrossconnect.parse("ocs1:1A-2B"), SwitchCrossconnect.parse("ocs2:5-7")])
    assert found == {"ocs1.1", "ocs1.2", "ocs2.5", "ocs2.7"}
