"""Measures each path of the program against its floor, in turns in one run: `python -m bench`."""
