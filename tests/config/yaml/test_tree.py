from pathlib import Path

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


def test_lines_of_keys_and_items_are_known_and_a_file_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    reading = parse_tree(b"a: 1\nb:\n  c:\n    - x\n    - y: 2\n", file="f.yaml")
    assert reading.root is not None
    assert reading.root.line_of(("b", "c", 1, "y")) == 5
    assert reading.root.line_of(("b", "c")) == 3
    assert reading.root.line_of(("b", "missing")) == 2
    (found,) = read_tree(tmp_path / "none.yaml").problems
    assert found.text == "cannot be read: No such file or directory"
    (found,) = read_tree(tmp_path).problems
    assert found.text == "cannot be read: Is a directory"


def test_what_is_wrong_is_told_with_its_line_and_scalars_follow_the_core_schema() -> None:
    golden = Path(__file__).with_name("refusals.txt")
    values = {"value of a core-schema document": lambda text: repr(plain(f"{text}\n"))}
    check_answers(golden, {"YAML": lambda text: problem(f"{text}\n").removeprefix("f.yaml:"), **values})
    assert plain(f"a: {'9' * 5000}") == {"a": "9" * 5000}
    assert problem("") == "f.yaml:1: the file is empty"
    assert problem(b"a: \xff\n") == "f.yaml:1: not UTF-8: invalid start byte"
    text = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    assert "over 200000 values after aliases are expanded" in problem(text)
    assert problem("a: " + "[" * 5000).endswith(f"nested over {DEPTH_MAX} levels")
    assert f"over the {FILE_BYTES_MAX}" in problem(b"#" * (FILE_BYTES_MAX + 1))


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
