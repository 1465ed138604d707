"""The entry point of `hwd`: what holds for all commands, before any of them is imported."""

from hwd_drivers.core.own_python import leave_working_folder, uncollected


def main() -> None:
    """Run the command line."""
    leave_working_folder()
    from hwd_drivers.core.standard_streams import run_program
    from hwd_drivers.core.user import name_user

    name_user()
    run_program("hwd", _run)


def _run() -> None:
    with uncollected():
        from hwd.cli.run_command import main

    main()
