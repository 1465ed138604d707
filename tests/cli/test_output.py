"""What the command line makes of values."""

import ast
from pathlib import Path

import pytest

from hwd.cli.output import words

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (6.737999674999999, "6.738"),
        (12345.678901, "12345.679"),
        (0.004_213_7, "0.00421"),
        (3.0, "3"),
        (-0.9, "-0.9"),
        (0.0, "0"),
        (7, "7"),
        (True, "True"),
        ("ring", "ring"),
    ],
)
def test_a_figure_has_no_more_digits_than_a_reader_wants(value: object, shown: str) -> None:
    assert words({"expected_s": value}) == f"expected_s={shown}"


def test_stamps_and_what_is_empty_are_left_out() -> None:
    assert words({"at_ns": 5, "why": "", "run": "k3v9", "links": []}) == "run=k3v9"


def test_what_is_said_in_one_line_has_no_line_break_of_ours() -> None:
    """It would be shown as two characters, as that of a stranger is: `Output.block` and `remark` take lines, a log
    takes one.
    """
    one_line = {"say", "note", "debug", "info", "warning", "error", "exception", "log"}
    broken = [
        f"{path.relative_to(ROOT)}:{part.lineno}"
        for folder in ("hwd", "agents/hwd_agents", "drivers/hwd_drivers")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in one_line
        for argument in call.args
        for part in (argument.values if isinstance(argument, ast.JoinedStr) else [argument])
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and "\n" in part.value
    ]
    assert broken == []
