"""Overrides of one switch: new and removed ones are reported once; tuned crossconnects with a dark end are blocked."""

from collections.abc import Sequence

import pytest

from hwd_drivers.core.errors import FailedError, RefusedError
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, PortOverride, PortSide
from hwd_drivers.devices.overrides import Overrides

DARK, NORMAL = PortOverride.FORCE_BLOCKED, PortOverride.NORMAL


def end(text: str) -> PortSide:
    return PortSide.parse(text)


def reading(text: str, state: CrossconnectState) -> CrossconnectReading:
    return CrossconnectReading(crossconnect=Crossconnect.parse(text), state=state)


@pytest.fixture
def told() -> list[tuple[list[str], PortOverride, str]]:
    return []


@pytest.fixture
def overrides(told: list[tuple[list[str], PortOverride, str]]) -> Overrides:
    def tell(ends: Sequence[PortSide], to: PortOverride, by: str) -> None:
        told.append(([*map(str, ends)], to, by))

    return Overrides("ocs1", tell)


def test_only_new_and_removed_overrides_are_reported(
    overrides: Overrides, told: list[tuple[list[str], PortOverride, str]]
) -> None:
    overrides.note({end("10A"): DARK, end("9A"): DARK, end("1B"): NORMAL}, by="ada")
    overrides.note({end("9A"): DARK, end("1B"): NORMAL}, by="ada")  # no reading of 10A
    overrides.note({end("9A"): NORMAL, end("1B"): DARK}, by="somebody else")
    assert told == [(["9A", "10A"], DARK, "ada"), (["1B"], DARK, "somebody else"), (["9A"], NORMAL, "somebody else")]
    assert overrides.blocked == {end("10A"), end("1B")}


def test_a_new_session_reports_present_and_released_overrides(
    overrides: Overrides, told: list[tuple[list[str], PortOverride, str]]
) -> None:
    """A unit whose shutters open at a power cut releases ends that must stay dark; it reports nothing of 3A."""
    overrides.note({end("1A"): DARK, end("2A"): DARK, end("3A"): DARK}, by="ada")
    overrides.begin({end("1A"): DARK, end("2A"): NORMAL})
    assert told[1:] == [(["1A"], DARK, "found at connecting"), (["2A"], NORMAL, "gone at connecting")]
    assert overrides.blocked == {end("1A")}


def test_a_differing_override_is_named_and_an_end_that_cannot_be_dark_is_refused(overrides: Overrides) -> None:
    found = {end("1A"): DARK, end("2A"): NORMAL}
    overrides.check([end("1A")], DARK, found)
    with pytest.raises(FailedError, match="ocs1: it answered, but 2A, 3A is not force-blocked"):
        overrides.check([end("1A"), end("2A"), end("3A")], DARK, found)
    able = [end("1A"), end("2A")]
    overrides.check_able([end("2A")], able)
    with pytest.raises(RefusedError, match="ocs1: 1B cannot be held dark; those from 1A to 2A can"):
        overrides.check_able([end("1A"), end("1B")], able)


def test_a_tuned_crossconnect_with_a_dark_end_is_blocked(overrides: Overrides) -> None:
    states = [*CrossconnectState]
    readings = tuple(reading(f"{port}A-{port}B", state) for port, state in enumerate(states, start=1))
    assert overrides.with_blocked(readings) is readings
    overrides.note({end(f"{port}B"): DARK for port in range(1, 9)}, by="ada")
    shown = {one.state: after.state for one, after in zip(readings, overrides.with_blocked(readings), strict=True)}
    assert shown == {
        **{state: state for state in CrossconnectState},
        CrossconnectState.TUNED: CrossconnectState.BLOCKED,
        CrossconnectState.UNSTATED: CrossconnectState.BLOCKED,
    }
