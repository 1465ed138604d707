"""The help texts, held by a golden file: what others read and write scripts from."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from hwd.cli.command_table import make_program

GOLDEN = Path(__file__).with_name("help.txt")


def commands() -> Iterator[tuple[str, ...]]:
    yield ()
    group = typer.main.get_group(make_program())
    for name, command in group.commands.items():
        yield (name,)
        for inner in getattr(command, "commands", {}):
            yield (name, inner)


def test_help_is_what_it_was(hwd, request: pytest.FixtureRequest) -> None:  # type: ignore[no-untyped-def]
    """To take over what is said now: delete the file and run this twice."""
    text = ""
    for path in commands():
        said = hwd(*path, "--help")
        assert said.status == 0
        text += f"$ hwd {' '.join((*path, '--help'))}\n{said.out}\n"
    if not GOLDEN.exists():
        GOLDEN.write_text(text)
        pytest.fail(f"{GOLDEN.name} was not there; it is now")
    assert text == GOLDEN.read_text()


@pytest.mark.parametrize("path", [*commands()], ids=" ".join)
def test_every_command_shows_an_example(hwd, path: tuple[str, ...]) -> None:  # type: ignore[no-untyped-def]
    assert f"Example: {' '.join(('hwd', *path))}" in hwd(*path, "--help").out


@pytest.mark.parametrize("path", [*commands()], ids=" ".join)
def test_a_wrong_option_of_every_command_is_one_json_document(hwd, path: tuple[str, ...]) -> None:  # type: ignore[no-untyped-def]
    said = hwd(*path, "--no-such-option", "--json")
    assert said.status == 2
    error = json.loads(said.out)["error"]
    assert (error["title"], error["exit_status"]) == ("bad input", 2)
    assert error["detail"] in said.err


@pytest.mark.parametrize(
    ("words", "detail"),
    [
        (("show",), "Missing argument 'RUN'"),
        (("plan", "ring", "--mode", "sofe"), "'sofe' is not one of"),
        (("apply", "ring", "--ready-within", "soon"), "--ready-within soon: write a duration as 90 (seconds)"),
        (("apply", "ring", "--ready-within", "-1"), "--ready-within -1: not between 0.001 s and 86400 s"),
        (("nonsense",), "No such command 'nonsense'"),
        (("twin", "nonsense"), "No such command 'nonsense'"),
    ],
)
def test_a_wrong_argument_is_one_json_document(hwd, words: tuple[str, ...], detail: str) -> None:  # type: ignore[no-untyped-def]
    said = hwd(*words, "--json")
    assert (said.status, detail in json.loads(said.out)["error"]["detail"], detail in said.err) == (2, True, True)


def test_json_behind_two_dashes_is_somebody_elses(hwd) -> None:  # type: ignore[no-untyped-def]
    said = hwd("twin", "machine", "--no-such-option=1", "none.yaml", "--", "qemu", "--json")
    assert (said.status, said.out) == (2, "")
