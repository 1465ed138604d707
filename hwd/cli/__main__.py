"""`python -m hwd.cli` runs the command line in the present interpreter, for processes that start another."""

from hwd.cli.entry import main

main()
