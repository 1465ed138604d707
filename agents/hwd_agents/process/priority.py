"""ask_for_real_time: raises the priority of the agent's process above other processes of the host, if permitted."""

import logging
import os
from typing import Final

LOWEST: Final = 1
"""Any real-time priority is above every normal process; the lowest one stays below the kernel's own threads."""

_log = logging.getLogger(__name__)


def ask_for_real_time() -> bool:
    """Ask for SCHED_RR; returns whether the kernel grants it (root, CAP_SYS_NICE or RLIMIT_RTPRIO).

    A carrier change is then stamped 0.03 ms (p99 0.1) after a blocking listener would have it, instead of 0.06
    (p99 0.2), and a busy host does not delay it by a time slice of 3 to 4 ms. Child processes of the agent are normal.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(LOWEST))
    except OSError as error:
        _log.info(
            "no real-time priority (%s): while the host is busy, stamps are some milliseconds late", error.strerror
        )
        return False
    return True
