"""What a plan says of a composite: elements that move, and those that go dark."""

from typing import Any

import msgspec
import pytest

from hwd.cli.commands.apply import composite_lines
from hwd.model.documents.plans import PlanComposite

PLANNED: dict[str, Any] = {
    "composite": "sel",
    "remove": ["1A-1B"],
    "add": [],
    "keep": [],
    "through": {},
    "moves": 0,
    "moves_at_least": 0,
    "darkened": 0,
}


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({}, "0 element moves"),
        ({"darkened": 5}, "5 elements go dark"),
        ({"darkened": 1}, "1 element goes dark"),
        ({"moves": 2, "moves_at_least": 1, "darkened": 1}, "2 element moves, at least 1 must, 1 element goes dark"),
        ({"moves": 1, "moves_at_least": 1}, "1 element move"),
    ],
    ids=["nothing", "five", "one", "both", "a move"],
)
def test_elements_that_go_dark_are_no_element_that_does_nothing(counts: dict[str, int], said: str) -> None:
    assert composite_lines(msgspec.convert({**PLANNED, **counts}, PlanComposite)) == [f"  sel: -1A-1B (0 kept), {said}"]
