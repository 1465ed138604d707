"""Starts of our own interpreter: quick ones, that leave the working folder alone, whose `statistics.py` is not the
library's.
"""

import gc
import os
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager


def own_python(*arguments: str) -> list[str]:
    """The command that runs our interpreter with these arguments, such as `-m hwd.cli`. Without `-P` Python would look
    for modules in the working folder first. Syntax warnings of libraries, which come when those are compiled at their
    first import, are for their authors.
    """
    return [sys.executable, "-P", "-W", "ignore::SyntaxWarning", *arguments]


def leave_working_folder(environment: MutableMapping[str, str] = os.environ) -> None:
    """Import nothing from the working folder from here on, and let no child do so: entry points call it first.

    Python looks there first for `python -m`, and for an empty part of PYTHONPATH, as `PYTHONPATH=$PYTHONPATH:/srv/lib`
    leaves one. A working folder that PYTHONPATH names stays.
    """
    parts = environment.get("PYTHONPATH", "").split(os.pathsep)
    wanted = [part for part in parts if part]
    if wanted != parts and "PYTHONPATH" in environment:
        environment["PYTHONPATH"] = os.pathsep.join(wanted)
        if not wanted:
            del environment["PYTHONPATH"]
    try:
        here = os.getcwd()
    except FileNotFoundError:  # it was removed, and nothing can be imported from it
        here = ""
    if here in (os.path.abspath(part) for part in wanted):
        return
    library = os.path.dirname(os.__file__)
    first = sys.path.index(library) if library in sys.path else len(sys.path)  # what .pth files name comes after it
    sys.path[:first] = [part for part in sys.path[:first] if part not in ("", here)]


@contextmanager
def uncollected() -> Iterator[None]:
    """Stop the garbage collector for imports at a start: all that they make stays, and to look through it again and
    again takes a fifth of it.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
