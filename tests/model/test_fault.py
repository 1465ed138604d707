import json
import math
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.model.fault import FAULTS, Clear, Fault, Flap, Slow, Stick, decode_fault, parse_fault
from hwd.model.fault_check import check_fault
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Host, HostTwin, NicPort, Switch, SwitchTwin, Testbed
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.values import Capabilities, PortSide

from ..modules import LR4

CAPABILITIES = Capabilities(
    ends=(PortSide.parse("1A"), PortSide.parse("1B")),
    two_sided=True,
    reciprocal=False,
    latching=False,
    atomic_batches=True,
    moves_in_use=True,
    settle_s=0.01,
    loss_db_typical=0.9,
    loss_db_max=2.0,
)


def host(name: str, twin: HostTwin | None) -> Host:
    return Host(name=name, ports=(NicPort(id=NicPortId(host=name, port="eth0"), module=LR4, interface="e"),), twin=twin)


def switch(name: str, twin: SwitchTwin | None) -> Switch:
    return Switch(name=name, driver="d", model="m", capabilities=CAPABILITIES, twin=twin)


TESTBED = Testbed(
    name="t",
    switches={"ocs1": switch("ocs1", SwitchTwin(timing="ideal", seed=0)), "ocs2": switch("ocs2", None)},
    hosts={"h0": host("h0", HostTwin(kernel=False, timing="ideal", seed=0)), "h1": host("h1", None)},
    strands=(),
)

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


@pytest.mark.parametrize("data", ONE_OF_EACH, ids=lambda data: data["fault"])
def test_fault_is_read_as_it_was_written_and_fits_the_testbed(data: dict[str, Any]) -> None:
    fault = decode_fault(json.dumps(data).encode())
    assert json.loads(json.dumps(msgspec.to_builtins(fault))) == data
    check_fault(fault, TESTBED)


def test_each_fault_has_its_example_here() -> None:
    assert {data["fault"] for data in ONE_OF_EACH} == set(FAULTS)
    assert len(FAULTS) == len(get_args(Fault))


def test_fault_is_one_line_of_text() -> None:
    assert str(Slow(switch="ocs1", seconds=0.5)) == "ocs1 slow seconds=0.5"
    assert str(Stick(switch="ocs1", ends=("3A", "17B"))) == "ocs1 stick ends=3A,17B"
    assert str(Clear()) == "clear"
    assert str(Clear(host="h0")) == "h0 clear"
    assert str(Flap(port="h0.eth0")) == "h0.eth0 flap times=1 down_s=0.05 up_s=0.05"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"switch": "ocs1"}, r"None is no fault; there are deny, reset,.* clear"),
        ({"switch": "ocs1", "fault": ["slow"]}, r"\['slow'\] is no fault"),
        (
            {"switch": "ocs1", "fault": "slow"},
            r"^fault: ocs1 slow: seconds: is missing; it must be a number from 0 to 86400\. slow takes switch",
        ),
        (
            {"switch": "ocs1", "fault": "slow", "seconds": math.nan},
            r"slow: seconds: must be greater than or equal to 0\.",
        ),
        ({"switch": "ocs1", "fault": "slow", "seconds": -1}, r"must be greater than or equal to 0"),
        ({"switch": "ocs1", "fault": "slow", "seconds": 1, "minutes": 2}, r"ocs1 slow: minutes: is an unknown field"),
        ({"port": "eth0", "fault": "unplug"}, r"'eth0': write it as host.port"),
        (
            {"port": "h0.eth0", "fault": "cut", "strand": "middle"},
            r"h0\.eth0 cut: strand: must be 'tx', 'rx' or 'both'",
        ),
        (
            {"host": "h0", "fault": "nic-timing", "timing": "cx7"},
            r"h0 nic-timing: timing: must be 'opus-cx6dx-autoneg', 'opus-cx6dx', 'mfabric-cx6' or 'ideal'\.",
        ),
        ({"port": "h0.eth0", "fault": "flap", "times": 0}, r"times: must be greater than or equal to 1\."),
        ({"switch": "ocs1", "fault": "stick", "ends": []}, r"name at least one end"),
        ({"switch": "ocs1", "fault": "stick", "ends": ["a.b"]}, r"port 'a\.b': not a port"),
        ({"switch": "ocs1", "fault": "drift", "ends": [], "loss_db": 1}, r"drift: name at least one end"),
        ({"switch": "ocs1", "fault": "drift", "ends": ["1A"], "loss_db": -1}, r"must be greater than or equal to 0"),
        ({"switch": "ocs1", "fault": "partial", "pairs": -1}, r"must be greater than or equal to 0"),
        ({"switch": "ocs1", "fault": "panel"}, r"panel: name a crossconnect to remove or to add"),
        ({"switch": "ocs1", "fault": "panel", "add": ["1A"]}, r"'1A': write it as 1A-2B"),
        ({"switch": "ocs1", "host": "h0", "fault": "clear"}, r"name one switch, port or host, or none"),
    ],
)
def test_wrong_fault_is_refused_with_what_is_wrong(data: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_fault(data)


@pytest.mark.parametrize("line", [b"", b"[]", b"{", b"\xff", b'"slow"'])
def test_line_that_is_no_object_is_refused(line: bytes) -> None:
    with pytest.raises(ConfigError, match="not a JSON object"):
        decode_fault(line)


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


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"switch": "ocs9", "fault": "reset"}, "no switch ocs9 in testbed t; it has ocs1, ocs2"),
        ({"switch": "ocs9", "fault": "clear"}, "no switch ocs9"),
        ({"switch": "ocs1", "fault": "stick", "ends": ["7A"]}, "ocs1 has no port 7A"),
        ({"switch": "ocs1", "fault": "drift", "ends": ["1A", "7B"], "loss_db": 1}, "ocs1 has no port 7B"),
        ({"switch": "ocs1", "fault": "panel", "add": ["1A-9B"]}, "ocs1 has no port 9B"),
        ({"port": "h0.eth7", "fault": "unplug"}, r"h0\.eth7: no such NIC port"),
        ({"host": "h7", "fault": "agent-killed"}, "no host h7 in testbed t; it has h0, h1"),
    ],
)
def test_subject_that_is_not_there_is_named(data: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check_fault(parse_fault(data), TESTBED)


@pytest.mark.parametrize(
    "data",
    [
        {"switch": "ocs2", "fault": "reset"},
        {"port": "h1.eth0", "fault": "unplug"},
        {"host": "h1", "fault": "agent-killed"},
        {"host": "h1", "fault": "clear"},
    ],
)
def test_real_device_is_not_told_to_misbehave(data: dict[str, Any]) -> None:
    with pytest.raises(RefusedError, match="is a real"):
        check_fault(parse_fault(data), TESTBED)
