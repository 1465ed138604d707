"""Counts and their nouns: `1 switch`, `2 switches`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hwd.model.answers import DocumentList, HeldLease
from hwd.model.plural import plural

ROOT = Path(__file__).parents[2]
NOUNS: Final = frozenset(
    """
    agents alarms arrays boots branches breaches channels columns commands connections crossconnects demands
    devices dimensions documents elements entries errors events experts failures falls faults fibres files
    flaps groups hosts inputs instants interfaces items iterations jobs kills leases links matrices members
    observations operations outputs pairs parts ports problems programs ranks reconfigurations reservations
    results rounds rows samples senders servers signals stages steps strands targets timelines times tokens
    transfers tries values words
    """.split()  # noqa: SIM905 - a list of so many words is a page
)
ALSO_VERBS: Final = frozenset({"ends", "moves", "names", "retries", "runs", "switches"})
"""Counted only where the figure before them looks like one."""
MANY: Final = re.compile(r".*[A-Z]{3,}.*|.*\bseveral\b.*")
"""Limits, and what is several: never one."""


def test_one_thing_has_its_noun_in_the_singular_in_answers_too() -> None:
    assert [plural(count, "link") for count in (0, 1, 2)] == ["0 links", "1 link", "2 links"]
    assert [plural(count, "switch", many="switches") for count in (1, 2)] == ["1 switch", "2 switches"]
    lease = HeldLease(lease="k3v9", holder="ada", ports=["ocs1.1"], expires_in_s=60.0)
    assert str(lease) == "lease k3v9 of ada on 1 port, 60 s left"
    assert str(DocumentList(last="b.1", missed=0, sent=[])) == "0 documents until b.1"


def unpaired(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """F-strings that put a number before a plural, other than by `plural`: the line, and the text."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        for at, (figure, text) in enumerate(zip(node.values, node.values[1:], strict=False)):
            if not (isinstance(figure, ast.FormattedValue) and isinstance(text, ast.Constant)):
                continue
            found = re.match(r" (?:(?:more|other|new|such) )*([a-z-]+s)\b(?!=)(.*)", str(text.value), re.DOTALL)
            value = ast.unparse(figure.value)
            before = node.values[at - 1] if at > 1 else None
            is_total = isinstance(before, ast.Constant) and before.value in (
                " of ",
                " x ",
            )  # 1 of 1 switches, 1 x 1 hosts
            if (
                found is None
                or figure.format_spec
                or MANY.fullmatch(value)
                or is_total
                or "over the " in found[2]
                or "plural(" in value
            ):
                continue
            if found[1] in NOUNS or (found[1] in ALSO_VERBS and re.match(r"(len|sum)\(|count$|more$", value)):
                yield figure.lineno, f"{{{value}}}{text.value!s}"


def test_no_text_of_ours_says_one_of_a_plural() -> None:
    text = 'f"{len(found)} switches"; f"{a} of {b} hosts"; f"{count} links"; f"{who} runs"; f"{plural(n, \'link\')} up"'
    assert [words for _, words in unpaired(ast.parse(text))] == ["{len(found)} switches", "{count} links"]
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted((ROOT / "hwd").rglob("*.py"))
        if path.relative_to(ROOT).parts[1] not in ("sim", "testing")  # told to us alone
        for line, text in unpaired(ast.parse(path.read_text()))
    ]
    assert found == [], "write {plural(count, 'noun')}"


def test_no_page_and_no_golden_text_says_one_of_a_plural() -> None:
    nouns = "|".join(sorted(NOUNS | ALSO_VERBS))
    wrong = re.compile(rf"(?<![\d.,x])(?<!of )\b1 ({nouns})\b(?! of)")
    texts = [
        path for folder in ("docs", "tests") for end in ("md", "txt") for path in (ROOT / folder).rglob(f"*.{end}")
    ]
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in texts
        for line in path.read_text().splitlines()
        if wrong.search(line)
    ]
    assert found == []
