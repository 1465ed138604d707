"""Smallest worlds that broke a rule, and no longer do: plans as `hwd sim --shrink --json` prints them."""

from pathlib import Path

import msgspec
import pytest

from hwd.sim.execution import play
from hwd.sim.plan import WorldPlan

FOUND = msgspec.json.decode(Path(__file__).with_name("found.json").read_bytes(), type=dict[str, WorldPlan])


@pytest.mark.parametrize("found", FOUND)
def test_what_was_found_does_not_come_again(found: str) -> None:
    report = play(FOUND[found])
    assert [str(one) for one in report.violations] == [], "\n".join(report.story)
