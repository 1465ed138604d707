import json
import math
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.model.fault import FAULTS, Clear, Fault, Flap, Slow, Stick, decode_fault, parse_fault
from hwd.model.fault_check import check_fault
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError

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


def test_fault_of_each_kind_is_read_as_it_was_written_and_fits_the_testbed(testbed: Testbed) -> None:
    for data in ONE_OF_EACH:
        fault = decode_fault(json.dumps(data).encode())
        assert json.loads(json.dumps(msgspec.to_builtins(fault))) == data
        check_fault(fault, testbed)
    assert {data["fault"] for data in ONE_OF_EACH} == set(FAULTS)
    assert len(FAULTS) == len(get_args(Fault))


def test_what_json_has_no_text_for_is_refused_too() -> None:
    with pytest.raises(ConfigError, match=r"slow: seconds: must be greater than or equal to 0\."):
        parse_fault({"switch": "ocs1", "fault": "slow", "seconds": math.nan})
    with pytest.raises(ConfigError, match="not a JSON object"):
        decode_fault(b"\xff")


def test_fault_is_one_line_of_text() -> None:
    assert str(Slow(switch="ocs1", seconds=0.5)) == "ocs1 slow seconds=0.5"
    assert str(Stick(switch="ocs1", ends=("3A", "17B"))) == "ocs1 stick ends=3A,17B"
    assert str(Clear()) == "clear"
    assert str(Clear(host="h0")) == "h0 clear"
    assert str(Flap(port="h0.eth0")) == "h0.eth0 flap times=1 down_s=0.05 up_s=0.05"


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
    assert parse_fault(msgspec.to_builtins(fault)) == fault
