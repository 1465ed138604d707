"""The commands of `hwd`, by module; only the module of the called command is imported."""

from importlib import import_module
from typing import Annotated

import typer

from hwd_drivers.core.own_python import uncollected

MODULES = {
    "racks": ("demo", "check", "schema", "serve"),
    "status": ("status",),
    "watch": ("watch",),
    "tokens": ("token",),
    "apply": ("plan", "apply", "confirm", "rollback", "give-up"),
    "restore": ("restore", "history"),
    "sets": ("prepare", "switch", "sets", "release"),
    "experiments": ("run", "abort", "pause", "resume", "queue", "runs"),
    "results": ("show", "report", "compare", "export"),
    "trials": ("trial",),
    "verify": ("verify",),
    "block": ("block", "unblock"),
    "faults": ("fault",),
    "service": ("install-service", "reload"),
    "sim": ("sim",),
    "twins": ("twin",),
    "leases": ("lease",),
    "drivers": ("driver",),
    "agents": ("agent",),
    "hosts": ("host",),
    "jobs": ("job",),
    "demands": ("demand",),
    "brokers": ("broker",),
}
"""Importing all of them takes longer than most commands."""


def make_program(command: str | None = None) -> typer.Typer:
    """The whole program, or, where `command` names a command, only what that one needs."""
    program = typer.Typer(
        name="hwd",
        help="Runs a rack of hosts and optical circuit switches, real or twins, and times every reconfiguration.",
        epilog="Example: hwd demo. Exit status: 0 done; 1 failed; 2 bad input; 3 refused; 4 unreachable; "
        "5 not ready in time; 6 not ready and not rolled back; 130 aborted.",
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    program.callback()(_program)
    named = [module for module, commands in MODULES.items() if command in commands]
    for module in named or MODULES:
        with uncollected():
            commands = import_module(f"hwd.cli.commands.{module}").commands
        program.add_typer(commands)
    return program


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"hwd {version('hwd-daemon')}")
        raise typer.Exit


def _program(
    version: Annotated[
        bool, typer.Option("--version", help="Say the version.", is_eager=True, callback=_say_version)
    ] = False,
) -> None:
    pass
