from hwd.fabric.state import crossconnect_ports, lighting
from hwd.model.link import SwitchCrossconnect
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState


def reading(text: str, state: CrossconnectState = CrossconnectState.TUNED) -> CrossconnectReading:
    return CrossconnectReading(crossconnect=Crossconnect.parse(text), state=state)


def test_blocked_and_failed_crossconnects_light_nothing() -> None:
    states = {
        state: [str(one) for one in lighting({"ocs1": (reading("1A-2B", state),)})] for state in CrossconnectState
    }
    assert [state for state, lit in states.items() if not lit] == [CrossconnectState.BLOCKED, CrossconnectState.FAILED]


def test_ports_of_crossconnects_are_those_that_a_lease_names() -> None:
    found = crossconnect_ports([SwitchCrossconnect.parse("ocs1:1A-2B"), SwitchCrossconnect.parse("ocs2:5-7")])
    assert found == {"ocs1.1", "ocs1.2", "ocs2.5", "ocs2.7"}
