"""The help texts, held by a golden file: what others read and write scripts from."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from hwd.cli.command_table import make_program

from ..answers import check_golden

GOLDEN = Path(__file__).with_name("help.txt")


def commands() -> Iterator[tuple[str, ...]]:
    yield ()
    group = typer.main.get_group(make_program())
    for name, command in group.commands.items():
        yield (name,)
        for inner in getattr(command, "commands", {}):
            yield (name, inner)


def test_help_is_what_it_was_and_shows_an_example(hwd) -> None:  # type: ignore[no-untyped-def]
    text = ""
    for path in commands():
        said = hwd(*path, "--help")
        assert said.status == 0
        assert f"Example: {' '.join(('hwd', *path))}" in said.out
        text += f"$ hwd {' '.join((*path, '--help'))}\n{said.out}\n"
    check_golden(GOLDEN, text)


@pytest.mark.parametrize("path", [*commands()], ids=" ".join)
def test_a_wrong_option_of_every_command_is_one_json_document(hwd, path: tuple[str, ...]) -> None:  # type: ignore[no-untyped-def]
    said = hwd(*path, "--no-such-option", "--json")
    assert said.status == 2
    error = json.loads(said.out)["error"]
    assert (error["title"], error["exit_status"]) == ("bad input", 2)
    assert error["detail"] in said.err
