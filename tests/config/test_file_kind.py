"""A file of another kind than the reader takes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hwd.config.playbook.playbook import load_playbook
from hwd.config.scenario import load_scenario
from hwd.config.testbed.testbed import load_testbed
from hwd.config.testbed.topology_file import load_topology
from hwd_drivers.core.errors import ConfigError

LOADS: dict[str, Callable[[Path], Any]] = {
    "testbed": lambda path: load_testbed(path, {}),
    "playbook": load_playbook,
    "topology": load_topology,
    "scenario": load_scenario,
}
COMMANDS = {
    "testbed": "serve it with `hwd serve",
    "playbook": "run it with `hwd run",
    "topology": "apply it with `hwd apply",
    "scenario": "play it with `hwd twin up TESTBED --scenario",
}


@pytest.mark.parametrize("kind", LOADS)
@pytest.mark.parametrize("other", LOADS)
def test_another_kind_is_one_problem_with_the_command_for_it(tmp_path: Path, kind: str, other: str) -> None:
    path = tmp_path / "my file.yaml"
    path.write_text(f"# made here\n{other}: x\nnonsense: 1\n")
    with pytest.raises(ConfigError) as refused:
        LOADS[kind](path).require()
    if kind == other:
        assert "nonsense: unknown key" in str(refused.value)
    else:
        assert str(refused.value) == f"{path}:2: is a {other}, not a {kind}: {COMMANDS[other]} '{path}'`"


def test_a_key_of_another_kind_in_a_file_of_the_right_kind_is_an_unknown_key(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("scenario: x\nplaybook: p\nsteps: [dwell: {for_s: 1}]\n")
    with pytest.raises(ConfigError, match="scenario: unknown key"):
        load_playbook(path).require()
