"""The command line: turns arguments into calls."""

from hwd.cli.program import main

__all__ = ["main"]
