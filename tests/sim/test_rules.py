"""The page about simulated worlds names each rule."""

from pathlib import Path

from hwd.sim.rules import RULES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanations" / "simulation.md"


def test_the_page_has_every_rule_in_its_words() -> None:
    _, _, rules = PAGE.read_text().partition("## The rules\n")
    rows = [line for line in rules.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    assert rows == [f"| `{name}` | {text} |" for name, text in RULES.items()]
