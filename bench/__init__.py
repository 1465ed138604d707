"""The benchmark: measures each path of the program in turn with a bare loop, its floor: `python -m bench`."""
