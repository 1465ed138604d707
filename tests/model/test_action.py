from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.model.action import Action, parse_actions, parse_settings
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Setting, Testbed
from hwd_drivers.core.errors import ConfigError

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
