"""The diagnosis of a link, from made-up states of its ends and of the switches on its way."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from hwd.daemon.installed_drivers import load
from hwd.fabric.diagnosis import NO_SOURCE, Diagnosis, EndState, Transfers
from hwd.fabric.fabric import Fabric
from hwd.fabric.light_way import light_way
from hwd.fabric.lost_light import LightAt
from hwd.model.circuit import RoutedLink
from hwd.model.hang import Hang
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.stage import StageName
from hwd.model.switch import SwitchStatus
from hwd.model.testbed import Testbed
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState

from ..texts import by_end

RACK = """
testbed: hand-made
switches:
  ocs1: {driver: calient-tl1, model: calient-s160, address: "127.0.0.1:1"}
  ocs2: {driver: polatis-tl1, model: polatis-6000, size: 16x16, address: "127.0.0.1:2"}
  ocs3: {driver: polatis-tl1, model: polatis-6000, size: "8", address: "127.0.0.1:3"}
passives: {att: {kind: attenuator, loss_db: 1.5}}
hosts:
  h0: {nics: {eth0: {module: 100g-lr4}, eth1: {module: 100g-psm4}, eth2: {module: 100g-lr4}}}
  h1: {nics: {eth0: {module: 100g-lr4}, eth1: {module: 100g-psm4}, eth2: {module: 100g-lr4}}}
fibres:
  - {from: h0.eth0.tx, to: ocs1.1A, loss_db: 0.4}
  - {from: ocs1.1B, to: h0.eth0.rx}
  - {from: ocs1.5B, to: att.in}
  - {from: att.out, to: ocs2.1A}
  - {from: ocs2.1B, to: ocs1.5A}
  - h1.eth0 <-> ocs2.3
  - h0.eth1/1 <-> ocs2.9
  - h0.eth1/2 <-> ocs2.10
  - h0.eth1/3 <-> ocs2.11
  - h0.eth1/4 <-> ocs2.12
  - h1.eth1/1 <-> ocs2.13
  - h1.eth1/2 <-> ocs2.14
  - h1.eth1/3 <-> ocs2.15
  - h1.eth1/4 <-> ocs2.16
  - {from: h0.eth2.tx, to: ocs3.1}
  - {from: ocs3.2, to: h0.eth2.rx}
  - {from: h1.eth2.tx, to: ocs3.3}
  - {from: ocs3.4, to: h1.eth2.rx}
"""
H0, H1 = NicPortId(host="h0", port="eth0"), NicPortId(host="h1", port="eth0")
LINK = "h0.eth0<->h1.eth0"
DARK = (None, None, None, None)
UP = EndState(
    light=LightAt(lit=True, sent_dbm=(1.0, 1.0, 1.0, 1.0), received_dbm=(-1.0, -2.0, -1.5, -1.2)),
    firmware=True,
    carrier=True,
    rdma=True,
)
DOWN = replace(UP, firmware=False, carrier=False, rdma=False)
UNLIT = replace(DOWN, light=replace(UP.light, lit=False, received_dbm=DARK))
UNTOLD = EndState(
    carrier=False, why_unknown=dict.fromkeys((StageName.OPTICAL, StageName.FIRMWARE, StageName.RDMA), NO_SOURCE)
)
"""A host whose kernel tells its carrier, and that has no other source."""
POWERS = {"ocs1": {"1A": 6.6, "5B": 4.6, "5A": 4.5, "1B": 2.5}, "ocs2": {"3B": 1.6, "1B": 5.5}}
PAIRS = {"ocs1": ("1A-5B", "5A-1B"), "ocs2": ("1A-3B", "3A-1B")}


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Fabric:
    path = tmp_path_factory.mktemp("rack") / "rack.yaml"
    path.write_text(RACK)
    return Fabric(load(path).require())


@pytest.fixture
def testbed(fabric: Fabric) -> Testbed:
    return fabric.testbed


def status(
    name: str,
    pairs: Sequence[str],
    power_dbm: dict[str, float | None],
    states: Mapping[str, CrossconnectState] | None = None,
) -> SwitchStatus:
    """Of a switch with these crossconnects, tuned where `states` says nothing else."""
    tuned = dict.fromkeys(pairs, CrossconnectState.TUNED) | {
        pair: state for pair, state in (states or {}).items() if pair in pairs
    }
    readings = [
        CrossconnectReading(crossconnect=Crossconnect.parse(pair), state=state) for pair, state in tuned.items()
    ]
    return SwitchStatus(switch=name, owner=None, up=True, cause="", readings=readings, power_dbm=by_end(power_dbm))


def switches(
    *,
    dark: tuple[str, ...] = (),
    powers: Mapping[str, Mapping[str, float | None]] = POWERS,
    states: Mapping[str, CrossconnectState] | None = None,
) -> dict[str, SwitchStatus]:
    """Both switches; `dark`: ends as `ocs1.5B`; `states`: of crossconnects other than tuned."""
    rack = {}
    for name, pairs in PAIRS.items():
        power = {end: None if f"{name}.{end}" in dark else dbm for end, dbm in powers.get(name, {}).items()}
        rack[name] = status(name, pairs, power, states)
    return rack


def routed_in(fabric: Fabric) -> RoutedLink:
    """Over more loss than a plan would take."""
    (routed,) = fabric.routed_of({name: tuple(map(Crossconnect.parse, pairs)) for name, pairs in PAIRS.items()})
    return routed


def hang(
    fabric: Fabric,
    h0: EndState,
    h1: EndState,
    rack: Mapping[str, SwitchStatus] | None = None,
    *,
    transfers: Transfers | None = None,
) -> Hang | None:
    routed = routed_in(fabric)
    ends = {H0: h0, H1: h1}
    rack = switches() if rack is None else rack
    return Diagnosis(routed, ends, testbed=fabric.testbed, switches=rack, transfers=transfers).hang


def words(found: Hang | None) -> str:
    """Without the link and the powers."""
    assert found is not None
    assert found.link == LINK
    return changed(found, powers=()).words


def test_way_of_light_names_each_end_in_its_order_with_the_loss_up_to_it(fabric: Fabric) -> None:
    there, back = routed_in(fabric).circuits
    way = [
        (str(place.end), round(place.loss_db_max, 1), place.crossconnect) for place in light_way(there, fabric.testbed)
    ]
    crossconnects = there.crossconnects
    assert way == [
        ("h0.eth0.tx", 0.0, None),
        ("ocs1.1A", 0.4, None),
        ("ocs1.5B", 3.9, crossconnects[0]),
        ("ocs2.1A", 5.4, None),
        ("ocs2.3B", 8.1, crossconnects[1]),
        ("h1.eth0.rx", 8.1, None),
    ]
    assert [str(place.end) for place in light_way(back, fabric.testbed)] == [
        "h1.eth0.tx", "ocs2.3A", "ocs2.1B", "ocs1.5A", "ocs1.1B", "h0.eth0.rx"
    ]  # fmt: skip
    assert there.loss_db_max == pytest.approx(way[-1][1])


LOST = {
    ("ocs1.1A", "ocs1.5B", "ocs2.3B"): "between h0.eth0.tx and ocs1.1A",
    ("ocs1.5B", "ocs2.3B"): "inside ocs1, in 1A-5B",
    ("ocs2.3B",): "between ocs1.5B and ocs2.3B",
    (): "between ocs2.3B and h1.eth0.rx",
}


def test_first_place_without_light_is_named_and_one_without_a_source_is_not_dark(fabric: Fabric) -> None:
    fault = "; h0.eth0 has light, and the remote fault keeps it down"
    for dark, said in LOST.items():
        found = hang(fabric, DOWN, UNLIT, switches(dark=dark))
        assert words(found) == f"hangs at h1.eth0, optical: light is lost {said}{fault}"
        assert found is not None
        ways = [str(power).partition(" ") for power in found.powers]
        assert [at for at, _, _ in ways] == ["h0.eth0.tx", "ocs1.1A", "ocs1.5B", "ocs2.3B", "h1.eth0.rx"]
        assert [at for at, _, power in ways if power == "dark"] == [*dark, "h1.eth0.rx"]
    rack = switches(powers={})
    found = hang(fabric, replace(DOWN, light=LightAt(lit=True)), UNLIT, rack)
    assert words(found).startswith(
        "hangs at h1.eth0, optical: no light at h1.eth0.rx, and nothing is known of it before"
    )
    assert found is not None
    assert [str(power) for power in found.powers] == ["h1.eth0.rx dark"]
    away = {name: changed(one, up=False, readings=[]) for name, one in switches(dark=("ocs1.1A",)).items()}
    for untold in (rack, away):
        found = hang(fabric, DOWN, UNLIT, untold)
        assert words(found).startswith("hangs at h1.eth0, optical: light is lost between h0.eth0.tx and h1.eth0.rx")


def test_crossconnect_that_passes_no_light_or_is_gone_is_the_reason(fabric: Fabric) -> None:
    for state, said in (
        (CrossconnectState.FAILED, "ocs1 reports 1A-5B as failed"),
        (CrossconnectState.BLOCKED, "ocs1 reports 1A-5B as held dark"),
        (CrossconnectState.TUNING, "ocs1 reports 1A-5B as tuning still"),
    ):
        rack = switches(dark=("ocs1.5B", "ocs2.3B"), states={"1A-5B": state})
        assert f"optical: {said};" in words(hang(fabric, DOWN, UNLIT, rack))
        assert f"optical: {said}" in words(hang(fabric, UNTOLD, UNTOLD, rack)), "by what the switch says alone"
    rack = switches(dark=("ocs2.3B",))
    rack["ocs2"] = changed(rack["ocs2"], readings=[one for one in rack["ocs2"].readings if one.crossconnect != "1A-3B"])
    assert "optical: ocs2 does not have 1A-3B;" in words(hang(fabric, DOWN, UNLIT, rack))


def test_light_lost_at_two_places_is_said_of_both_ways_and_fibres_of_one_port_are_suspected_together(
    fabric: Fabric,
) -> None:
    found = hang(fabric, UNLIT, UNLIT, switches(dark=("ocs1.5B", "ocs2.3B", "ocs2.1B", "ocs1.5A", "ocs1.1B")))
    assert words(found) == (
        "hangs at both ends, optical: no light either way: light is lost between h1.eth0.tx and ocs2.1B; "
        "light is lost inside ocs1, in 1A-5B"
    )
    found = hang(fabric, UNLIT, UNLIT, switches(dark=("ocs1.1A", "ocs1.5B", "ocs2.3B")))
    assert words(found).startswith("hangs at h0.eth0, optical: light is lost between ocs1.1B and h0.eth0.rx; ")
    assert words(found).endswith("Are its two fibres in, and not swapped?")


def test_module_that_cannot_be_read_is_named_and_loss_of_signal_with_light_on_all_lanes_comes_last(
    fabric: Fabric,
) -> None:
    out = EndState(firmware=False, carrier=False, why_unknown={StageName.OPTICAL: "h0.eth0: there is no module in it"})
    rack = switches(dark=("ocs1.1A", "ocs1.5B", "ocs2.3B"))
    assert words(hang(fabric, out, UNLIT, rack)) == (
        "hangs at h0.eth0, optical: its module cannot be read: there is no module in it"
    )
    failed = switches(dark=("ocs1.5B", "ocs2.3B"), states={"1A-5B": CrossconnectState.FAILED})
    assert "ocs1 reports 1A-5B as failed" in words(hang(fabric, out, UNLIT, failed)), "what is certain goes first"
    # A latched flag outlives the loss, and a measurement may be late.
    flagged = replace(DOWN, light=replace(UP.light, lit=False))
    said = "reports loss of signal, and measured light when it did"
    assert words(hang(fabric, flagged, UP)) == f"hangs at h0.eth0, optical: h0.eth0.rx {said}"
    found = hang(fabric, flagged, UNLIT, switches(dark=("ocs1.1A", "ocs1.5B", "ocs2.3B")))
    assert words(found) == "hangs at h1.eth0, optical: light is lost between h0.eth0.tx and ocs1.1A"


def test_light_that_is_too_weak_or_below_loss_of_signal_says_where_too_much_is_lost(fabric: Fabric) -> None:
    weak = replace(DOWN, light=replace(UP.light, received_dbm=(-9.0, -12.3, -9.5, -10.0)))
    found = hang(fabric, DOWN, weak)
    assert words(found) == (
        "hangs at h1.eth0, firmware: the light at h1.eth0.rx is too weak, -12.3 dBm on one lane; "
        "the receiver needs -10.6 dBm; 5.6 dB are lost between ocs2.3B and h1.eth0.rx, at most 0.0 dB are stated; "
        "h0.eth0 has light, and the remote fault keeps it down"
    )
    powers = {**POWERS, "ocs2": {"3B": -9.0, "1B": 5.5}}
    assert words(hang(fabric, DOWN, UNLIT, switches(powers=powers))) == (
        "hangs at h1.eth0, optical: the light at ocs2.3B leaves about -15.0 dBm a lane for h1.eth0.rx, "
        "below loss of signal (-13 dBm); 13.6 dB are lost between ocs1.5B and ocs2.3B, at most 4.2 dB are stated; "
        "h0.eth0 has light, and the remote fault keeps it down"
    )


def test_monitor_of_a_switch_sees_four_lanes_6_db_over_one_of_them(fabric: Fabric) -> None:
    """4.6 dBm at 3B are -1.4 dBm a lane; -4.5 dBm are -10.5, and enough; -4.7 dBm are -10.7, and not."""
    untold = replace(DOWN, light=replace(UP.light, received_dbm=None))
    for power_dbm, enough in ((-4.5, True), (-4.7, False)):
        powers = {**POWERS, "ocs2": {"3B": power_dbm, "1B": 5.5}}
        said = words(hang(fabric, DOWN, untold, switches(powers=powers)))
        assert ("leaves about -10.7 dBm a lane for h1.eth0.rx; the receiver needs -10.6 dBm" in said) is not enough
        assert ("the PHY is up at neither end; light is there" in said) is enough


def test_firmware_is_named_at_the_end_that_lacks_it_and_light_without_a_source_is_unknown_and_no_reason(
    fabric: Fabric,
) -> None:
    found = hang(fabric, DOWN, replace(UP, carrier=None))
    assert str(found) == (
        f"{LINK} hangs at h0.eth0, firmware: the PHY is down; light is there (h0.eth0.rx -2.0 to -1.0 dBm a lane)"
    )
    told = replace(DOWN, why_down="bad signal integrity, serdes ALOS")
    assert words(hang(fabric, told, UP)).endswith("light is there; h0.eth0 says: bad signal integrity, serdes ALOS")
    blind = replace(DOWN, light=LightAt(), why_unknown={StageName.OPTICAL: NO_SOURCE})
    assert words(hang(fabric, blind, UP)) == (
        f"hangs at h0.eth0, firmware: the PHY is down; light at h0.eth0 is unknown: {NO_SOURCE}"
    )


def test_carrier_at_one_end_only_and_an_rdma_port_that_is_not_active_are_said_with_what_is_unknown(
    fabric: Fabric,
) -> None:
    assert words(hang(fabric, UNTOLD, UP)) == (
        f"hangs at h0.eth0, carrier: carrier at h1.eth0 only; light at h0.eth0 is unknown: {NO_SOURCE}; "
        f"firmware at h0.eth0 is unknown: {NO_SOURCE}"
    )
    no_carrier = words(hang(fabric, UNTOLD, UNTOLD))
    assert no_carrier.startswith("hangs at both ends, carrier: no carrier at either end; light at h0.eth0 is unknown: ")
    assert no_carrier.count(NO_SOURCE) == 4
    assert words(hang(fabric, UP, replace(UP, rdma=False))) == (
        "hangs at h1.eth0, rdma: carrier is there, the RDMA port of h1.eth0 is not active"
    )
    assert hang(fabric, UP, replace(UP, rdma=None)) is None


def test_interface_that_is_gone_goes_before_all_else_and_nothing_is_said_of_ends_that_were_not_heard(
    fabric: Fabric,
) -> None:
    gone = replace(UNLIT, missing="there is no interface eth0")
    assert words(hang(fabric, UNLIT, gone)) == "hangs at h1.eth0, carrier: there is no interface eth0"
    assert hang(fabric, EndState(), EndState()) is None
    assert hang(fabric, EndState(), UP) is None


def test_transfer_that_is_waited_for_is_the_last_stage(fabric: Fabric) -> None:
    assert hang(fabric, UP, UP) is None, "nobody waits for it"
    wrong = "the peer is h2.eth0, and should be h0.eth0"
    for transfers, said in (
        (Transfers(ready={H0, H1}), "both ends, ready: "),
        (Transfers(), "both ends, ready: carrier is there at both ends, and no transfer succeeded"),
        (Transfers(ready={H1}), "h0.eth0, ready: carrier is there; a transfer succeeded from h1.eth0 only"),
        (Transfers(wrong_peers={H1: wrong}), f"h1.eth0, ready: {wrong}"),
    ):
        assert words(hang(fabric, UP, UP, transfers=transfers)).startswith(f"hangs at {said}")


def test_lane_of_its_own_fibre_is_named(fabric: Fabric) -> None:
    """Lane 3 of four fibres is dark; the others have light."""
    routed = fabric.routes([Link.parse("h0.eth1<->h1.eth1")])[0]
    h0, h1 = routed.link.ends
    dark = LightAt(lit=False, sent_dbm=(1.0,) * 4, received_dbm=(-2.0, -2.0, None, -2.0))
    pairs = [str(one.crossconnect) for one in routed.crossconnects]
    rack = {"ocs2": status("ocs2", pairs, {"13B": -1.0, "14B": -1.0, "15B": -1.0, "16B": -1.0})}
    states = {h0: DOWN, h1: replace(DOWN, light=dark)}
    found = Diagnosis(routed, states, testbed=fabric.testbed, switches=rack).hang
    assert str(found) == (
        "h0.eth1<->h1.eth1 hangs at h1.eth1, optical: light is lost between ocs2.15B and h1.eth1/3.rx; h0.eth1 has "
        "light, and the remote fault keeps it down (h0.eth1/3.tx 1.0 dBm, ocs2.15B -1.0 dBm, h1.eth1/3.rx dark)"
    )


def test_monitor_of_leaving_light_says_nothing_of_light_that_enters(fabric: Fabric) -> None:
    """A unit without sides: 1 is dark, as nothing leaves there."""
    routed = fabric.routes([Link.parse("h0.eth2<->h1.eth2")])[0]
    h0, h1 = routed.link.ends
    rack = {"ocs3": status("ocs3", ("1-4", "2-3"), {"1": None, "2": 4.0, "3": None, "4": 4.0})}
    found = Diagnosis(routed, {h0: DOWN, h1: UNLIT}, testbed=fabric.testbed, switches=rack).hang
    assert str(found) == (
        "h0.eth2<->h1.eth2 hangs at h1.eth2, optical: light is lost between ocs3.4 and h1.eth2.rx; h0.eth2 has light, "
        "and the remote fault keeps it down (h0.eth2.tx 1.0 dBm a lane, ocs3.4 4.0 dBm, h1.eth2.rx dark)"
    )
