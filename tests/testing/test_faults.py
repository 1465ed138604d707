"""Faults of twins, set and cleared by the fixture."""

import pytest

from hwd.testing.fixtures import Circuit, Fault, TimelinesOfTest
from hwd.testing.lab import Lab
from hwd_drivers.core.errors import ConfigError, DeviceError, LinkError, NotReadyError


def test_a_denial_is_the_switchs_own(circuit: Circuit, fault: Fault) -> None:
    fault("deny", switch="ocs1", code="SROF", text="Equipment failure")
    with pytest.raises(DeviceError, match="Equipment failure"):
        circuit("h0.eth0 <-> h1.eth0")


def test_a_slow_switch_is_seen_in_the_timeline(circuit: Circuit, fault: Fault, timeline: TimelinesOfTest) -> None:
    fault("slow", switch="ocs1", seconds=0.2)
    circuit("h0.eth0 <-> h1.eth0")
    assert timeline.seconds("control") > 0.2


def test_the_next_test_finds_all_well(circuit: Circuit, timeline: TimelinesOfTest) -> None:
    circuit("h0.eth0 <-> h1.eth0")
    assert timeline.seconds("control") < 0.2


def test_a_link_that_does_not_come_up_is_taken_back(circuit: Circuit, fault: Fault, lab: Lab) -> None:
    fault("stuck-phy", port="h0.eth0", on=True)
    with pytest.raises(NotReadyError, match=r"h0\.eth0"):
        circuit("h0.eth0 <-> h1.eth0", ready_within_s=0.5)
    assert lab.status().links == {}


def test_a_switch_that_ends_its_sessions_is_waited_for(circuit: Circuit, fault: Fault, lab: Lab) -> None:
    """So that what was made on it can be put back."""
    circuit("ocs1:5A-6B", ready_within_s=None)
    fault("refuse", switch="ocs1", on=True)
    fault("reset", switch="ocs1")
    with pytest.raises(LinkError, match="ocs1"):
        circuit("ocs1:7A-8B", ready_within_s=None)


def test_and_nothing_of_it_is_left(lab: Lab) -> None:
    assert [switch.crossconnects for switch in lab.client.switches()] == [()]


def test_what_is_no_fault_or_no_subject_is_refused(fault: Fault) -> None:
    with pytest.raises(ConfigError, match="'slwo' is no fault"):
        fault("slwo", switch="ocs1")
    with pytest.raises(ConfigError, match="no switch ocs9"):
        fault("reset", switch="ocs9")
