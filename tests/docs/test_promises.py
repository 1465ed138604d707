"""Each promise of the pages on safety and security has a test that is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "explanations"
WARNINGS = {"Browsers keep cookies by host and not by port."}
"""In bold, and no promise."""


def plain(text: str) -> str:
    return " ".join(text.replace("**", "").split())


def promised(page: str) -> tuple[str, set[str]]:
    """The part of a page that promises, and what stands in bold there."""
    text = (PAGES / page).read_text(encoding="utf-8")
    part = re.split(r"^## What is not", text, flags=re.MULTILINE)[0]
    return plain(part), {plain(one) for one in re.findall(r"\*\*(.+?)\*\*", part, re.DOTALL)} - WARNINGS


def rows(heading: str) -> dict[str, list[str]]:
    """Each promise of the table under a heading, with its tests."""
    text = (PAGES / "promises.md").read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    return {plain(promise): re.findall(r"`(tests/[^`]+(?:` \(`[\w-]+)?)`", tests) for promise, tests in cells}


def test_each_promise_of_safety_and_security_has_its_test() -> None:
    problems = []
    for heading in ("Safety", "Security"):
        said, bold = promised(f"{heading.lower()}.md")
        table = rows(heading)
        problems += [f"{heading} promises without a row: {one}" for one in bold if not any(one in row for row in table)]
        problems += [f"not in the words of {heading.lower()}.md: {row}" for row in table if row not in said]
        for row, tests in table.items():
            there = [one for one in tests if is_there(one)]
            problems += [f"no such test: {one} (of: {row})" for one in tests if one not in there]
            problems += [f"without a test: {row}"] if not there else []
    assert not problems, "\n".join(sorted(problems))


def is_there(test: str) -> bool:
    """Also the daemon with a defect, by the rule that it breaks."""
    test, _, rule = test.partition("` (`")
    file, _, name = test.partition("::")
    there = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).is_file() else ""
    is_defined = re.search(rf"^ *(?:async )?def {name}\(", there, re.MULTILINE) is not None
    return is_defined and (not rule or f'("{rule}", ' in there)
