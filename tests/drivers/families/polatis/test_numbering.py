"""Port numbers of Polatis units: inputs are side A, outputs follow as side B."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.unit_error import UnitError, Wrong
from hwd_drivers.core.values import Crossconnect, PortSide, Side
from hwd_drivers.families.polatis.numbering import Numbering

numbering = Numbering(inputs=8, outputs=8)


@given(st.integers(1, 16))
def test_inputs_are_side_a_and_outputs_follow_as_side_b(number: int) -> None:
    end = numbering.end(number)
    assert numbering.number(end) == number
    assert end == PortSide(port=str(number if number <= 8 else number - 8), side=Side.A if number <= 8 else Side.B)


def test_a_unit_without_outputs_joins_any_to_any() -> None:
    single = Numbering(inputs=4, outputs=0)
    assert single.crossconnect(3, 1) == Crossconnect.parse("1-3")
    assert single.number(PortSide(port="4")) == 4


def test_a_pair_is_taken_in_both_orders() -> None:
    assert numbering.crossconnect(1, 10) == numbering.crossconnect(10, 1) == Crossconnect.parse("1A-2B")


@pytest.mark.parametrize(
    ("one", "other", "text"), [(1, 2, "same side"), (9, 10, "same side"), (0, 9, "port: 0"), (1, 17, "port: 17")]
)
def test_ports_that_cannot_be_joined_are_denied(one: int, other: int, text: str) -> None:
    with pytest.raises(UnitError, match=text) as denied:
        numbering.crossconnect(one, other)
    assert denied.value.wrong in (Wrong.SIDE, Wrong.PORT)


@pytest.mark.parametrize("end", ["9A", "0A", "1", "in"])
def test_an_end_that_the_unit_lacks_is_refused_before_anything_is_sent(end: str) -> None:
    with pytest.raises(ConfigError, match="8x8"):
        numbering.number(PortSide.parse(end))
