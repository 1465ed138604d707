"""The program `hwd`: runs one command, and maps its errors to exit statuses."""

import itertools
import os
import sys
from collections.abc import Sequence

import typer

from hwd.cli.command_table import make_program
from hwd.cli.output import Output
from hwd.model.plural import plural
from hwd_drivers.core.errors import BugError, ConfigError, DeviceError, HwdError, NotRolledBackError


def main() -> None:
    """Run the command in sys.argv, and exit with its status."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit status."""
    output = Output(json="--json" in itertools.takewhile("--".__ne__, arguments))
    command = next(iter(arguments), None)
    try:
        status = make_program(command)(args=list(arguments), prog_name="hwd", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except typer.TyperException as error:
        _show(error)
        output.data(
            {"error": {"title": ConfigError.title, "detail": error.format_message(), "exit_status": error.exit_code}}
        )
        return error.exit_code
    except typer.Abort:
        output.note("Aborted.")
        return 1
    except BugError as error:
        output.data({"error": data_of(error)})
        raise  # its traceback says where
    except HwdError as error:
        (output.remark if isinstance(error, ConfigError) else output.note)(text_of(error))
        output.data({"error": data_of(error)})
        return error.exit_status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output closed it, as `head` does; Python would complain again at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _show(error: typer.TyperException) -> None:
    """Print usage and message; errors of arguments can write themselves."""
    if (show := getattr(error, "show", None)) is not None:
        show()
    else:
        typer.echo(f"Error: {error.format_message()}", err=True)


def text_of(error: HwdError) -> str:
    """One line; of several problems, such as those of a file, one for each, after a line with their number."""
    lines = str(error).splitlines() or [error.title]
    if isinstance(error, ConfigError) and len(lines) > 1 and not lines[1].startswith(" "):
        return "\n".join([f"hwd: {error.title}: {plural(len(lines), 'problem')}:", *lines])
    return f"hwd: {error.title}: {error}"


def data_of(error: HwdError) -> dict[str, object]:
    data: dict[str, object] = {"title": error.title, "detail": str(error), "exit_status": error.exit_status}
    if isinstance(error, DeviceError):
        data |= {"device": error.device, "command": error.command, "code": error.code, "text": error.text}
    if isinstance(error, NotRolledBackError):
        data["switches"] = [*error.switches]
    return data
