"""Priority of the agent's process: before whatever else runs on the host, where that is allowed."""

import logging
import os
from typing import Final

LOWEST: Final = 1
"""Any real-time priority comes before every normal process; the lowest one leaves the kernel's own threads in front."""

_log = logging.getLogger(__name__)


def ask_for_real_time() -> bool:
    """Ask for SCHED_RR; returns whether the kernel (root, CAP_SYS_NICE or RLIMIT_RTPRIO) gives it.

    A carrier change is then stamped 0.03 ms after a blocking listener would have it (p99 0.1), instead of 0.06 (p99 0.2), and a busy host does not
    hold it up for a time slice of 3 to 4 ms. Processes that the agent starts are normal ones.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(LOWEST))
    except OSError as error:
        _log.info(
            "no real-time priority (%s): while the host is busy, stamps come some milliseconds late", error.strerror
        )
        return False
    return True
