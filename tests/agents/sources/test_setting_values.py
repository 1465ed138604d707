"""Values of settings as anybody on the broker may send them."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.sources.setting_source import Setting, holds, restored, subject
from hwd_agents.sources.setting_values import parse_value
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import RefusedError

TEXTS = (
    st.sampled_from(["", "abc", "10.1.0.1/32", "10.1.0.1", "fe80::1", "fd00::/64", "auto", "02:00:00:00:00:01"])
    | st.text()
)
KEYS = st.sampled_from(["ip", "mac", "to", "via", "metric", "autoneg", "auto", "modes", "nud"]) | st.text(max_size=3)
JSON: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)

GOOD = [
    (Setting.MTU, 4200, 4200),
    (Setting.AUTONEG, False, False),
    (Setting.FEC, "rs", "rs"),
    (Setting.ADDRESS, "10.1.0.1/32", "10.1.0.1/32"),
    (Setting.ADDRESS, "10.1.0.1", "10.1.0.1/32"),
    (Setting.NEIGHBOUR, {"ip": "10.1.0.2", "mac": "02:00:00:00:00:AB"}, {"ip": "10.1.0.2", "mac": "02:00:00:00:00:ab"}),
    (Setting.ROUTE, {"to": "10.2.0.0/24"}, {"to": "10.2.0.0/24"}),
    (
        Setting.ROUTE,
        {"to": "fd00::/64", "via": "fe80::1", "metric": 10},
        {"to": "fd00::/64", "via": "fe80::1", "metric": 10},
    ),
]
BAD: list[tuple[Setting, Json]] = [
    (Setting.MTU, "abc"),
    (Setting.MTU, 2**40),
    (Setting.MTU, 2**200),
    (Setting.MTU, -1),
    (Setting.MTU, True),
    (Setting.MTU, 1500.5),
    (Setting.AUTONEG, "off"),
    (Setting.AUTONEG, 0),
    (Setting.FEC, "reed"),
    (Setting.FEC, False),
    (Setting.ADDRESS, 5.5),
    (Setting.ADDRESS, 167837697),
    (Setting.ADDRESS, "10.1.0.1/33"),
    (Setting.NEIGHBOUR, {"ip": "x"}),
    (Setting.NEIGHBOUR, {"ip": "x", "mac": "02:00:00:00:00:01"}),
    (Setting.NEIGHBOUR, {"ip": "10.1.0.2", "mac": "02:00:00:00:00:01\n"}),
    (Setting.ROUTE, 7),
    (Setting.ROUTE, {"to": "10.2.0.1/24"}),
    (Setting.ROUTE, {"to": "10.2.0.0/24", "via": "fe80::1"}),
    (Setting.ROUTE, {"to": "10.2.0.0/24", "metric": 2**32}),
    (Setting.ROUTE, {"to": "10.2.0.0/24", "table": 3}),
]


@pytest.mark.parametrize(("setting", "data", "value"), GOOD)
def test_value_is_taken_as_it_is_meant(setting: Setting, data: Json, value: Json) -> None:
    assert parse_value(setting, data) == value
    assert parse_value(setting, value) == value


@pytest.mark.parametrize(("setting", "data"), BAD)
def test_what_is_no_value_of_a_setting_is_refused_by_name(setting: Setting, data: Json) -> None:
    with pytest.raises(RefusedError, match=f"^{setting}: no such value: ."):
        parse_value(setting, data)


@given(st.sampled_from(Setting), JSON)
def test_whatever_comes_is_a_value_or_is_refused(setting: Setting, data: Json) -> None:
    try:
        value = parse_value(setting, data)
    except RefusedError:
        return
    match value:
        case {"ip": str(ip)}:
            ipaddress.ip_address(ip)
        case {"to": str(to)}:
            ipaddress.ip_network(to)
        case _:
            assert isinstance(value, bool | int | str)


@given(st.sampled_from(Setting), JSON, JSON, JSON)
def test_states_of_any_shape_can_be_compared(setting: Setting, value: Json, before: Json, now: Json) -> None:
    assert isinstance(subject(setting, value), str)
    assert isinstance(holds(setting, value, now), bool)
    assert isinstance(restored(setting, before, now), bool)
