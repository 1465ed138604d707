"""The program by itself: commands, help texts, options that are durations, completion, and what it imports."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main

from docs.generate.command_line import leaves
from hwd.cli.command_table import MODULES, make_program
from hwd_drivers.core.errors import ConfigError

from ..answers import check_golden

GOLDEN = Path(__file__).with_name("help.txt")
WORDS = ("--for", "--in", "--heartbeat", "--ready-within", "--confirm-within", "--drain-within")
SLOW = {
    "aiomqtt",
    "amqtt",
    "fastapi",
    "hwd.model.kinds",
    "hwd.model.testbed",
    "matplotlib",
    "numpy",
    "perfetto",
    "prometheus_client",
    "pyarrow",
    "pyroute2",
    "reportlab",
    "sqlalchemy",
    "uvicorn",
    "yaml",
}
"""Each takes from 10 ms to half a second to import."""
STATUS = """
import json, sys
from hwd.cli import main
sys.argv = ["hwd", "status", "--url", "http://127.0.0.1:1"]
try:
    main()
except SystemExit as end:
    print(json.dumps({"status": end.code, "modules": list(sys.modules)}))
"""


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


def durations() -> list[tuple[str, Any]]:
    """Options of all commands whose value is a length of time: by their names, or since their number is in seconds."""
    return [
        (f"{name} {option.opts[0]}", option)
        for name, command in leaves()
        for option in command.params
        if option.param_type_name == "option"
        and (option.opts[0] in WORDS or option.opts[0].endswith("-within") or option.metavar in ("S", "DURATION"))
    ]


def test_the_options_that_are_durations_are_found() -> None:
    assert {option.opts[0] for _, option in durations()} == set(WORDS)


@pytest.mark.parametrize(("name", "option"), durations(), ids=[name for name, _ in durations()])
def test_option_takes_seconds_and_words_and_says_so(name: str, option: Any) -> None:
    convert = option.type.convert
    assert [convert(text, option, None) for text in ("300", "300s", "5m", "0.5h")] == [300.0, 300.0, 300.0, 1800.0]
    assert option.metavar == "DURATION"
    assert "Seconds, or 90s, 15m, 1.5h." in option.help
    for text in ("5x", "", "-1"):
        with pytest.raises(ConfigError, match=f"^{option.opts[0]} {text}: "):
            convert(text, option, None)


def completed(hwd, monkeypatch: pytest.MonkeyPatch, line: str) -> list[str]:  # type: ignore[no-untyped-def]
    """What bash is offered at the end of a line."""
    monkeypatch.setenv("_HWD_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    said = hwd()
    monkeypatch.delenv("_HWD_COMPLETE")
    assert said.err == ""
    return list(filter(None, said.out.split("\n")))


def test_names_that_no_daemon_needs_to_say_are_offered(hwd, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    assert completed(hwd, monkeypatch, "hwd plan ri") == ["ring"]
    assert completed(hwd, monkeypatch, "hwd run smo") == ["smoke"]
    assert "status" in completed(hwd, monkeypatch, "hwd sta")


def test_nothing_is_offered_and_nothing_said_where_the_daemon_is_away(hwd, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("HWD_URL", "http://127.0.0.1:1")
    assert completed(hwd, monkeypatch, "hwd show ") == []


def names_of(program: typer.Typer) -> list[str]:
    return list(getattr(typer.main.get_group(program), "commands"))  # noqa: B009 - typer's group is not typed as one


def test_whole_program_has_the_commands_of_all_modules() -> None:
    assert sorted(names_of(make_program())) == sorted(command for named in MODULES.values() for command in named)


@pytest.mark.parametrize("module", MODULES)
def test_module_registers_the_commands_that_it_is_imported_for(module: str) -> None:
    program = typer.Typer()
    program.add_typer(import_module(f"hwd.cli.commands.{module}").commands)
    assert sorted(names_of(program)) == sorted(MODULES[module])


@pytest.mark.parametrize("command", [None, "no-such-command", "--help"])
def test_what_is_no_command_meets_the_whole_program(command: str | None) -> None:
    assert names_of(make_program(command)) == names_of(make_program())


def test_status_imports_nothing_that_is_slow_and_that_it_does_not_need() -> None:
    done = subprocess.run([sys.executable, "-c", STATUS], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert said["status"] == 4, done.stderr
    assert "httpx2" in said["modules"]
    assert SLOW.isdisjoint(said["modules"]), SLOW & set(said["modules"])
