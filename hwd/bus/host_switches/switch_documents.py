"""What hosts tell of the switches that they drive, as documents of those switches; while a host is away nobody knows
how they stand.
"""

import logging
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from hwd.model.kinds import KINDS
from hwd.model.testbed import Testbed
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Json, Sink
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState

TOLD: Final = frozenset({"up", "down", "read", "command", "power", "override", "restarted"})
"""What an agent may tell of a switch."""
STANDS: Final = frozenset({"up", "down", "read"})
"""What of it is how it stands."""

log = logging.getLogger(__name__)


class HostSwitches:
    """A `Sink`.

    Emits `switch.up`, `.down`, `.read` ... with the host's name in them, as the supervisor of a switch of our own does,
    and `switch.unknown`.

    `given` is what they carry, for plans. An event of an earlier boot, of before the host's last answer (its spool may
    hold many), or of a host that does not own the switch, changes nothing.
    """

    TAKES: ClassVar = ("host.event", "host.birth", "host.down")

    def __init__(self, testbed: Testbed, *, clock: Clock, sink: Sink) -> None:
        self._owners = {name: one.owner for name, one in testbed.switches.items() if one.owner is not None}
        self._clock = clock
        self._sink = sink
        self._boots: dict[str, str] = {}
        self._told_ns: dict[str, int] = {}
        self._carried: dict[str, tuple[CrossconnectReading, ...]] = {}

    def given(self) -> Mapping[str, tuple[CrossconnectReading, ...]]:
        """What each carries now; one of which nobody can tell is not there."""
        return dict(self._carried)

    def __call__(self, document: Document) -> None:
        data = document.data
        match document.kind:
            case "host.birth":
                if self._boots.get(str(data["host"])) != data["boot"]:
                    self._told_ns.pop(str(data["host"]), None)  # by another clock, perhaps
                self._boots[str(data["host"])] = str(data["boot"])
            case "host.down":
                self._lose(str(data["host"]), str(data["cause"]))
            case "host.event" if data["type"] == "switch" and isinstance(data["data"], Mapping):
                host, agent_ns = str(data["host"]), data["agent_ns"]
                if data["boot"] == self._boots.get(host):
                    old = isinstance(agent_ns, int) and agent_ns < self._told_ns.get(host, agent_ns)
                    self._take(host, data["data"], old=old)

    def told(self, host: str, switches: Mapping[str, Any], at_ns: int) -> None:
        """How the switches of a host stand, as its agent has answered, at this time of its own clock."""
        self._told_ns[host] = at_ns
        for name, note in switches.items():
            if self._owners.get(name) != host:
                continue
            if not note["up"]:
                self._emit("switch.down", host, {"switch": name, "cause": note["cause"]})
                continue
            identity = {key: note[key] for key in ("vendor", "model", "serial", "firmware")}
            self._emit("switch.up", host, {"switch": name, **identity, "down_s": 0.0})
            read = {"crossconnects": note["crossconnects"] or [], "added": [], "removed": [], "ours": True}
            self._emit("switch.read", host, {"switch": name, **read})

    def _take(self, host: str, told: Mapping[str, Json], *, old: bool) -> None:
        kind, name = f"switch.{told.get('what')}", told.get("switch")
        if told.get("what") not in TOLD or not isinstance(name, str) or self._owners.get(name) != host:
            log.debug("%s: tells %s of %s, which is not its own to tell", host, kind, name)
            return
        if old and told["what"] in STANDS:
            return
        data = {key: value for key, value in told.items() if key != "what"}
        if not KINDS[kind] <= data.keys():
            log.debug("%s: %s of %s lacks fields", host, kind, name)
            return
        self._emit(kind, host, data)

    def _emit(self, kind: str, host: str, data: dict[str, Json]) -> None:
        name = str(data["switch"])
        match kind:
            case "switch.read":
                try:
                    self._carried[name] = _readings(data["crossconnects"])
                except (ConfigError, ValueError, KeyError, TypeError) as error:
                    log.warning("%s: what host %s tells of it makes no sense: %s", name, host, error)
                    return
            case "switch.down" | "switch.unknown":
                self._carried.pop(name, None)
        at_ns, wall_ns = self._clock.monotonic_ns(), self._clock.wall_ns()
        self._sink(Document(kind=kind, at_ns=at_ns, wall_ns=wall_ns, data={**data, "host": host}))

    def _lose(self, host: str, cause: str) -> None:
        for name, owner in self._owners.items():
            if owner == host:
                self._emit("switch.unknown", host, {"switch": name, "cause": f"host {host} is away: {cause}"})


def _readings(told: Json) -> tuple[CrossconnectReading, ...]:
    if not isinstance(told, list | tuple):
        raise TypeError(f"{told!r} is no list of crossconnects")
    return tuple(
        CrossconnectReading(crossconnect=Crossconnect.parse(str(one["id"])), state=CrossconnectState(str(one["state"])))
        for one in told
        if isinstance(one, Mapping)
    )
