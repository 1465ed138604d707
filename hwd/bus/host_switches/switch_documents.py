"""HostSwitches: the documents of switches that hosts drive, made from the events and answers of their agents.

While the agent of a host is down, the state of its switches is unknown.
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

REPORTS: Final = frozenset({"up", "down", "read", "command", "power", "override", "restarted"})
"""What an agent may report of a switch: the field `what` of its event."""
STATE_REPORTS: Final = frozenset({"up", "down", "read"})
"""The reports that hold the state of a switch."""

log = logging.getLogger(__name__)


class HostSwitches:
    """A `Sink`.

    Emits `switch.up`, `.down`, `.read` ... as the supervisor of a switch of the daemon does, with the host's name
    added, and `switch.unknown`.

    A state in an event of an earlier boot, from before the agent's last answer (its spool may hold many), or from a
    host that does not own the switch, is ignored.
    """

    TAKES: ClassVar = ("host.event", "host.birth", "host.down")

    def __init__(self, testbed: Testbed, *, clock: Clock, sink: Sink) -> None:
        self._owners = {name: one.owner for name, one in testbed.switches.items() if one.owner is not None}
        self._clock = clock
        self._sink = sink
        self._boots: dict[str, str] = {}
        self._answered_ns: dict[str, int] = {}
        self._carried: dict[str, tuple[CrossconnectReading, ...]] = {}

    def crossconnects(self) -> Mapping[str, tuple[CrossconnectReading, ...]]:
        """The present crossconnects of each switch; a switch in an unknown state is left out."""
        return dict(self._carried)

    def __call__(self, document: Document) -> None:
        data = document.data
        match document.kind:
            case "host.birth":
                if self._boots.get(str(data["host"])) != data["boot"]:
                    self._answered_ns.pop(str(data["host"]), None)  # the new boot may have another clock
                self._boots[str(data["host"])] = str(data["boot"])
            case "host.down":
                self._lose(str(data["host"]), str(data["cause"]))
            case "host.event" if data["type"] == "switch" and isinstance(data["data"], Mapping):
                host, agent_ns = str(data["host"]), data["agent_ns"]
                if data["boot"] == self._boots.get(host):
                    old = isinstance(agent_ns, int) and agent_ns < self._answered_ns.get(host, agent_ns)
                    self._take(host, data["data"], old=old)

    def take_answer(self, host: str, switches: Mapping[str, Any], at_ns: int) -> None:
        """Take the state of a host's switches from an answer of its agent at `at_ns` of that agent's clock."""
        self._answered_ns[host] = at_ns
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

    def _take(self, host: str, report: Mapping[str, Json], *, old: bool) -> None:
        kind, name = f"switch.{report.get('what')}", report.get("switch")
        if report.get("what") not in REPORTS or not isinstance(name, str) or self._owners.get(name) != host:
            log.debug("%s: tells %s of %s, which is not its own to tell", host, kind, name)
            return
        if old and report["what"] in STATE_REPORTS:
            return
        data = {key: value for key, value in report.items() if key != "what"}
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


def _readings(crossconnects: Json) -> tuple[CrossconnectReading, ...]:
    if not isinstance(crossconnects, list | tuple):
        raise TypeError(f"{crossconnects!r} is no list of crossconnects")
    return tuple(
        CrossconnectReading(crossconnect=Crossconnect.parse(str(one["id"])), state=CrossconnectState(str(one["state"])))
        for one in crossconnects
        if isinstance(one, Mapping)
    )
