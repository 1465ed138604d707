from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.model.action import Action, parse_actions, parse_settings
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Host, NicPort, Setting, Testbed
from hwd_drivers.core.errors import ConfigError

from ..modules import LR4

PORTS = tuple(NicPort(id=NicPortId(host="h0", port=name), module=LR4, interface=name) for name in ("eth0", "eth1"))
TESTBED = Testbed(
    name="t", switches={}, hosts={"h0": Host(name="h0", ports=PORTS)}, strands=(), host_actions=tuple(Setting)
)
ETH0, ETH1 = (port.id for port in PORTS)


def test_all_ports_get_each_setting_in_its_order() -> None:
    actions = parse_actions({"ports": "all", "set": {"mtu": 4200, "autoneg": False}}, TESTBED)
    assert actions == (
        Action(port=ETH0, setting=Setting.MTU, value=4200),
        Action(port=ETH0, setting=Setting.AUTONEG, value=False),
        Action(port=ETH1, setting=Setting.MTU, value=4200),
        Action(port=ETH1, setting=Setting.AUTONEG, value=False),
    )
    assert [str(action) for action in actions[:2]] == ["h0.eth0 mtu 4200", "h0.eth0 autoneg off"]


def test_named_ports_count_once() -> None:
    actions = parse_actions({"ports": ["h0.eth1", "h0.eth1"], "set": {"mtu": 4200}}, TESTBED)
    assert [action.port for action in actions] == [ETH1]
    assert parse_actions({"ports": "h0.eth1", "set": {"mtu": 4200}}, TESTBED) == actions


def test_list_of_addresses_is_one_setting_each() -> None:
    assert parse_settings({"address": ["10.1.0.1/24", "fd00::1"]}) == (
        (Setting.ADDRESS, "10.1.0.1/24"),
        (Setting.ADDRESS, "fd00::1/128"),
    )


def test_values_are_brought_into_one_form() -> None:
    neighbour = {"ip": "10.1.0.2", "mac": "02:00:00:00:00:AB"}
    assert parse_settings({"autoneg": "on", "fec": False, "neighbour": neighbour, "route": {"to": "10.2.0.0/24"}}) == (
        (Setting.AUTONEG, True),
        (Setting.FEC, "off"),
        (Setting.NEIGHBOUR, {"ip": "10.1.0.2", "mac": "02:00:00:00:00:ab"}),
        (Setting.ROUTE, {"to": "10.2.0.0/24"}),
    )


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "name at least one of mtu, autoneg"),
        ("mtu", "name at least one"),
        ({"speed": 100}, "'speed' is no setting; there are mtu"),
        ({"mtu": 67}, "67 is no whole number from 68 to 65535"),
        ({"mtu": True}, "True is no whole number"),
        ({"autoneg": 1}, "1 is neither on nor off"),
        ({"fec": ["rs"]}, r"\['rs'\] is none of auto"),
        ({"address": "10.1.0.300"}, "'10.1.0.300' is no IP address"),
        ({"address": []}, "the list is empty"),
        ({"neighbour": {"ip": "10.1.0.1"}}, "write {ip: 10.1.0.2, mac:"),
        ({"neighbour": {"ip": "10.1.0.1", "mac": 123456}}, "no hardware address; write it in quotes"),
        ({"route": {"to": "10.2.0.1/24"}}, "has host bits set"),
        ({"route": {"to": "10.2.0.0/24", "via": "fd00::1"}}, "one is IPv4 and the other IPv6"),
        ({"route": {"to": "10.2.0.0/24", "metric": -1}}, "-1 is no whole number"),
        ({"route": {"to": "10.2.0.0/24", "dev": "eth0"}}, "via and metric may be left out"),
    ],
)
def test_wrong_value_is_refused_with_the_right_form(settings: object, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_settings(settings)


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ({"set": {"mtu": 4200}}, "write {ports: all"),
        ({"ports": [], "set": {"mtu": 4200}}, "ports: write all"),
        ({"ports": 7, "set": {"mtu": 4200}}, "ports: write all"),
        ({"ports": "h0.eth7", "set": {"mtu": 4200}}, r"h0\.eth7: no such NIC port in testbed t; it has h0\.eth0"),
    ],
)
def test_wrong_ports_are_refused(step: object, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_actions(step, TESTBED)


def test_setting_that_the_testbed_does_not_allow_is_refused_with_the_remedy() -> None:
    strict = replace(TESTBED, host_actions=(Setting.MTU,))
    with pytest.raises(
        ConfigError, match=r"autoneg is not among .* allows: mtu\. Write host_actions: \[mtu, autoneg\]"
    ):
        parse_actions({"ports": "all", "set": {"mtu": 4200, "autoneg": "off"}}, strict)
    with pytest.raises(ConfigError, match=r"allows: none\. Write host_actions: \[mtu\]"):
        parse_actions({"ports": "all", "set": {"mtu": 4200}}, replace(TESTBED, host_actions=()))


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
