"""The pages on reports and exports against what they list of the code. Their commands run in test_blocks.py."""

import re
from pathlib import Path

from hwd.report.export import COLUMNS
from hwd.timeline.difference import RECONFIGURATIONS_NEEDED

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to"


def test_columns_are_listed_with_what_they_mean() -> None:
    listed = re.findall(
        r"^\| `(\w+)` \| (\w+)(, may be empty)? \| (.*) \|$", (HOW_TO / "export.md").read_text(), re.MULTILINE
    )
    assert listed == [
        (column.name, column.type.__name__, ", may be empty" if column.optional else "", column.means)
        for column in COLUMNS
    ]


def test_limits_are_those_of_the_code() -> None:
    assert f"None below {RECONFIGURATIONS_NEEDED} reconfigurations" in (HOW_TO / "make-a-report.md").read_text()
