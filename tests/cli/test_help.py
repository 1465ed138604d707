"""The help texts, held by a golden file: what others read and write scripts from."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from hwd.cli.commands import make_program

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


@pytest.mark.parametrize(
    "path", [path for path in commands() if path not in ((), ("twin",), ("lease",), ("driver",), ("agent",))]
)
def test_every_command_shows_an_example(hwd, path: tuple[str, ...]) -> None:  # type: ignore[no-untyped-def]
    assert f"Example: hwd {' '.join(path)}" in hwd(*path, "--help").out
