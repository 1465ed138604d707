import json
import subprocess
import sys
from importlib import import_module

import pytest
import typer

from hwd.cli.command_table import MODULES, make_program

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


def commands(program: typer.Typer) -> list[str]:
    return list(getattr(typer.main.get_group(program), "commands"))  # noqa: B009 - typer's group is not typed as one


def test_whole_program_has_the_commands_of_all_modules() -> None:
    assert sorted(commands(make_program())) == sorted(command for named in MODULES.values() for command in named)


@pytest.mark.parametrize("module", MODULES)
def test_module_registers_the_commands_that_it_is_imported_for(module: str) -> None:
    program = typer.Typer()
    import_module(f"hwd.cli.commands.{module}").add_to(program)
    assert sorted(commands(program)) == sorted(MODULES[module])


@pytest.mark.parametrize("command", [None, "no-such-command", "--help"])
def test_what_is_no_command_meets_the_whole_program(command: str | None) -> None:
    assert commands(make_program(command)) == commands(make_program())


def test_status_imports_nothing_that_is_slow_and_that_it_does_not_need() -> None:
    done = subprocess.run([sys.executable, "-c", STATUS], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert said["status"] == 4, done.stderr
    assert "httpx" in said["modules"]
    assert SLOW.isdisjoint(said["modules"]), SLOW & set(said["modules"])


def test_a_daemon_loads_no_ssh_before_it_starts_a_program_over_it() -> None:
    """Half a second, and packages that a rack of twins does not need."""
    done = subprocess.run(
        [sys.executable, "-c", "import sys, hwd.daemon.serve; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "hwd.rollout.processes.host_processes" in done.stdout.split()
    assert "paramiko" not in done.stdout.split()
