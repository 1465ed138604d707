"""From a demand and a report to moves: what is in the way goes, all else stays, and elements come to whole states."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.values import Capabilities, Crossconnect, CrossconnectReading, CrossconnectState
from hwd_drivers.devices import registry
from hwd_drivers.devices.elements import Elements
from hwd_drivers.switching.demand import SwitchDemand, moves_of
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves

from ...answers import check_answers

SELECTOR = registry.find("osw").capabilities("osw", "1x4")
ARRAY = registry.find("osw").capabilities("osw", "2x4")
CROSS = registry.find("thorlabs-osw").capabilities("osw22", None)
MATRIX = registry.find("polatis-tl1").capabilities("polatis-6000", "8x8")


def moves(
    capabilities: Capabilities, before: list[str], wanted: list[str], failed: list[str] | None = None
) -> SwitchMoves:
    demand = SwitchDemand(switch="sel0", wanted=frozenset(map(Crossconnect.parse, wanted)), emptied=not wanted)
    readings = [
        CrossconnectReading(
            crossconnect=Crossconnect.parse(one),
            state=CrossconnectState.FAILED if one in (failed or ()) else CrossconnectState.TUNED,
        )
        for one in before
    ]
    return moves_of(demand, capabilities, readings)


def change(asked: str) -> str:
    """Of `SWITCH CROSSCONNECTS -> WANTED`."""
    (switch, *before), wanted = (part.split() for part in asked.split("->"))
    try:
        found = moves(globals()[switch], before, wanted)
    except RefusedError as error:
        return f"refused {error}"
    assert found.is_empty == (not found.remove and not found.add)
    return " ".join(["remove", *map(str, found.remove), "add", *map(str, found.add)])


def test_what_is_in_the_way_goes_all_else_stays_and_what_cannot_be_is_refused_in_words() -> None:
    check_answers(Path(__file__).with_name("demands.txt"), {"change": change})


@pytest.mark.parametrize("capabilities", [SELECTOR, MATRIX], ids=["selector", "matrix"])
def test_one_that_is_wanted_and_has_failed_is_made_anew(capabilities: Capabilities) -> None:
    one = "in-1" if capabilities is SELECTOR else "1A-2B"
    found = moves(capabilities, [one], [one], failed=[one])
    assert [[*map(str, part)] for part in (found.remove, found.add, found.keep, found.failed)] == [
        [one],
        [one],
        [],
        [one],
    ]


@pytest.mark.parametrize("capabilities", [ARRAY, MATRIX], ids=["elements", "matrix"])
def test_a_demand_of_a_whole_switch_removes_everything_else(capabilities: Capabilities) -> None:
    demand = SwitchDemand(switch="sel0", wanted=frozenset({Crossconnect.parse("1A-3B")}), whole=True)
    before = [
        CrossconnectReading(crossconnect=Crossconnect.parse(one), state=CrossconnectState.TUNED)
        for one in ("1A-3B", "2A-5B")
    ]
    found = moves_of(demand, capabilities, before)
    assert [[*map(str, part)] for part in (found.after, found.remove, found.add)] == [["1A-3B"], ["2A-5B"], []]


@given(st.integers(1, 4), st.integers(0, 4), st.integers(5, 8), st.integers(0, 4))
def test_every_element_is_led_to_one_of_its_states(first: int, now: int, second: int, other: int) -> None:
    before = [*([f"1A-{now}B"] if now else []), *([f"2A-{4 + other}B"] if other else [])]
    found = moves(ARRAY, before, [f"1A-{first}B", f"2A-{second}B"])
    assert {*map(str, found.after)} == {f"1A-{first}B", f"2A-{second}B"}
    if not found.is_empty:
        assert Elements(ARRAY).targets("sel0", remove=found.remove, add=found.add)


class Counted(frozenset[Crossconnect]):
    """Counts how often all of it is read."""

    reads = 0

    def __iter__(self) -> Iterator[Crossconnect]:
        self.reads += 1
        return super().__iter__()


def test_a_safe_demand_reads_what_was_named_once_however_much_collides() -> None:
    readings = [
        CrossconnectReading(crossconnect=Crossconnect.parse(f"{port}A-{port + 8}B"), state=CrossconnectState.TUNED)
        for port in range(1, 9)
    ]
    wanted = Counted(Crossconnect.parse(f"{port}A-{17 - port}B") for port in range(1, 9))
    demand = SwitchDemand(switch="ocs1", wanted=wanted, by_name=wanted, mode=ApplyMode.SAFE)
    with pytest.raises(RefusedError):
        moves_of(demand, MATRIX, readings)
    reads, wanted.reads = wanted.reads, 0
    with pytest.raises(RefusedError):
        moves_of(demand, MATRIX, readings[:1])
    assert reads == wanted.reads
