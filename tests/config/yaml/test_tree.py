from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.config.yaml.tree import DEPTH_MAX, FILE_BYTES_MAX, parse_tree, read_tree

from ...answers import check_answers


def plain(text: str) -> object:
    reading = parse_tree(text.encode(), file="f.yaml")
    assert reading.problems == []
    assert reading.root is not None
    return reading.root.plain()


def problem(text: str | bytes) -> str:
    reading = parse_tree(text.encode() if isinstance(text, str) else text, file="f.yaml")
    (found,) = reading.problems
    return str(found)


def test_lines_of_keys_and_items_are_known() -> None:
    reading = parse_tree(b"a: 1\nb:\n  c:\n    - x\n    - y: 2\n", file="f.yaml")
    assert reading.root is not None
    assert reading.root.line_of(("b", "c", 1, "y")) == 5
    assert reading.root.line_of(("b", "c")) == 3
    assert reading.root.line_of(("b", "missing")) == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("2027-01-10", "2027-01-10"),
        ("010", 10),
        ("0x1F", 31),
        ("true", True),
        ("~", None),
        ("-4.3", -4.3),
        ("1e3", 1000.0),
        (".inf", ".inf"),
        ("1e999", "1e999"),
        ("'12'", "12"),
        ("!!str 12", "12"),
        ("0000:41:00.0", "0000:41:00.0"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_scalars_follow_the_core_schema(text: str, value: object) -> None:
    assert plain(f"a: {text}") == {"a": value}


def test_alias_is_followed() -> None:
    assert plain("a: &m {x: 1}\nb: *m\n") == {"a": {"x": 1}, "b": {"x": 1}}


def test_what_is_wrong_is_told_with_its_line() -> None:
    golden = Path(__file__).with_name("refusals.txt")
    check_answers(golden, {"YAML": lambda text: problem(f"{text}\n").removeprefix("f.yaml:")})
    assert problem("") == "f.yaml:1: the file is empty"
    assert problem(b"a: \xff\n") == "f.yaml:1: not UTF-8: invalid start byte"


def test_chain_of_aliases_ends_at_the_limit() -> None:
    text = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    assert "over 200000 values after aliases are expanded" in problem(text)


def test_deep_nesting_ends_at_the_limit() -> None:
    assert problem("a: " + "[" * 5000).endswith(f"nested over {DEPTH_MAX} levels")


def test_huge_file_is_not_parsed() -> None:
    assert f"over the {FILE_BYTES_MAX}" in problem(b"#" * (FILE_BYTES_MAX + 1))


def test_file_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    (found,) = read_tree(tmp_path / "none.yaml").problems
    assert found.text == "cannot be read: No such file or directory"
    (found,) = read_tree(tmp_path).problems
    assert found.text == "cannot be read: Is a directory"


@given(st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
def test_arbitrary_bytes_give_a_tree_or_problems(data: bytes) -> None:
    reading = parse_tree(data, file="f.yaml")
    assert (reading.root is None) <= bool(reading.problems)


@given(st.text(alphabet="ab:-[]{}&*!|>'\"#,? \n\t0.~%@`\\", max_size=80))
def test_arbitrary_marks_of_yaml_give_a_tree_or_problems(text: str) -> None:
    reading = parse_tree(text.encode(), file="f.yaml")
    assert (reading.root is None) <= bool(reading.problems)
    if reading.root:
        reading.root.plain()
