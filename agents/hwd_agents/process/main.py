"""main: the entry point of `hwd-agent`. Each of its commands imports only what it needs."""

import sys
from pathlib import Path

from hwd_drivers.core.own_python import leave_working_folder, uncollected


def main() -> None:
    """Run `hwd-agent`, `hwd-agent select` or `hwd-agent put-back`, as sys.argv says."""
    leave_working_folder()
    from hwd_drivers.core.standard_streams import run_program
    from hwd_drivers.core.user import name_user

    name_user()
    run_program("hwd-agent", _run)


def _run() -> None:
    match sys.argv[1:]:
        case ["--config", path] if not path.startswith("-"):
            with uncollected():
                from hwd_agents.process.serve import serve  # it runs for months: without typer, which takes 2.7 MB

            sys.exit(serve(Path(path)))
        case ["select", *_]:
            from hwd_agents.switches import select_command

            del sys.argv[1]
            select_command.main()
        case _:
            from hwd_agents.process import command_line

            command_line.main()
