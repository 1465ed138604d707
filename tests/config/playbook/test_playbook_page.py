"""The page of the playbook language against the code that it tells of."""

import re
from pathlib import Path

from hwd.config.playbook import effort, expression, leaf_steps, parameters, playbook, playbook_schema, steps_reader
from hwd.config.playbook.measurement_names import MEASUREMENTS
from hwd.config.playbook.playbook import load_playbook_text

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "playbooks.md").read_text()


def row(of: str) -> str:
    return next(line for line in PAGE.splitlines() if line.startswith(f"| {of}"))


def test_every_kind_of_step_and_every_name_of_a_figure_is_told_and_the_example_is_a_playbook() -> None:
    assert [kind for kind in steps_reader.STEP_KINDS if f"| `{kind}: " not in PAGE] == []
    for name in MEASUREMENTS:
        scope, what, *figure = name.split(".")
        if figure:
            assert f"`{scope}.<stage>.<figure>`" in PAGE
            assert f"`{what}`" in row("`last.<stage>.<figure>`")
            assert f"`{figure[0]}`" in row("`last.<stage>.<figure>`")
        else:
            assert f"`{name}`" in PAGE
    [example] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert load_playbook_text(example, file="page.yaml").total_steps == 1 + 3 * (3 * 5 + 2)


LIMITS: dict[str, list[float]] = {
    "steps of a run": [playbook.STEPS_MAX],
    "steps that sweeps": [effort.WRITTEN_MAX],
    "characters that sweeps": [effort.CHARACTERS_MAX, effort.VALUE_CHARACTERS, effort.HOLE_CHARACTERS],
    "characters of a text": [expression.TEXT_LENGTH_MAX],
    "`times` of a repeat": [playbook_schema.REPEATS_MAX],
    "values of a variable": [playbook_schema.SWEPT_MAX],
    "branches of": [playbook_schema.BRANCHES_MAX],
    "files within files": [steps_reader.INCLUDE_DEPTH_MAX],
    "time of a run": [playbook_schema.RUN_MAX_S / 86_400],
    "`wait`": [playbook_schema.WAIT_MAX_S / 3600],
}


def test_limits_are_those_of_the_code() -> None:
    assert {of: [int(text) for text in re.findall(r"\d+", row(of).split(" | ")[1])] for of in LIMITS} == LIMITS
    assert f"At most {expression.LENGTH_MAX} characters, {expression.DEPTH_MAX} levels deep" in PAGE
    assert expression.MAGNITUDE_MAX == 1e12
    assert parameters.LIST_MAX == playbook_schema.SWEPT_MAX
    assert leaf_steps.NOTE_LENGTH_MAX == 2000
