"""The program `hwd`: runs one command, and maps its errors to exit statuses."""

import errno
import itertools
import sys
from collections.abc import Sequence
from typing import Final

import typer

from hwd.cli.command_table import make_program
from hwd.cli.output import Output
from hwd.model.plural import plural
from hwd_drivers.core.errors import BugError, ConfigError, DeviceError, FailedError, HwdError, NotRolledBackError
from hwd_drivers.core.standard_streams import ReaderGoneError

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of disks that no code of ours expects at each write, such as that of a temporary folder."""


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
    except ReaderGoneError:
        return 0
    except OSError as error:
        if error.errno not in FULL:
            raise
        failed = FailedError(f"{error.filename or 'a file'}: cannot be written: {error.strerror}. Free some room")
        output.note(text_of(failed))
        output.data({"error": data_of(failed)})
        return failed.exit_status


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
