"""A process of hwd on the leash of the tests that started it: it ends when they do, however that ends.

python -m hwd.testing.leash PARENT_PID serve testbed.yaml ...
"""

import ctypes
import os
import runpy
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def main(parent: int) -> None:
    """Become the command line, with what is left of the arguments."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(f"hwd: the tests that started it, pid {parent}, are gone already")
    runpy.run_module("hwd.cli", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(int(sys.argv.pop(1)))
