"""A program that asks for a switch in a loop does not fill the log."""

import logging

import pytest

from hwd.reconfigure.refused_switches import REASONS_MOST, SETS_MOST, RefusedSwitches
from hwd_drivers.core.errors import RefusedError


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]


def test_each_reason_of_a_set_is_said_once_and_then_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    refused = RefusedSwitches()
    for number in range(250):
        refused.refused("s1", RefusedError(f"h0.eth0: transfer t{number} is in flight, for {number} s"))
    refused.refused("s1", RefusedError("no target 'x'"))
    refused.refused("s2", RefusedError("no target 'x'"))
    assert warnings(caplog) == [
        "prepared set s1: not switched: h0.eth0: transfer t0 is in flight, for 0 s",
        "prepared set s1: not switched, 10 times now, the last: h0.eth0: transfer t9 is in flight, for 9 s",
        "prepared set s1: not switched, 100 times now, the last: h0.eth0: transfer t99 is in flight, for 99 s",
        "prepared set s1: not switched: no target 'x'",
        "prepared set s2: not switched: no target 'x'",
    ]


def test_a_switch_tells_the_count_and_the_reason_is_new_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    refused = RefusedSwitches()
    for _ in range(3):
        refused.refused("s1", RefusedError("busy"))
    for _ in range(2):
        refused.switched("s1")
    refused.refused("s1", RefusedError("busy"))
    assert [one.getMessage() for one in caplog.records] == [
        "prepared set s1: not switched: busy",
        "prepared set s1: is switched again, after 3 refusals",
        "prepared set s1: not switched: busy",
    ]


def test_reasons_and_sets_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    refused = RefusedSwitches()
    for number in range(100):
        refused.refused("s1", RefusedError("x" * (number + 1)))
    assert len(warnings(caplog)) == REASONS_MOST + 2  # the 1st and the 10th of the others
    for number in range(SETS_MOST + 1):
        refused.refused(f"t{number}", RefusedError("busy"))
    caplog.clear()
    refused.refused("s1", RefusedError("x"))
    assert len(warnings(caplog)) == 1, "forgotten, so it is new"
