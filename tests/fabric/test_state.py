import pytest

from hwd.fabric.state import crossconnect_ports, difference, lighting
from hwd.model.link import SwitchCrossconnect
from hwd_drivers.core.errors import BugError
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState


def reading(text: str, state: CrossconnectState = CrossconnectState.TUNED) -> CrossconnectReading:
    return CrossconnectReading(crossconnect=Crossconnect.parse(text), state=state)


def wanted(*texts: str) -> dict[str, frozenset[Crossconnect]]:
    return {"ocs1": frozenset(map(Crossconnect.parse, texts))}


def test_difference_names_what_is_missing_and_what_is_stale() -> None:
    (found,) = difference(wanted("1A-2B", "2A-1B", "10A-9B"), {"ocs1": (reading("2A-1B"), reading("3A-4B"))})
    assert str(found) == "ocs1: missing 1A-2B, 10A-9B; stale 3A-4B"


def test_state_as_wanted_has_no_difference() -> None:
    assert difference(wanted("1A-2B"), {"ocs1": (reading("1A-2B"),), "ocs2": (reading("1A-2B"),)}) == ()


def test_failed_crossconnect_is_not_there() -> None:
    (found,) = difference(wanted("1A-2B"), {"ocs1": (reading("1A-2B", CrossconnectState.FAILED),)})
    assert str(found) == "ocs1: missing 1A-2B"


def test_switch_that_was_not_read_is_a_bug_of_the_caller() -> None:
    with pytest.raises(BugError, match="ocs1 was not read"):
        difference(wanted("1A-2B"), {})


def test_blocked_and_failed_crossconnects_light_nothing() -> None:
    states = {
        state: [str(one) for one in lighting({"ocs1": (reading("1A-2B", state),)})] for state in CrossconnectState
    }
    assert [state for state, lit in states.items() if not lit] == [CrossconnectState.BLOCKED, CrossconnectState.FAILED]


def test_ports_of_crossconnects_are_those_that_a_lease_names() -> None:
    found = crossconnect_ports([SwitchCrossconnect.parse("ocs1:1A-2B"), SwitchCrossconnect.parse("ocs2:5-7")])
    assert found == {"ocs1.1", "ocs1.2", "ocs2.5", "ocs2.7"}
