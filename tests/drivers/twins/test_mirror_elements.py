"""Elements of the mirror model: each is in exactly one of its states, whoever asks for what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.errors import ConfigError, HwdError, RefusedError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Crossconnect, Element, PortSide
from hwd_drivers.twins.mirror import Mirror
from hwd_drivers.twins.timing import find_timing

from ..parts import capabilities, ends, ids, pairs

SELECTOR = Element(name="1", states=(pairs("1A-1B"), pairs("1A-2B"), pairs("1A-3B"), ()))
"""Can be dark."""
CROSSBAR = Element(name="2", states=(pairs("2A-4B 3A-5B"), pairs("2A-5B 3A-4B")))
"""A 2x2: never dark."""


def mirror(*, latching: bool = True) -> Mirror:
    of = capabilities(ends("1A 2A 3A 1B 2B 3B 4B 5B"), latching=latching, elements=(SELECTOR, CROSSBAR))
    return Mirror(name="sw1", capabilities=of, timing=find_timing("lowradix-8ms"), draws=Draws(7))


def test_each_element_is_in_its_first_state_at_first_and_moves_as_a_whole_while_others_stay() -> None:
    optics = mirror()
    assert optics.states == {"1": 0, "2": 0}
    assert ids(optics) == ["1A-1B tuned", "2A-4B tuned", "3A-5B tuned"]
    assert optics.set_states({"2": 1}, 0).optical_s == (0.008, 0.008)
    assert ids(optics) == ["1A-1B tuned", "2A-5B tuning", "3A-4B tuning"]
    assert optics.set_states({"1": 3, "2": 1}, 1).optical_s == (), "nothing is made"
    assert optics.states == {"1": 3, "2": 1}
    assert ids(optics, 10_000_000) == ["2A-5B tuned", "3A-4B tuned"]


def test_connecting_one_pair_of_a_state_brings_all_of_it_but_of_an_element_with_a_stuck_mirror() -> None:
    optics = mirror()
    optics.connect(pairs("3A-4B 1A-3B"), 0, move=True)
    assert optics.states == {"1": 2, "2": 1}
    optics.disconnect(pairs("1A-3B"), 1)
    assert optics.states == {"1": 3, "2": 1}
    optics.connect(pairs("1A-2B"), 2, move=False)
    assert optics.states == {"1": 1, "2": 1}
    optics = mirror()
    optics.stick([PortSide.parse("5B")])
    optics.set_states({"1": 1, "2": 1}, 0)
    assert optics.states == {"1": 1, "2": 0}
    optics.release(1)
    optics.set_states({"2": 1}, 1)
    assert optics.states == {"1": 1, "2": 1}


def test_an_impossible_state_and_pairs_of_two_states_are_refused_and_nothing_moves() -> None:
    optics = mirror()
    for wrong, says in (
        ("1A-2B 2A-4B 3A-4B", "4B is in two"),
        ("2A-5B 1A-4B", "no element of it joins 1A with 4B"),
        ("1A-2B 2A-1B", "no element of it joins 2A with 1B"),
    ):
        with pytest.raises(HwdError, match=says):
            optics.connect(pairs(wrong), 0, move=True)
    with pytest.raises(RefusedError, match="1A already carries 1A-1B"):
        optics.connect(pairs("1A-2B"), 0, move=False)
    with pytest.raises(RefusedError, match="cannot disconnect 2A-4B: element 2 is always in one of its states"):
        optics.disconnect(pairs("1A-1B 2A-4B"), 0)
    for name, state in (("3", 0), ("1", 4), ("1", -1)):
        with pytest.raises(ConfigError, match="sw1: "):
            optics.set_states({"2": 1, name: state}, 0)
    assert ids(optics) == ["1A-1B tuned", "2A-4B tuned", "3A-5B tuned"]
    halves = Element(name="h", states=(pairs("1A-1B"), pairs("2A-2B")))
    of = capabilities(ends("1A 2A 1B 2B"), elements=(halves,))
    optics = Mirror(name="sw2", capabilities=of, timing=find_timing("ideal"), draws=Draws(7))
    with pytest.raises(RefusedError, match="cannot connect 1A-1B, 2A-2B: element h has no such state"):
        optics.connect(pairs("1A-1B 2A-2B"), 0, move=True)


def test_hand_at_the_panel_changes_a_state_by_its_old_and_new_pairs() -> None:
    optics = mirror()
    optics.change(pairs("1A-1B 2A-4B 3A-5B"), pairs("1A-2B 2A-5B 3A-4B"), 0)
    assert optics.states == {"1": 1, "2": 1}
    optics.change(pairs("1A-2B"), (), 1)
    assert optics.states == {"1": 3, "2": 1}
    optics.connect(pairs("1A-3B"), 2, move=True)
    with pytest.raises(ConfigError, match="4B is in two"):
        optics.change(pairs("1A-3B"), pairs("2A-4B 3A-4B"), 3)
    assert optics.states == {"1": 2, "2": 1}, "nothing moves where not all can"


@pytest.mark.parametrize(
    ("latching", "restore", "down", "up"),
    [
        (True, False, {"1": 3, "2": 1}, {"1": 3, "2": 1}),
        (False, False, {"1": 0, "2": 0}, {"1": 0, "2": 0}),
        (False, True, {"1": 0, "2": 0}, {"1": 3, "2": 1}),
    ],
)
def test_elements_rest_in_their_first_state_without_power_unless_they_latch(
    latching: bool, restore: bool, down: dict[str, int], up: dict[str, int]
) -> None:
    optics = mirror(latching=latching)
    optics.set_states({"1": 3, "2": 1}, 0)
    optics.power_down(1)
    assert optics.states == down
    optics.set_states({"1": 2}, 1)
    assert optics.states == down, "nothing moves"
    optics.power_up(2, restore=restore)
    assert optics.states == up


everything = sorted(SELECTOR.crossconnects | CROSSBAR.crossconnects, key=Crossconnect.sort_key)
moves = st.one_of(
    st.tuples(st.sampled_from(["connect", "disconnect", "panel"]), st.lists(st.sampled_from(everything), max_size=3)),
    st.tuples(st.just("set"), st.tuples(st.sampled_from(["1", "2", "3"]), st.integers(-1, 5))),
    st.tuples(st.sampled_from(["stick", "release", "cycle"]), st.sampled_from(["1A", "5B"])),
)


@given(st.lists(moves, max_size=15), st.booleans())
def test_every_element_is_in_exactly_one_state_always(steps: list[tuple[str, object]], latching: bool) -> None:
    optics = mirror(latching=latching)
    for now_ns, (name, what) in enumerate(steps):
        try:
            match name, what:
                case "connect", list(asked):
                    optics.connect(asked, now_ns, move=True)
                case "disconnect", list(asked):
                    optics.disconnect(asked, now_ns)
                case "panel", list(asked):
                    optics.change(asked, asked[:1], now_ns)
                case "set", (str(element), int(state)):
                    optics.set_states({element: state}, now_ns)
                case "stick", str(end):
                    optics.stick([PortSide.parse(end)])
                case "release", _:
                    optics.release(now_ns)
                case "cycle", _:
                    optics.power_up(now_ns, restore=True)
        except (ConfigError, RefusedError):
            pass
        there = set(optics.crossconnects())
        states = optics.states
        for part in (SELECTOR, CROSSBAR):
            assert there & part.crossconnects == set(part.states[states[part.name]])
