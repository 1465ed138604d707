"""Which line does what: one drive a part, no line twice, as many parts as elements."""

import pytest
from pydantic import ValidationError

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.families.ttl.models import driver
from hwd_drivers.families.ttl.wiring import Part, Wiring

ONE = driver.capabilities("latching-1x2", None)


def test_without_wiring_each_part_has_four_lines() -> None:
    latching = Wiring().parts_of("sel0", driver.capabilities("latching-2x2", "2"))
    assert [(part.pulse, part.contacts) for part in latching] == [((0, 1), (2, 3)), ((4, 5), (6, 7))]
    held = Wiring().parts_of("sel0", driver.capabilities("2x2", "2"))
    assert [(part.level, part.contacts) for part in held] == [(0, (2, 3)), (4, (6, 7))]


@pytest.mark.parametrize("part", [{}, {"level": 1, "pulse": [2, 3]}, {"contacts": [1, 2]}])
def test_a_part_has_exactly_one_drive(part: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="exactly one of level and pulse"):
        Part.model_validate(part)


def test_a_line_that_is_used_twice_is_named() -> None:
    wiring = Wiring(parts=(Part(pulse=(5, 6), contacts=(6, 7)),))
    with pytest.raises(ConfigError, match=r"sel0: options\.parts: line 6 is used twice"):
        wiring.parts_of("sel0", ONE)


def test_as_many_parts_as_elements() -> None:
    wiring = Wiring(parts=(Part(level=1), Part(level=2)))
    with pytest.raises(ConfigError, match="2 parts, the switch has 1 elements"):
        wiring.parts_of("sel0", ONE)


def test_an_active_low_line_without_a_part_is_named() -> None:
    with pytest.raises(ConfigError, match="active_low: line 9 is of no part"):
        Wiring(active_low=(9,)).parts_of("sel0", ONE)


@pytest.mark.parametrize("size", ["0", "65", "1x2", "x"])
def test_a_size_is_a_number_of_parts(size: str) -> None:
    with pytest.raises(ConfigError, match=r"size .*64"):
        driver.capabilities("1x2", size)


def test_ends_are_those_of_all_low_radix_switches() -> None:
    (element,) = ONE.elements
    assert [*map(str, ONE.ends)] == ["in", "1", "2"]
    assert [[*map(str, state)] for state in element.states] == [["in-1"], ["in-2"]]
    two = driver.capabilities("2x2", "2")
    assert {str(one) for one in two.elements[1].crossconnects} == {"3A-3B", "4A-4B", "3A-4B", "4A-3B"}
    assert Crossconnect.parse("2A-3B") in driver.capabilities("1x2", "2").elements[1].crossconnects
