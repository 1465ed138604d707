"""The program `hwd`: its commands, and what any error of theirs ends with."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from hwd.cli import changing, experiments, faults, leasing, racks, results, watching
from hwd.cli.output import Output
from hwd_drivers.kit.errors import BugError, ConfigError, DeviceError, HwdError

program = typer.Typer(
    name="hwd",
    help="Runs a rack of hosts and optical circuit switches, real or twins, and times every reconfiguration.",
    epilog="Exit status: 0 done; 1 failed; 2 bad input; 3 refused; 4 unreachable; 5 not ready in time; 130 aborted.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"hwd {version('hwd-daemon')}")
        raise typer.Exit


@program.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", help="Say the version.", is_eager=True, callback=_say_version)
    ] = False,
) -> None:
    pass


racks.add_to(program)
watching.add_to(program)
changing.add_to(program)
experiments.add_to(program)
results.add_to(program)
leasing.add_to(program)
faults.add_to(program)


def main() -> None:
    """The entry point."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Do one command; returns the exit status."""
    output = Output(json="--json" in arguments)
    try:
        program(args=list(arguments), prog_name="hwd")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BugError:
        raise
    except HwdError as error:
        output.note(text_of(error))
        output.data({"error": data_of(error)})
        return error.exit_status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Who read our output has had enough, as `head` does; Python would complain once more at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return 0


def text_of(error: HwdError) -> str:
    """One line, or one a problem where a file has several."""
    lines = str(error).splitlines() or [error.title]
    if isinstance(error, ConfigError) and len(lines) > 1:
        return "\n".join(lines)
    return f"hwd: {error.title}: {error}"


def data_of(error: HwdError) -> dict[str, object]:
    data: dict[str, object] = {"title": error.title, "detail": str(error), "exit_status": error.exit_status}
    if isinstance(error, DeviceError):
        data |= {"device": error.device, "command": error.command, "code": error.code, "text": error.text}
    return data
