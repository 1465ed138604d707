"""What a change of crossconnects means for the connections of a unit that refuses ports in use."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.errors import ConfigError, ProtocolError, RefusedError
from hwd_drivers.core.values import Crossconnect, PortSide
from hwd_drivers.families.calient.ports import PortMap, one_way
from hwd_drivers.families.calient.record import Record
from hwd_drivers.families.calient.records import plan, readings

from ....answers import check_answers


def record(source: int, destination: int, *, two_way: bool = False, states: str = "IS,IS,OK") -> Record:
    admin, operation, capability = states.split(",")
    return Record(
        name=f"{source}{'-' if two_way else '>'}{destination}",
        group="SYSTEM",
        source=source,
        destination=destination,
        two_way=two_way,
        admin=admin,
        operation=operation,
        capability=capability,
    )


def pairs(*texts: str) -> list[Crossconnect]:
    return [Crossconnect.parse(text) for text in texts]


def steps(*records: Record, remove: str = "", add: str = "") -> tuple[list[str], list[str]]:
    found = plan(records, remove=pairs(*remove.split()), add=pairs(*add.split()), name="ocs1")
    return [each.name for each in found.delete], [str(pair) for pair in found.enter]


def test_old_connections_are_deleted_and_new_ones_entered() -> None:
    assert steps(record(1, 1), record(2, 2), remove="1A-1B", add="1A-3B") == (["1>1"], ["1A-3B"])


def test_a_missing_connection_needs_no_deleting() -> None:
    assert steps(record(2, 2), remove="1A-1B") == ([], [])


def of_states(states: str) -> str:
    """How it is read, and what is done where it is asked for."""
    (reading,) = readings([record(1, 2, states=states)])
    assert str(reading.crossconnect) == "1A-2B"
    deleted, entered = steps(record(1, 1, states=states), add="1A-1B")
    return " ".join([reading.state, "delete", *deleted, "enter", *entered])


def test_states_are_ours_existing_connections_stay_and_dark_or_failed_ones_are_made_again() -> None:
    check_answers(Path(__file__).with_name("states.txt"), {"states": of_states})


def test_half_of_a_connection_of_both_ways_does_not_go_alone() -> None:
    both = record(1, 2, two_way=True)
    with pytest.raises(
        RefusedError,
        match=r"ocs1: 2A-1B would go dark: it is one half of the 2WAY connection 1-2\. Change both, 1A-2B, 2A-1B",
    ):
        steps(both, remove="1A-2B")
    assert steps(both, remove="1A-2B 2A-1B", add="1A-3B") == (["1-2"], ["1A-3B"])
    assert steps(both, remove="1A-2B", add="2A-1B 1A-3B") == (["1-2"], ["2A-1B", "1A-3B"]), (
        "the other half is made again"
    )


def test_readings_stand_in_the_order_of_their_ports() -> None:
    found = readings([record(10, 1), record(9, 2, two_way=True), record(2, 3)])
    assert [str(each.crossconnect) for each in found] == ["2A-3B", "2A-9B", "9A-2B", "10A-1B"]


@given(st.permutations(["1.1.1", "1.1.2", "1.10.1", "1.2.1", "10.1.1", "2.8.8", "10.13a.1"]))
def test_numbers_do_not_hang_on_the_order_in_which_ports_are_listed(listed: list[str]) -> None:
    ports = PortMap.of(listed)
    assert ports.names == ("1.1.1", "1.1.2", "1.2.1", "1.10.1", "2.8.8", "10.1.1", "10.13a.1")
    assert ports.name(PortSide.parse("4B")) == "1.10.1"
    assert ports.numbers()["2.8.8"] == 5


@pytest.mark.parametrize(
    ("listed", "finding"), [(["1.1"], "not a name"), (["1.1.1", "1.1.1"], "listed twice"), (["1.1.1;"], "not a name")]
)
def test_names_that_cannot_be_are_protocol_errors(listed: list[str], finding: str) -> None:
    with pytest.raises(ProtocolError, match=finding):
        PortMap.of(listed)


@pytest.mark.parametrize("text", ["0A", "3A", "1", "in", "99999999A"])
def test_ends_that_the_switch_lacks_are_config_errors(text: str) -> None:
    with pytest.raises(ConfigError, match="ports 1 to 2"):
        PortMap(names=("1.1.1", "1.1.2")).name(PortSide.parse(text))


def test_one_way_goes_from_in_to_out() -> None:
    assert str(one_way(3, 17)) == "3A-17B"
