"""NIC settings that runs have in force, and what was done to NIC ports of late, as documents tell it."""

from collections import deque
from collections.abc import Iterable, Mapping

from hwd.model.testbed import Setting
from hwd.timeline.host_action import HostAction
from hwd_drivers.core.documents import Document, Json

TOLD = frozenset({Setting.MTU, Setting.AUTONEG, Setting.FEC})
"""Of these a port has one value each, which times can depend on."""
PUT_BACK = "put-back"
ACTIONS_MAX = 4096
"""That are remembered: all ports of a large rack some times over."""


class HostSettings:
    """Takes `run.host` documents. Nothing of before a restart is in it: what a run left set then is put back before its ports are free."""

    def __init__(self) -> None:
        self._in_force: dict[str, dict[str, Json]] = {}
        self._actions: deque[HostAction] = deque(maxlen=ACTIONS_MAX)

    def see(self, document: Document) -> None:
        data = document.data
        port = str(data["port"])
        self._actions.append(HostAction.of(data, at_ns=document.at_ns))
        if data["action"] == PUT_BACK:
            self._in_force.get(port, {}).pop(str(data.get("setting")), None)
        elif data["action"] in TOLD and "value" in data:
            self._in_force.setdefault(port, {})[str(data["action"])] = data["value"]

    def in_force(self, ports: Iterable[str]) -> dict[str, Mapping[str, Json]]:
        """What is set of these ports, those left out of which nothing is."""
        return {port: dict(found) for port in sorted(ports) if (found := self._in_force.get(port))}

    @property
    def actions(self) -> tuple[HostAction, ...]:
        """The latest, oldest first."""
        return tuple(self._actions)
