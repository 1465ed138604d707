"""What light is where: ports that it reaches, and crossconnects that pass none."""

from collections.abc import Callable

from hwd.fabric.fabric import Fabric
from hwd.fabric.state import State, crossconnect_ports, lighting
from hwd.model.link import SwitchCrossconnect
from hwd.model.testbed import Testbed
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState

Make = Callable[[str], Testbed]

TWO_SWITCHES = """switches:
  ocs1: {driver: oxc, model: one-way, size: 8, address: '10.0.0.5'}
  ocs2: {driver: oxc, model: one-way, size: 8, address: '10.0.0.6'}
hosts:
  h0: {nics: {eth0: {module: 100g-lr4}, eth1: {module: 100g-lr4}}}
  h1: {nics: {eth0: {module: 100g-lr4}, eth1: {module: 100g-lr4}}}
fibres:
  - h0.eth0 <-> ocs1.1
  - h0.eth1 <-> ocs1.2
  - h1.eth0 <-> ocs2.1
  - h1.eth1 <-> ocs2.2
  - ocs1.8B -> ocs2.8A
  - ocs2.8B -> ocs1.8A
"""


def state(**crossconnects: str) -> State:
    return {switch: frozenset(map(Crossconnect.parse, texts.split())) for switch, texts in crossconnects.items()}


def reached(testbed: Testbed, crossconnect: str, there: State) -> set[str]:
    return set(map(str, Fabric(testbed).ports_reached([SwitchCrossconnect.parse(crossconnect)], there)))


def test_one_way_of_light_reaches_its_sender_and_its_receiver_also_over_a_dark_crossconnect(
    star: Callable[..., Testbed], make: Make
) -> None:
    testbed = star(hosts=2, ports=2)
    assert reached(testbed, "ocs1:1A-3B", state(ocs1="1A-3B 2A-4B")) == {"h0.eth0", "h1.eth0"}
    assert reached(testbed, "ocs1:1A-9B", state(ocs1="")) == {"h0.eth0"}
    assert reached(testbed, "ocs1:9A-10B", state(ocs1="")) == set()
    testbed = make(TWO_SWITCHES.replace("model: one-way", "model: both-ways"))
    assert reached(testbed, "ocs1:1A-8B", state(ocs1="1A-8B", ocs2="8A-2B")) == {"h0.eth0", "h1.eth1"}


def test_light_is_followed_with_its_direction_and_back_to_where_it_comes_from(make: Make) -> None:
    testbed = make(TWO_SWITCHES)
    for there, found in (
        (state(ocs1="1A-8B", ocs2="8A-1B"), {"h0.eth0", "h1.eth0"}),
        (state(ocs1="1A-8B", ocs2=""), {"h0.eth0"}),  # the next switch passes nothing
        (state(ocs1="1A-8B"), {"h0.eth0", "h1.eth0", "h1.eth1"}),  # anywhere where it was not read
    ):
        assert reached(testbed, "ocs1:1A-8B", there) == found
    assert reached(testbed, "ocs2:8A-1B", state(ocs1="2A-8B", ocs2="8A-1B")) == {"h0.eth1", "h1.eth0"}
    assert reached(testbed, "ocs2:8A-1B", state(ocs2="8A-1B")) == {"h0.eth0", "h0.eth1", "h1.eth0"}
    # A ring of fibres ends.
    assert reached(testbed, "ocs1:8A-8B", state(ocs1="8A-8B", ocs2="8A-8B")) == set()
    assert reached(testbed, "ocs1:8A-8B", {}) == {"h0.eth0", "h0.eth1", "h1.eth0", "h1.eth1"}


def reading(text: str, state: CrossconnectState = CrossconnectState.TUNED) -> CrossconnectReading:
    return CrossconnectReading(crossconnect=Crossconnect.parse(text), state=state)


def test_blocked_and_failed_crossconnects_light_nothing_and_their_ports_are_those_that_a_lease_names() -> None:
    states = {
        state: [str(one) for one in lighting({"ocs1": (reading("1A-2B", state),)})] for state in CrossconnectState
    }
    assert [state for state, lit in states.items() if not lit] == [CrossconnectState.BLOCKED, CrossconnectState.FAILED]
    found = crossconnect_ports([SwitchCrossconnect.parse("ocs1:1A-2B"), SwitchCrossconnect.parse("ocs2:5-7")])
    assert found == {"ocs1.1", "ocs1.2", "ocs2.5", "ocs2.7"}
