"""The command line: turns arguments into calls."""

from hwd.cli.entry import main

__all__ = ["main"]
