"""The generated parts of docs/ are what the code says now."""

import pytest

from docs.generate.__main__ import ROOT, parts, stale
from docs.generate.pages import filled, table


def test_no_page_is_stale() -> None:
    """`make docs` fills them anew."""
    assert [str(page.relative_to(ROOT)) for page in stale()] == []


def test_every_part_stands_on_a_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*/*.md"))
    assert [name for name in parts() if f"<!-- generated: {name} -->" not in pages] == []


def test_a_part_is_filled_anew_and_the_rest_left_alone() -> None:
    page = "before\n<!-- generated: one -->\nold\n<!-- end of one -->\nbehind\n"
    fresh = filled(page, {"one": lambda: "new"})
    assert fresh == "before\n<!-- generated: one -->\n\nnew\n\n<!-- end of one -->\nbehind\n"
    assert filled(fresh, {"one": lambda: "new"}) == fresh


@pytest.mark.parametrize(
    ("page", "why"),
    [
        ("<!-- generated: two -->\n<!-- end of two -->\n", "there is no part 'two'; there are one"),
        ("<!-- generated: one -->\n", "has no partner"),
        ("<!-- generated: one -->\n<!-- end of two -->\n", "has no partner"),
    ],
)
def test_a_mark_that_means_nothing_is_refused(page: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        filled(page, {"one": lambda: "new"})


def test_a_cell_cannot_break_its_table() -> None:
    assert table(("a", "b"), [("x|y\nz", "")]) == "| a | b |\n| --- | --- |\n| x\\|y z | |\n"
