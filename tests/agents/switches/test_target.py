"""From what a request writes to moves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.switches.target import moves_to, parse_target
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.values import Capabilities, Crossconnect
from hwd_drivers.devices import registry
from hwd_drivers.devices.elements import Elements

SELECTOR = registry.find("osw").capabilities("osw", "1x4")
ARRAY = registry.find("osw").capabilities("osw", "2x4")
CROSS = registry.find("thorlabs-osw").capabilities("osw22", None)
MATRIX = registry.find("polatis-tl1").capabilities("polatis-6000", "8x8")


def of(*texts: str) -> list[Crossconnect]:
    return [Crossconnect.parse(text) for text in texts]


@pytest.mark.parametrize(
    ("capabilities", "before", "asked", "remove", "add"),
    [
        (SELECTOR, ["in-1"], "in-2", ["in-1"], ["in-2"]),
        (SELECTOR, ["in-2"], "in-2", [], []),
        (SELECTOR, [], "in-3", [], ["in-3"]),
        (SELECTOR, ["in-1"], "dark", ["in-1"], []),
        (ARRAY, ["1A-1B", "2A-5B"], "1A-3B", ["1A-1B"], ["1A-3B"]),
        (ARRAY, ["1A-1B", "2A-5B"], "1A-3B,2A-8B", ["1A-1B", "2A-5B"], ["1A-3B", "2A-8B"]),
        (CROSS, ["1A-1B", "2A-2B"], "1A-2B", ["1A-1B", "2A-2B"], ["1A-2B", "2A-1B"]),
        (MATRIX, ["1A-1B", "2A-2B", "3A-3B"], "1A-2B", ["1A-1B", "2A-2B"], ["1A-2B"]),
        (MATRIX, ["1A-1B", "2A-2B"], "dark", ["1A-1B", "2A-2B"], []),
    ],
    ids=[
        "selector",
        "stands so",
        "from dark",
        "to dark",
        "one of two",
        "both",
        "2x2 as one",
        "matrix",
        "matrix to dark",
    ],
)
def test_what_is_in_the_way_goes_and_all_else_stays(
    capabilities: Capabilities, before: list[str], asked: str, remove: list[str], add: list[str]
) -> None:
    wanted = parse_target("sel0", asked, capabilities)
    moves = moves_to("sel0", wanted, capabilities, of(*before))
    assert [[str(one) for one in part] for part in moves] == [remove, add]


@given(st.integers(1, 4), st.integers(0, 4), st.integers(5, 8), st.integers(0, 4))
def test_every_element_is_led_to_one_of_its_states(first: int, now: int, second: int, other: int) -> None:
    before = of(*([f"1A-{now}B"] if now else []), *([f"2A-{4 + other}B"] if other else []))
    remove, add = moves_to("sel0", frozenset(of(f"1A-{first}B", f"2A-{second}B")), ARRAY, before)
    after = (set(before) - set(remove)) | set(add)
    assert after == set(of(f"1A-{first}B", f"2A-{second}B"))
    if remove or add:
        assert Elements(ARRAY).targets("sel0", remove=remove, add=add)


@pytest.mark.parametrize(
    ("capabilities", "asked", "error", "words"),
    [
        (SELECTOR, "in-9", ConfigError, "sel0: it has no 9; its ends go from in to 4"),
        (SELECTOR, "in-1,in-2", ConfigError, "in is named twice"),
        (SELECTOR, "in", ConfigError, "write it as 1A-2B"),
        (SELECTOR, "", ConfigError, "write it as 1A-2B"),
        (SELECTOR, "1-2", RefusedError, "no element of it joins 1 with 2"),
        (CROSS, "dark", RefusedError, r"element 1 cannot be dark: it is always in one of \(1A-1B, 2A-2B; "),
        (CROSS, "1A-1B,2A-1B", ConfigError, "1B is named twice"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_in_words(
    capabilities: Capabilities, asked: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        moves_to("sel0", parse_target("sel0", asked, capabilities), capabilities, ())
