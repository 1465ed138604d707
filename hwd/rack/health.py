"""RackHealth: which hosts and NIC ports the daemon knows to be out of order, for the planes of jobs."""

from collections.abc import Callable

from hwd.fabric.in_use import InUse
from hwd.model.nic_port import NicPortId


class RackHealth:
    """The health of a rack. `carrier`: of a NIC port, None where it is not known. `is_there`: whether the agent of a
    host reports now. `cause`: why a switch cannot be reached now, None where it can or where a host drives it.
    """

    def __init__(
        self,
        in_use: InUse,
        *,
        carrier: Callable[[NicPortId], bool | None],
        is_there: Callable[[str], bool],
        cause: Callable[[str], str | None],
    ) -> None:
        self._in_use = in_use
        self._carrier = carrier
        self._is_there = is_there
        self._cause = cause

    def why_away(self, host: str) -> str:
        """Why nothing of a host can be known now; empty where its agent reports."""
        return "" if self._is_there(host) else "its agent is away"

    def why_unsteerable(self, port: NicPortId) -> str:
        """Why the light of a NIC port cannot be moved now; empty where it can."""
        switches = dict.fromkeys(one.owner for one in self._in_use.fabric.switch_ends.get(port, ()))
        away = [f"{name}: {why}" for name in switches if (why := self._cause(name)) is not None]
        return f"its light cannot be moved: {'; '.join(away)}" if away else ""

    def why_set_aside(self, port: NicPortId) -> str:
        """Why the testbed file keeps light away from a NIC port; empty where it does not."""
        notes = (self._in_use.fabric.set_aside.get(end) for end in self._in_use.fabric.switch_ends.get(port, ()))
        return next((f"the end of its fibre is {note}" for note in notes if note is not None), "")

    def carrier(self, port: NicPortId) -> bool | None:
        """Whether a port has a carrier; None where its agent is away, or has not found the port yet."""
        return self._carrier(port)
