"""`python -m hwd.cli`: the command line of this very interpreter, for processes that start another."""

from hwd.cli.program import main

main()
