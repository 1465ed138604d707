"""What of an output must be the same, and what may differ: what a page shows and, below `---`, what was seen."""

from pathlib import Path

from docs.blocks.expected import difference

from ..answers import check_answers


def found(text: str) -> list[str]:
    shown, _, seen = text.partition("\n---")
    return [said] if (said := difference(shown, seen)) else []


def differs(text: str) -> str:
    [said] = found(text)
    return said


def same(text: str) -> list[str]:
    assert found(text) == []
    return []


def test_each_output_differs_as_the_golden_file_says() -> None:
    check_answers(Path(__file__).with_name("expected.txt"), {"the same": same, "not the same": differs})
