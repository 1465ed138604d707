"""A program on the leash of the tests that started it: it is killed when they end, however that is.

python -E -S leash.py PARENT_PID PROGRAM ARGUMENT...
"""

import ctypes
import os
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def leashed() -> list[str]:
    """What to put before a command, for one that this process starts."""
    return [sys.executable, "-E", "-S", "-P", __file__, str(os.getpid())]


def main(parent: int, command: list[str]) -> None:
    """Become the program; the leash stays on it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(f"{command[0]}: the tests that started it, pid {parent}, are gone already")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
