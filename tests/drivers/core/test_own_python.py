"""No start of Python of ours takes its modules from the folder that a user happens to be in."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hwd_drivers.core.own_python import leave_working_folder, own_python

SHADOWS = (
    "statistics.py",
    "typer.py",
    "yaml.py",
    "hwd/__init__.py",
    "hwd_agents/__init__.py",
    "hwd_drivers/__init__.py",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a user, with modules of the names of others'."""
    for name in SHADOWS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"raise SystemExit('{name} of the working folder was imported')\n")
    return tmp_path


def run(command: Sequence[str], folder: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    return subprocess.run(
        command, cwd=folder, env={**environment, **more}, capture_output=True, text=True, timeout=30, check=False
    )


@pytest.mark.parametrize("arguments", [("-m", "hwd.cli", "schema", "testbed"), ("-c", "import statistics, hwd.cli")])
def test_our_own_interpreter_imports_nothing_from_the_working_folder(folder: Path, arguments: tuple[str, ...]) -> None:
    done = run(own_python(*arguments), folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "of the working folder was imported" in run([sys.executable, *arguments], folder).stderr


@pytest.mark.parametrize("command", [("hwd", "schema", "testbed"), ("hwd-agent", "--config", "/dev/null")])
def test_installed_commands_import_nothing_from_the_working_folder_by_an_empty_part_of_the_search_path(
    folder: Path, command: tuple[str, ...]
) -> None:
    installed = str(Path(sys.executable).with_name(command[0]))
    for name in ("hwd", "hwd_agents", "hwd_drivers"):  # they come before any line of ours
        (folder / name / "__init__.py").unlink()
        (folder / name).rmdir()
    done = run([installed, *command[1:]], folder, PYTHONPATH=f"{os.pathsep}/no/such/folder")
    assert "of the working folder was imported" not in done.stdout + done.stderr
    assert done.returncode == (0 if command[0] == "hwd" else 2), done.stderr


def test_search_path_loses_its_empty_parts_for_children_and_keeps_what_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here, library = os.getcwd(), os.path.dirname(os.__file__)
    for given, kept in ((":/srv/lib", "/srv/lib"), ("/srv/lib::", "/srv/lib"), (":", None), ("/a:/b", "/a:/b")):
        monkeypatch.setattr(sys, "path", ["", here, "/srv/lib", library, here])
        environment = {"PYTHONPATH": given}
        leave_working_folder(environment)
        assert environment.get("PYTHONPATH") == kept
        assert sys.path == ["/srv/lib", library, here]
    for named in (here, "."):
        monkeypatch.setattr(sys, "path", [here, library])
        leave_working_folder({"PYTHONPATH": named})
        assert sys.path == [here, library]
