"""The command line: turns arguments into calls."""

from hwd.cli.run_command import main

__all__ = ["main"]
