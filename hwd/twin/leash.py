"""An agent's process on the leash of its rack: it ends when the rack does, however that ends. Where the rack is killed so is the agent: nobody stopped it in order.

    python leash.py PARENT_PID --config FILE

Run by its file, so that nothing of `hwd` is imported: an agent stays small.
"""

import ctypes
import os
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def main(parent: int) -> None:
    """Become the agent."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(f"hwd-agent: its rack, pid {parent}, is gone already")
    from hwd_agents.process import main as cli

    cli.main()


if __name__ == "__main__":
    number = int(sys.argv.pop(1))
    sys.argv[0] = "hwd-agent"
    main(number)
