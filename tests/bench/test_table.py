import json
from pathlib import Path

import pytest

from bench.__main__ import MEASURES, README, RESULTS
from bench.measure import Bar
from bench.table import BEGIN, END, keep, markdown, result, table


def bar(name: str, *, value: float = 1.0, limit: float | None = None, at_least: bool = False) -> Bar:
    return Bar(name=name, value=value, limit=limit, unit="x", spread="quartiles 1-2", n=3, at_least=at_least)


@pytest.mark.parametrize(
    ("value", "limit", "at_least", "met"),
    [(1.0, None, False, True), (3.1, 3.0, False, False), (2.9, 3.0, False, True), (0.7, 0.8, True, False)],
)
def test_bar_is_met_on_its_own_side_of_the_limit(value: float, limit: float | None, at_least: bool, met: bool) -> None:
    assert bar("a", value=value, limit=limit, at_least=at_least).met is met


def test_table_says_what_is_not_met_and_on_which_machine() -> None:
    said = table({"apply": result([bar("an apply", value=3.1, limit=3.0)], "2 cores, load 0.1")})
    assert "an apply  3.10x  <= 3.00x  NO" in said
    assert said.endswith("apply: on 2 cores, load 0.1")


def test_measure_that_is_taken_again_replaces_its_own_lines_alone(tmp_path: Path) -> None:
    kept, readme = tmp_path / "results.json", tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\n{END}\nafter\n")
    keep(kept, readme, {"b": result([bar("two")], "idle"), "a": result([bar("one")], "idle")}, ["a", "b"])
    keep(kept, readme, {"b": result([bar("two", value=7.0)], "busy")}, ["a", "b"])
    lines = readme.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert [line for line in lines if "x |" in line] == [
        "| one | 1.00x |  |  | 3 | quartiles 1-2 |",
        "| two | 7.00x |  |  | 3 | quartiles 1-2 |",
    ]
    assert "a: on idle  " in lines
    assert "b: on busy  " in lines


def test_readme_without_a_place_for_the_results_is_said_to_have_none(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("nothing\n")
    with pytest.raises(ValueError, match="no place for the results"):
        keep(tmp_path / "results.json", readme, {}, [])


def test_readme_of_the_bench_has_the_results_of_the_last_run_of_every_measure() -> None:
    results = json.loads(RESULTS.read_text())
    assert list(results) == list(MEASURES)
    assert f"{BEGIN}\n{markdown(results)}\n{END}" in README.read_text()
