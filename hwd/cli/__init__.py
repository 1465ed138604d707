"""The command line: arguments to calls."""

from hwd.cli.program import main

__all__ = ["main"]
