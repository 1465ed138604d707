"""Golden files: a whole text beside its test, or answers, each input (lines with `> `) above all that is said of it."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

Answer = Callable[[str], str | Iterable[object]]


def check_answers(golden: Path, answers: Mapping[str, Answer]) -> None:
    """Hold every answer of a file to what is said now: a text, or a line for each part.

    To add a case, write its input alone and run this twice; to take over what is said now, delete the old answer first.
    """
    before = golden.read_text(encoding="utf-8")
    after: list[str] = []
    kind, added = "", 0
    for block in before.rstrip("\n").split("\n\n"):
        lines = block.splitlines()
        if lines[0].startswith("== "):
            kind = lines[0].removeprefix("== ")
            after.append(block)
            continue
        asked = [line for line in lines if line == ">" or line.startswith("> ")]
        found = answers[kind]("\n".join(line[2:] for line in asked))
        said = [found] if isinstance(found, str) else [*map(str, found)]
        after.append("\n".join([*asked, *(said or ["(nothing)"])]))
        added += asked == lines
    text = "\n\n".join(after) + "\n"
    if added:
        golden.write_text(text, encoding="utf-8")
        pytest.fail(f"{golden.name}: {added} answers were missing; they are there now")
    assert text == before, f"{golden.name}: something else is said now"


def check_golden(golden: Path, text: str) -> None:
    """Hold a whole text. To take over what is said now: delete the file and run the test twice."""
    if not golden.exists():
        golden.write_text(text, encoding="utf-8")
        pytest.fail(f"{golden.name} was not there; it is now")
    assert text == golden.read_text(encoding="utf-8")
