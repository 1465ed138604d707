"""Names for the shell's completion, partly from the daemon; none where it does not answer in time."""

from collections.abc import Callable, Iterable
from typing import Any

WITHIN_S = 1.0
"""For the daemon's answer: a person waits for it."""


def _offered(ask: Callable[[Any], Iterable[str]]) -> Callable[[str], list[str]]:
    def names(incomplete: str) -> list[str]:
        from hwd.client import Client
        from hwd_drivers.core.errors import HwdError

        try:
            with Client.find(within_s=WITHIN_S) as hwd:
                return sorted({name for name in ask(hwd) if name.startswith(incomplete)})
        except HwdError:
            return []  # a shell cannot show an error; the command itself will

    return names


def playbooks(incomplete: str) -> list[str]:
    """Playbooks that are part of hwd; the shell completes files itself."""
    from hwd.config.shipped_file import names_of

    return [name for name in names_of("playbooks") if name.startswith(incomplete)]


def topologies(incomplete: str) -> list[str]:
    """Generated topologies; the shell completes files itself."""
    from hwd.config.topologies import names

    return [name for name in names() if name.startswith(incomplete)]


runs = _offered(lambda hwd: (run.id for run in hwd.runs()))
leases = _offered(lambda hwd: (lease.id for lease in (*hwd.leases(), *hwd.lease_requests())))
demands = _offered(lambda hwd: (one.name for one in hwd.demands()))
sets = _offered(lambda hwd: (one.id for one in hwd.sets()))
targets = _offered(lambda hwd: (target.id for one in hwd.sets() for target in one.targets))
reconfigurations = _offered(lambda hwd: (one.id for one in hwd.status().reconfigurations))
switches = _offered(lambda hwd: (one.name for one in hwd.switches()))
hosts = _offered(lambda hwd: (one.name for one in hwd.hosts()))
subjects = _offered(lambda hwd: (one.name for one in (*hwd.switches(), *hwd.hosts())))
"""Subjects of faults."""
