"""Runs an agent in a process that is killed when its rack ends, however that ends: a killed rack cannot stop it in
order.

    python parent_death.py PARENT_PID --config FILE

Run by its file, so that nothing of `hwd` is imported: an agent stays small.
"""

import ctypes
import os
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def main(parent: int) -> None:
    """Run the agent."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(f"hwd-agent: its rack, pid {parent}, has ended already")
    from hwd_agents.process import main as cli

    cli.main()


if __name__ == "__main__":
    number = int(sys.argv.pop(1))
    sys.argv[0] = "hwd-agent"
    main(number)
