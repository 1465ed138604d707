"""Epochs: the lease of the daemon under which this host may set its switches, or why it may not."""

from collections.abc import Callable, Collection, Mapping

from hwd_agents.spool.spool import Mark
from hwd_drivers.core.errors import RefusedError

NEVER = "it was never granted to this host. The daemon grants it when this agent connects"


class Epochs:
    """One epoch for each switch, counted by the daemon. The highest known one is a mark in the spool; no older counts.

    An agent that starts holds none: a grant ends with the process that received it.
    """

    def __init__(
        self, switches: Collection[str], marks: Mapping[str, Mark], set_mark: Callable[[str, Mark], None]
    ) -> None:
        self._set_mark = set_mark
        self._last = {name: int(marks[_mark(name)]["epoch"]) if _mark(name) in marks else 0 for name in switches}
        self._granted: dict[str, int] = {}
        self._why = {name: _why_at_start(marks.get(_mark(name))) for name in switches}

    def granted(self, switch: str) -> int | None:
        """The epoch in force."""
        return self._granted.get(switch)

    def last(self, switch: str) -> int:
        """The highest known epoch, 0 for none."""
        return self._last[switch]

    def why_not(self, switch: str) -> str:
        """Why no epoch is in force; empty when one is."""
        return "" if switch in self._granted else self._why[switch]

    def check(self, switch: str, epoch: int | None) -> int:
        """The epoch in force. Raises RefusedError when there is none, or another than `epoch`."""
        now = self._granted.get(switch)
        if now is None:
            raise RefusedError(f"{switch}: this host may not set it now: {self._why[switch]}")
        if epoch is not None and epoch != now:
            raise RefusedError(
                f"{switch}: epoch {epoch} is not in force, epoch {now} is. Read its state, then ask again"
            )
        return now

    def grant(self, switch: str, epoch: int) -> None:
        """Permit the switch to be set. Raises RefusedError for an epoch that is over, or for an unknown switch."""
        self._check_known(switch)
        if self._granted.get(switch) == epoch:
            return
        if epoch <= self._last[switch]:
            raise RefusedError(f"{switch}: epoch {epoch} is over, {self._last[switch]} is known already")
        self._keep(switch, epoch, None)
        self._granted[switch] = epoch

    def take_back(self, switch: str, epoch: int, why: str) -> None:
        """Forbid the switch until the next grant. Raises RefusedError when a later epoch was granted meanwhile."""
        self._check_known(switch)
        if epoch < self._last[switch]:
            raise RefusedError(f"{switch}: epoch {epoch} is over, {self._last[switch]} was granted meanwhile")
        self._granted.pop(switch, None)  # first: it is over even if the disk fails
        self._why[switch] = why
        self._keep(switch, epoch, why)

    def _keep(self, switch: str, epoch: int, why: str | None) -> None:
        self._set_mark(_mark(switch), {"epoch": epoch, "taken_back": why})
        self._last[switch] = epoch

    def _check_known(self, switch: str) -> None:
        if switch not in self._last:
            raise RefusedError(f"{switch}: no switch of this agent's file; there are {', '.join(self._last) or 'none'}")


def _mark(switch: str) -> str:
    return f"epoch:{switch}"


def _why_at_start(mark: Mark | None) -> str:
    if mark is None:
        return NEVER
    if mark["taken_back"] is not None:
        return str(mark["taken_back"])
    return (
        f"epoch {mark['epoch']} ended with the agent before this one, and the daemon has not granted another yet. "
        "Is the daemon up?"
    )
