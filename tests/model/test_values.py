"""Values of the model by their text: places of SSH servers, links, instants, settings of hosts, faults."""

import itertools
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.model import bodies
from hwd.model.action import Action, parse_actions, parse_settings
from hwd.model.fault import FAULTS, Clear, ClockStep, Cut, Fault, Flap, Slow, Stick, decode_fault, parse_fault
from hwd.model.fault_check import check_fault
from hwd.model.field_findings import allowed, findings, takes
from hwd.model.instant import Instant, InstantName, Knowledge, Origin
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd.model.ssh import SshPlace
from hwd.model.testbed import Setting, Testbed
from hwd_drivers.core.errors import BugError, ConfigError, RefusedError
from hwd_drivers.core.structs import to_plain

from ..answers import check_answers

PLACES = {
    "h0": SshPlace(address="h0"),
    "root@10.0.0.10": SshPlace(address="10.0.0.10", user="root"),
    "lab@h0.example:2222": SshPlace(address="h0.example", user="lab", port=2222),
    "[fe80::1%eth0]:22": SshPlace(address="fe80::1%eth0", port=22),
    "a@b@h0": SshPlace(address="h0", user="a@b"),
}


def test_places_instants_links_and_crossconnects_are_read_and_shown_as_they_are_written() -> None:
    assert {text: SshPlace.parse(text) for text in PLACES} == PLACES
    assert [str(place) for place in PLACES.values()] == [*PLACES]
    instant = Instant.seen(InstantName.CARRIER, earliest_ns=100, latest_ns=107)
    assert (instant.at_ns, instant.error_ns) == (103, 4)
    with pytest.raises(BugError, match="earliest 2 ns is after latest 1 ns"):
        Instant.seen(InstantName.DARK, earliest_ns=2, latest_ns=1)
    assert Instant.unknown(InstantName.FIRMWARE, "no source").knowledge is Knowledge.UNKNOWN
    assert Instant.never_left(InstantName.LIGHT, "kept link").why == "kept link"
    assert Origin.MEASURED.weakest(Origin.TWIN) is Origin.TWIN
    assert Origin.FITTED.weakest(Origin.KERNEL) is Origin.FITTED
    assert str(Link.parse("h10.eth0 <-> h2.eth0")) == "h2.eth0<->h10.eth0"
    assert str(Link.parse("h0.eth10<->h0.eth9")) == "h0.eth9<->h0.eth10"
    assert str(SwitchCrossconnect.parse("ocs1:2B-1A")) == "ocs1:1A-2B"
    with pytest.raises(ConfigError, match="with its switch"):
        SwitchCrossconnect.parse("1A-2B")


PORTS = st.builds(
    NicPortId, host=st.sampled_from(["h0", "h2", "h10"]), port=st.sampled_from(["eth0", "eth1", "eth9", "eth10"])
)


@given(one=PORTS, other=PORTS)
def test_link_is_the_same_from_both_ends_and_reads_its_own_text(one: NicPortId, other: NicPortId) -> None:
    if one == other:
        with pytest.raises(ConfigError, match="cannot be joined to itself"):
            Link.of(one, other)
        return
    link = Link.of(one, other)
    assert link == Link.of(other, one) == Link.parse(str(link))
    assert (link.other(one), link.other(other)) == (other, one)


H0 = [NicPortId(host="h0", port=port) for port in ("eth0", "eth1")]


def test_all_ports_or_each_named_one_once_get_each_setting_in_its_order(testbed: Testbed) -> None:
    allowed = replace(testbed, hosts={"h0": testbed.hosts["h0"]}, host_actions=(Setting.AUTONEG, Setting.MTU))
    actions = parse_actions({"ports": "all", "set": {"mtu": 4200, "autoneg": False}}, allowed)
    settings: list[tuple[Setting, Any]] = [(Setting.MTU, 4200), (Setting.AUTONEG, False)]
    assert actions == tuple(Action(port=port, setting=name, value=value) for port in H0 for name, value in settings)
    assert [str(action) for action in actions[:2]] == ["h0.eth0 mtu 4200", "h0.eth0 autoneg off"]
    for ports in ("h0.eth1", ["h0.eth1", "h0.eth1"]):
        assert parse_actions({"ports": ports, "set": {"mtu": 4200}}, testbed) == actions[2:3]
    with pytest.raises(ConfigError, match=r"allows: none\. Write host_actions: \[mtu\]"):
        parse_actions({"ports": "all", "set": {"mtu": 4200}}, replace(testbed, host_actions=()))


def test_values_are_brought_into_one_form() -> None:
    assert parse_settings({"address": ["10.1.0.1/24", "fd00::1"]}) == (
        (Setting.ADDRESS, "10.1.0.1/24"),
        (Setting.ADDRESS, "fd00::1/128"),
    )
    neighbour = {"ip": "10.1.0.2", "mac": "02:00:00:00:00:AB"}
    assert parse_settings({"autoneg": "on", "fec": False, "neighbour": neighbour, "route": {"to": "10.2.0.0/24"}}) == (
        (Setting.AUTONEG, True),
        (Setting.FEC, "off"),
        (Setting.NEIGHBOUR, {"ip": "10.1.0.2", "mac": "02:00:00:00:00:ab"}),
        (Setting.ROUTE, {"to": "10.2.0.0/24"}),
    )


@given(
    st.dictionaries(
        st.sampled_from([*Setting, "x"]),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3),
                st.dictionaries(st.sampled_from(["ip", "mac", "to", "via", "metric"]), inner, max_size=3),
            ),
            max_leaves=6,
        ),
        max_size=3,
    )
)
def test_anything_is_a_setting_or_bad_input(data: dict[str, Any]) -> None:
    try:
        settings = parse_settings(data)
    except ConfigError:
        return
    for setting, value in settings:
        assert parse_settings({setting: value}) == ((setting, value),)


ONE_OF_EACH: list[dict[str, Any]] = [
    {"switch": "ocs1", "fault": "deny", "code": "SROF", "text": "no"},
    {"switch": "ocs1", "fault": "reset"},
    {"switch": "ocs1", "fault": "refuse", "on": False},
    {"switch": "ocs1", "fault": "slow", "seconds": 0.5},
    {"switch": "ocs1", "fault": "silent", "on": True},
    {"switch": "ocs1", "fault": "half"},
    {"switch": "ocs1", "fault": "garble"},
    {"switch": "ocs1", "fault": "wrong"},
    {"switch": "ocs1", "fault": "partial", "pairs": 1},
    {"switch": "ocs1", "fault": "stick", "ends": ["1A", "1B"]},
    {"switch": "ocs1", "fault": "fail", "ends": ["1B"]},
    {"switch": "ocs1", "fault": "drift", "ends": ["1A"], "loss_db": 2.5, "over_s": 60.0},
    {"switch": "ocs1", "fault": "panel", "remove": ["1A-1B"], "add": []},
    {"switch": "ocs1", "fault": "reboot", "seconds": 20.0},
    {"port": "h0.eth0", "fault": "slow-firmware", "seconds": 4},
    {"port": "h0.eth0", "fault": "unplug", "on": True},
    {"port": "h0.eth0", "fault": "cut", "strand": "rx"},
    {"port": "h0.eth0", "fault": "weak", "loss_db": 7.5},
    {"port": "h0.eth0", "fault": "flap", "times": 3, "down_s": 0.1, "up_s": 0.2},
    {"port": "h0.eth0", "fault": "stuck-phy", "on": True},
    {"host": "h0", "fault": "agent-killed"},
    {"host": "h0", "fault": "clock-step", "seconds": -30.0},
    {"host": "h0", "fault": "nic-timing", "timing": "mfabric-cx6"},
    {"fault": "clear"},
    {"switch": "ocs1", "fault": "clear"},
    {"port": "h0.eth0", "fault": "clear"},
    {"host": "h0", "fault": "clear"},
]


def test_fault_of_each_kind_is_read_as_it_was_written_fits_the_testbed_and_is_one_line_of_text(
    testbed: Testbed,
) -> None:
    for data in ONE_OF_EACH:
        fault = decode_fault(json.dumps(data).encode())
        assert json.loads(json.dumps(to_plain(fault))) == data
        check_fault(fault, testbed)
    assert {data["fault"] for data in ONE_OF_EACH} == set(FAULTS)
    assert len(FAULTS) == len(get_args(Fault))
    assert str(Slow(switch="ocs1", seconds=0.5)) == "ocs1 slow seconds=0.5"
    assert str(Stick(switch="ocs1", ends=("3A", "17B"))) == "ocs1 stick ends=3A,17B"
    assert str(Clear()) == "clear"
    assert str(Clear(host="h0")) == "h0 clear"
    assert str(Flap(port="h0.eth0")) == "h0.eth0 flap times=1 down_s=0.05 up_s=0.05"
    with pytest.raises(ConfigError, match=r"slow: seconds: must be greater than or equal to 0\."):
        parse_fault({"switch": "ocs1", "fault": "slow", "seconds": math.nan})
    with pytest.raises(ConfigError, match="not a JSON object"):
        decode_fault(b"\xff")


@given(
    st.dictionaries(
        st.sampled_from(
            ["fault", "switch", "port", "host", "seconds", "on", "ends", "times", "pairs", "loss_db", "add", "x"]
        ),
        st.one_of(
            st.sampled_from([*FAULTS, "h0.eth0"]), st.floats(), st.integers(), st.none(), st.lists(st.text(max_size=3))
        ),
    )
)
def test_anything_is_a_fault_or_bad_input(data: dict[str, Any]) -> None:
    try:
        fault = parse_fault(data)
    except ConfigError:
        return
    assert parse_fault(to_plain(fault)) == fault


# --- all that is said of values that cannot be


def test_every_wrong_value_is_refused_with_the_right_form(testbed: Testbed) -> None:
    def of(read: Callable[[str], object]) -> Callable[[str], str]:
        def refused(text: str) -> str:
            with pytest.raises((ConfigError, RefusedError)) as refusal:
                read(text)
            return str(refusal.value)

        return refused

    assert testbed.host_actions == (Setting.MTU,)
    check_answers(
        Path(__file__).with_name("refusals.txt"),
        {
            "settings of a host step": of(lambda text: parse_settings(json.loads(text))),
            "host step": of(lambda text: parse_actions(json.loads(text), testbed)),
            "fault": of(lambda text: parse_fault(json.loads(text))),
            "fault in the testbed": of(lambda text: check_fault(parse_fault(json.loads(text)), testbed)),
            "line of a fault": of(lambda text: decode_fault(text.encode())),
            "link": of(Link.parse),
            "SSH place": of(SshPlace.parse),
        },
    )


# --- what is wrong with an object that somebody sent, in words that name each field


BODIES = [one for one in vars(bodies).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)]
LIBRARY = re.compile(r"Object |Expected|`|<enum|typing\.|Annotated")
"""Words of msgspec and of Python's types."""


KINDS: list[type[msgspec.Struct]] = [*BODIES, *FAULTS.values()]
VALUES: tuple[Any, ...] = (None, 3.5, "x y", [], [None], {}, {"a": None}, True)


def test_findings_name_the_field_in_plain_words_and_a_missing_one_with_what_it_may_be() -> None:
    for kind, value in itertools.product(KINDS, VALUES):
        names = [one.encode_name for one in msgspec.structs.fields(kind)]
        found = findings(dict.fromkeys(names, value) | {"misspelt": 1}, kind)
        begins = re.compile(rf"({'|'.join([*names, 'misspelt'])})[.\[:]")
        assert all(begins.match(one) for one in found), (kind, value, found)
        assert not any(LIBRARY.search(one) for one in found), (kind, value, found)
        unknown = kind.__struct_config__.forbid_unknown_fields
        assert ("misspelt: is an unknown field" in found) == unknown, (kind, value, found)
    for kind in KINDS:
        required = [one for one in msgspec.structs.fields(kind) if one.required]
        expected = [f"{one.encode_name}: is missing; it must be {allowed(one.type)}" for one in required]
        assert findings({}, kind) == expected, kind
    assert takes(Cut) == "port (text), strand ('both', 'rx' or 'tx')"
    assert takes(ClockStep) == "host (text), seconds (a number from -86400 to 86400)"
    assert takes(Flap).endswith("up_s (a number above 0, up to 60)")
    assert takes(FAULTS["half"]) == "switch (text)"
    # Without one, nobody would notice that those are not looked into.
    assert any(
        get_origin(one.type) is dict and issubclass(get_args(one.type)[1], msgspec.Struct)
        for kind in BODIES
        for one in msgspec.structs.fields(kind)
        if get_origin(one.type) is dict and isinstance(get_args(one.type)[1], type)
    )
