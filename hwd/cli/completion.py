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
            with Client.find() as hwd:
                return sorted({name for name in ask(hwd) if name.startswith(incomplete)})
        except HwdError:
            return []  # a shell cannot show an error; the command itself will

    return names


def _runs(hwd: Any) -> Iterable[str]:
    from hwd.client import calls

    return (str(run["id"]) for run in _soon(hwd, calls.runs()))


def _leases(hwd: Any) -> Iterable[str]:
    from hwd.client import calls

    return (str(lease["lease"]) for lease in _soon(hwd, calls.leases()))


def _status(hwd: Any) -> dict[str, Any]:
    from hwd.client import calls

    status: dict[str, Any] = _soon(hwd, calls.status())
    return status


def _soon(hwd: Any, call: Any) -> Any:
    from dataclasses import replace

    return hwd.ask(replace(call, within_s=WITHIN_S))


def playbooks(incomplete: str) -> list[str]:
    """Playbooks that are part of hwd; the shell completes files itself."""
    from hwd.config.shipped import names_of

    return [name for name in names_of("playbooks") if name.startswith(incomplete)]


def topologies(incomplete: str) -> list[str]:
    """Generated topologies; the shell completes files itself."""
    from hwd.topology.generate import GENERATORS

    return [name for name in GENERATORS if name.startswith(incomplete)]


runs = _offered(_runs)
leases = _offered(_leases)
reconfigurations = _offered(lambda hwd: (one["reconfiguration"] for one in _status(hwd).get("reconfigurations", ())))
switches = _offered(lambda hwd: (one["switch"] for one in _status(hwd)["switches"]))
hosts = _offered(lambda hwd: (one["host"] for one in _status(hwd)["hosts"]))
subjects = _offered(
    lambda hwd: (
        str(one[kind])
        for kind in ("switch", "host")
        for one in _status(hwd)["switches" if kind == "switch" else "hosts"]
    )
)
"""Subjects of faults."""
