"""Rows of `hwd status`."""

from typing import Any

import pytest

from hwd.cli.watching import run_line, switch_row

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


RUN = {
    "run": "k3v9",
    "playbook": "smoke",
    "state": "running",
    "done": 2,
    "total": 5,
    "what": "wait until ready",
    "stage": "waiting",
    "expected_s": 40.0,
    "by": None,
    "waits_for": [],
}


@pytest.mark.parametrize(
    ("run", "line"),
    [
        (RUN, "run k3v9 (smoke): 2 of 5 steps, wait until ready (waiting), about 40 s to go"),
        ({**RUN, "what": None, "stage": None, "expected_s": 0.0}, "run k3v9 (smoke): 2 of 5 steps, about to begin"),
        (
            {**RUN, "state": "paused", "by": "ada", "stage": None},
            "run k3v9 (smoke): 2 of 5 steps, paused by ada; hwd resume k3v9, about 40 s to go",
        ),
    ],
    ids=["running", "new", "paused"],
)
def test_a_run_says_where_it_is(run: dict[str, Any], line: str) -> None:
    assert run_line(run) == line
