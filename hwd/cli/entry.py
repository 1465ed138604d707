"""The entry point of `hwd`: it leaves the working folder alone before it imports anything else."""

from hwd_drivers.core.own_python import leave_working_folder


def main() -> None:
    """Run the command line."""
    leave_working_folder()
    from hwd.cli.run_command import main as run

    run()
