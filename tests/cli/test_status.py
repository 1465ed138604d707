"""Rows of `hwd status`."""

from typing import Any

import pytest

from hwd.cli.watching import switch_row

UP = {
    "switch": "ocs1",
    "owner": None,
    "up": True,
    "cause": "",
    "vendor": "Polatis",
    "model": "6000",
    "serial": "7",
    "crossconnects": [{"id": "1A-2B", "state": "unstated"}],
}


@pytest.mark.parametrize(
    ("switch", "row"),
    [
        (UP, ("ocs1", "up", "Polatis 6000 7", "1")),
        ({**UP, "up": False, "cause": "reset by peer"}, ("ocs1", "down", "reset by peer", "")),
        ({**UP, "up": None, "owner": "h0"}, ("ocs1", "owned by h0", "", "")),
    ],
    ids=["up", "down", "a host's own"],
)
def test_a_switch_is_up_or_down_or_owned_by_a_host(switch: dict[str, Any], row: tuple[str, ...]) -> None:
    assert switch_row(switch) == row
