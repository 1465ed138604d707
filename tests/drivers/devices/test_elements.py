"""Parts in states: numbers of states to crossconnects and back, and changes that are no state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.values import Element, PortSide
from hwd_drivers.devices.elements import Elements, selector, selectors, two_by_twos

from ..parts import capabilities, pairs


def of(ends: tuple[PortSide, ...], elements: tuple[Element, ...]) -> Elements:
    return Elements(capabilities(ends, elements=elements))


def test_two_by_twos_are_bar_first_and_then_cross() -> None:
    ends, parts = two_by_twos(2)
    assert [str(end) for end in ends] == ["1A", "2A", "3A", "4A", "1B", "2B", "3B", "4B"]
    assert [[" ".join(map(str, state)) for state in part.states] for part in parts] == [
        ["1A-1B 2A-2B", "1A-2B 2A-1B"],
        ["3A-3B 4A-4B", "3A-4B 4A-3B"],
    ]


@given(st.lists(st.integers(0, 6), min_size=3, max_size=3), st.lists(st.integers(0, 6), min_size=3, max_size=3))
def test_a_change_from_any_states_to_any_others_names_those_that_differ(before: list[int], after: list[int]) -> None:
    elements = of(*selectors(3, 6, dark=True))
    old, new = (frozenset(elements.crossconnects(states)) for states in (before, after))
    targets = elements.targets("sw1", remove=sorted(old - new, key=str), add=sorted(new - old, key=str))
    assert targets == {place: state for place, state in enumerate(after) if state != before[place]}


def test_what_is_no_state_of_an_element_is_refused_with_the_states_that_there_are() -> None:
    elements = of(*two_by_twos(1))
    with pytest.raises(RefusedError, match=r"sw1: element 1 cannot be 1A-2B: .*\(1A-1B, 2A-2B; 1A-2B, 2A-1B\)"):
        elements.targets("sw1", remove=pairs("1A-1B"), add=pairs("1A-2B"))
    ends, parts = selector(4)
    with pytest.raises(RefusedError, match="cannot be dark"):
        of(ends, parts).targets("sw1", remove=pairs("in-1"), add=())
    ends, parts = selector(4, dark=True)
    assert of(ends, parts).targets("sw1", remove=pairs("in-1"), add=()) == {0: 4}
    ends, parts = selector(4)
    with pytest.raises(RefusedError, match="element 1 cannot be in-1, in-2"):
        of(ends, parts).targets("sw1", remove=(), add=pairs("in-1 in-2"))
    with pytest.raises(RefusedError, match="sw1: 1A-4B: no element of this switch joins 1A with 4B"):
        of(*selectors(2, 3)).targets("sw1", remove=(), add=pairs("1A-4B"))
