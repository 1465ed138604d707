"""Runs the `hwd` command line in a process that gets SIGTERM when the tests that started it end, even when they are
killed.

python -m hwd.testing.parent_death PARENT_PID serve testbed.yaml ...
"""

import ctypes
import os
import runpy
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def main(parent: int) -> None:
    """Run the command line with the remaining arguments."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(f"hwd: the tests that started it, pid {parent}, have ended already")
    runpy.run_module("hwd.cli", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(int(sys.argv.pop(1)))
